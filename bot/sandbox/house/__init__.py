"""The brokerage house: accounts, orders and the second factor, all that its ledger can rebuild.

How it is asked over HTTP is in `sandbox/api/`, how orders match in `sandbox/exchange/`.
"""
