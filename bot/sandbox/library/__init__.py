"""The market's library: all that the API answers but quotes and orders of listed stocks.

It is made up, from one seed, and hangs together: made of what the exchanges play and of small
tables (`tables/`), never of real figures. A call is answered by the method of its name.
"""
