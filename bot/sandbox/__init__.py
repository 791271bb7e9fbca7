"""The broker, played: an exchange core, accounts, and the API on loopback that speaks for them.

It knows the protocol and no part of the bot: the bot meets it over the wire alone.
"""
