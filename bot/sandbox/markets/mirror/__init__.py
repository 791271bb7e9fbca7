"""The mirrored market: our orders are matched against a real broker's quotes and depth.

`runtime/worlds/paper.py` reads the real broker.
"""
