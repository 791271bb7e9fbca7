"""Files of recorded markets: read, checked, and refused with line and column.

`sandbox/markets/replay/` replays the recorded days.
"""
