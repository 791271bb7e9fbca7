"""The lines of a run: journal facts in a trader's words. Pure.

Output of a single command is in that command's module.
"""
