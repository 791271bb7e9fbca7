"""Messages to a person who is away: which entries become notices, and when and how they are sent.

Screens belong to the command line. Nothing here decides about trading, or may delay it.
"""
