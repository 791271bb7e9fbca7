"""What is read from a journal: by a person, and by a start, which goes on from it.

Nothing here writes; only `folding` works before a write, so that what it groups reads the same.
"""
