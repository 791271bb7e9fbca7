"""Whether an order may be sent, its size, and its means: checks, sizing, cash and shares.

Nothing here sends or stores an order; the checks are pure functions.
"""
