"""Records a run to disk, call by call, and repeats the same calls.

The engine decides what the calls lead to; it is only fed again.
"""
