"""The lines of a run: facts of the journal in a trader's words. Pure.

What only one command prints is in that command's module.
"""
