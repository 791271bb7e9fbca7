"""Breaks things on purpose: a bot with its user's own strategies, beside a broker that we play.

What is broken, and what it takes to pass, is data (`exercises.yaml`); the judge is `oracle.py`,
which compares the bot's journal with the broker's ledger. All happens in a folder of its own: the
user's journal, keys and broker are never opened. Nothing that trades imports this package.
"""
