"""The engine on past days: a broker that fills from bars or recorded depth, and what came of it.

Not here: what only shows a result (cli), and where bars come from (history).
"""
