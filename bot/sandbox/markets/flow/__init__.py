"""The order flow of tens of symbols: investors who come and go by themselves."""
