"""What the broker says, as frozen values: one file a family of calls.

How a payload becomes one of them stands beside this room, in `calls.py` and what it names.
"""
