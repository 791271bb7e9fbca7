"""The market's library: everything that the API tells besides quotes and orders of listed stocks.

All of it is made up, from one seed, and hangs together: it is made of what the exchanges play and
of small tables (`tables/`), never of real figures. A call is answered by the method of its name.
"""
