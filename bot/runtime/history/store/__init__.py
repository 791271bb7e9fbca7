"""Bars on disk: files of many kinds read, checked, imported and fetched into a store of our own.

Not here: what is done with bars. A backtest or a warm-up asks for a `BarSource` and no more.
"""
