"""The exchange core: pure and deterministic, integers only, no clock, no I/O.

`venue.Venue` matches orders as HOSE, HNX and UPCOM do; `accounts.Account` keeps the money and
the shares of one sub-account. The shell asks `Venue.refusal` and `Account.can_place`, reserves,
submits, and hands every event that comes back to `Account.apply`.
"""
