"""The mirrored market: a real broker's quotes and depth, in which our orders are played.

Who asks the real broker stands in `runtime/worlds/paper/`.
"""
