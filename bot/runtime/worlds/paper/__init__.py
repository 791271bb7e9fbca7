"""Paper mode: the market of the real broker, our orders matched in this process.

How a fill is modelled is in `sandbox/markets/mirror/`.
"""
