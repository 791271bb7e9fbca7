"""Past markets: bars kept and fetched, runs recorded and replayed, strategies tested.

Deciding and showing happen elsewhere. Replay and backtest feed the engine; they hold no trading
rules.
"""
