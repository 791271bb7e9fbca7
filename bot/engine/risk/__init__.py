"""Whether an order may be sent, how large, and from which means: checks, sizing, cash and shares.

Nothing here sends, or remembers an order; the checks are pure functions.
"""
