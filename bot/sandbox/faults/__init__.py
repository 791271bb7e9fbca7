"""Faults of a scenario: which request they strike, and how they spoil an answer.

`sandbox/api/` applies them to HTTP answers.
"""
