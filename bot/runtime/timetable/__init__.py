"""What is due when, and what a run says of that: polls, timers, the morning's check, the pulse.

Not here: what drives the clock from one due instant to the next (`worlds/`).
"""
