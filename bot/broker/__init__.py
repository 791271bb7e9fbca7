"""The protocol over HTTP: typed reads, order writes, request budget, clock offset, 2FA session.

`protocol/` says what a payload means; `runtime/` decides whether and when to ask.
"""
