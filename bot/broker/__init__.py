"""The protocol over HTTP: typed reads, order writes, budget, clock offset, 2FA."""
