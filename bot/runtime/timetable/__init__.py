"""What is due when, and what a run reports of it: polls, timers, the morning check, the pulse.

`worlds/` drives the clock from one due instant to the next.
"""
