"""The engine on past days: a broker that fills from bars or recorded depth, and the results.

Showing a result is up to the CLI, and bars come from the rest of `history`.
"""
