"""What the broker says, as frozen values: one file a family of calls.

How a payload becomes one of them is in `protocol/calls.py` and the modules that it names.
"""
