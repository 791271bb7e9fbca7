"""Where other people's orders come from: crowd, order flow, recorded days, a mirrored market.

How orders match is in `sandbox/exchange/`; ours come through `sandbox/house/`.
"""
