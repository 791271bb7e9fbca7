"""The shells: the only place where the parts meet, with one job each and one loop for all.

Modes differ only here, not in the parts below. The rules of trading are elsewhere.
"""
