"""The brokerage house: accounts, orders and 2FA, everything that its ledger can rebuild.

`sandbox/api/` serves it over HTTP; `sandbox/exchange/` matches the orders.
"""
