"""Durable memory: what was decided, asked, sent, answered and filled, in SQLite or PostgreSQL.

It keeps facts and gives them back; what follows from them is decided in `engine/`.
"""
