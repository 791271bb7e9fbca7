"""The bars of before a run: asked of the broker, of earlier runs and of the store, in this order.

Not here: what they are for. The engine takes them in and says what is still missing.
"""
