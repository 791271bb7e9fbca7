"""What a run stands in: its clock, who moves it, and which broker answers. One is chosen at start.

What differs between sandbox, paper and live is in this room and in none below it.
"""
