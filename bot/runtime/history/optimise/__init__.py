"""The search for a strategy's parameters: trials on past days, in processes or on a cluster.

`backtest` plays a trial; the CLI shows the results.
"""
