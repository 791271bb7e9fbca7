"""Does a server conform to the document? The document's statements as data, and the run that
checks.

The bot does not need it, and it imports neither engine nor journal.
"""
