"""The environments of a run: its clock, who moves it, which broker answers. One is chosen at start.

What differs between sandbox, paper and live is in this room and in none below it.
"""
