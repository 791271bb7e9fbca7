"""Recorded days played again: bars and trades become orders of the venue."""
