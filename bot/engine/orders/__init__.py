"""What becomes of an order after the decision: sent, unknown, reported, changed, recovered.

`engine/risk/` decides whether an order may be sent at all.
"""
