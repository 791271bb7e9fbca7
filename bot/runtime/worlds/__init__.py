"""The environments of a run: its clock, what moves it, which broker answers. One is chosen at
start.

The differences between sandbox, paper and live are all in this package.
"""
