"""What a person who is away is told: which entries are a notice, when it goes out, and how.

What a screen shows is the command line's. Nothing here decides about trading, or may hold it up.
"""
