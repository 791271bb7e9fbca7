"""What becomes of an order that was decided: sent, unknown, reported, changed, recovered.

Whether an order may be sent at all is decided in `engine/risk/`.
"""
