"""The mirrored market: a real broker's quotes and depth, in which our orders are played.

What asks the real broker is in `runtime/worlds/paper.py`.
"""
