"""The search for a strategy's parameters: trials on past days, in processes or on a cluster.

Not here: how a trial is played (backtest), and what a person reads of it (cli).
"""
