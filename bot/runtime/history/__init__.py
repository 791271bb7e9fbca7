"""The bot's memory of markets: bars kept and fetched, runs recorded and replayed, strategies tried.

Not here: what decides or shows. Replay and backtest feed the engine; they hold no rule of trading.
"""
