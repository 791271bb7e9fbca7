"""What a run does until it trades: its journal, broker and strategies, and a day's first reads.

A run's parts and its end are in `run.py` and `daemon.py`.
"""
