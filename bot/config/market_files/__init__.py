"""Files of recorded markets: read, checked, and refused with line and column.

How a recorded day is replayed is in `sandbox/markets/replay/`.
"""
