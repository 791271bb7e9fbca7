"""The simulated broker: an exchange core, accounts, and their API on loopback.

It knows the protocol but no part of the bot; the bot reaches it only over the wire.
"""
