"""Sources of other investors' orders: crowd, order flow, recorded days, a mirrored market.

`sandbox/exchange/` matches them; our own orders come through `sandbox/house/`.
"""
