"""Replays recorded days: bars and trades become orders in the venue.

The files are read and checked in `config/market_files/`.
"""
