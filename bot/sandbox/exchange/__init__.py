"""The exchange core: pure and deterministic, integers only, no clock, no I/O.

`venue.Venue` matches orders as HOSE, HNX and UPCOM do; `accounts.Account` keeps the money and the
shares of one sub-account. The shell checks `Venue.refusal` and `Account.can_place`, reserves,
submits, and passes every returned event to `Account.apply`.
"""
