"""Does a server keep the document? What the document says, as data, and the run that asks.

The bot does not need it, and it knows neither engine nor journal.
"""
