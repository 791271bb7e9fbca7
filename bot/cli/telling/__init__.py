"""The lines of a run: facts of the journal put into the words of a trader. Pure.

What a command prints besides stands with the command.
"""
