"""Bars on disk: reads and checks files of many kinds, and imports or fetches bars into our store.

Users of bars, such as a backtest or a warm-up, only need a `BarSource`.
"""
