"""Bars from before a run: from the broker, from earlier runs and from the store, in this order.

The engine uses them and says what is still missing.
"""
