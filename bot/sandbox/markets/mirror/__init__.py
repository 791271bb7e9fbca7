"""The mirrored market: a real broker's quotes and depth, in which our orders are played."""
