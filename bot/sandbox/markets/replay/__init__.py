"""Recorded days played again: bars and trades become orders of the venue.

The files are read and checked in `config/market_files/`.
"""
