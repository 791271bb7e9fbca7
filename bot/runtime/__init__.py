"""The shells: the only place where the parts meet, with one job each and one loop for all.

No rule of trading is here, and `if mode ==` in no other part.
"""
