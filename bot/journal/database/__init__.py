"""The database of the journal: its tables, their schema, connections, and how values are encoded.

It knows columns and files, but not when something is written or what follows from it.
"""
