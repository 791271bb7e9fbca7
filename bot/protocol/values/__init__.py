"""The broker's answers as frozen values, one file for each family of calls.

`protocol/calls.py` and the modules that it names convert payloads to these values.
"""
