"""Fault drills: a bot with its user's own strategies against a simulated broker.

The faults and the conditions to pass are data (`exercises.yaml`); `oracle.py` judges by comparing
the bot's journal with the broker's ledger. Everything happens in a separate folder: the user's
journal, keys and broker are never opened. Nothing that trades imports this package.
"""
