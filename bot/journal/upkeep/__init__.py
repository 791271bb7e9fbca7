"""What a journal needs with the years: verified, copied, pruned.

Entries are written in `journal/writing/`, and a run needs nothing of this to decide.
"""
