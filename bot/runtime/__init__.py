"""The shells: the only place where the parts meet, with one job each and one loop for all.

Modes differ here and in no part below; the rules of trading are not here.
"""
