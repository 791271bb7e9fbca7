"""Durable memory: what was decided, asked, sent, answered and filled, in SQLite or PostgreSQL.

It stores and returns facts; `engine/` decides what follows from them.
"""
