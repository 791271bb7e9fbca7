"""The market's library: all answers of the API except quotes and orders of listed stocks.

It is invented from one seed and consistent, built from what the exchanges play and from small
tables (`tables/`), never from real figures. A call is answered by the method of its name.
"""
