"""What a run does until it trades: its journal, broker and strategies, and a day's first reads.

Not here: what a run is made of, and how it ends (`run.py`, `daemon.py`).
"""
