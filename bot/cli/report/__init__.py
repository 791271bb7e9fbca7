"""What came of a backtest or a search, for a person: one screen of words, and one page of HTML.

Not here: how a figure is computed (runtime/history), and what a command asks (commands).
"""
