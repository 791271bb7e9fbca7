"""Durable memory: what was decided, asked, sent, answered and filled, in SQLite or PostgreSQL."""
