"""The protocol over HTTP: typed reads, order writes, request budget, clock offset, 2FA session.

What a payload means is in `protocol/`; whether and when to ask is decided in `runtime/`.
"""
