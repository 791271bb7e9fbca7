"""Files of recorded markets: read, checked, and refused with line and column.

How a recorded day is played again stands in `sandbox/markets/replay/`.
"""
