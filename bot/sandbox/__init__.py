"""The broker, played: an exchange core, accounts, and the API on loopback that speaks for them."""
