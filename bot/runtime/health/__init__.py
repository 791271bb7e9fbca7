"""How others learn that the bot lives and works: the service manager, a probe, a log of its own.

Not here: the lines of a run on a terminal (`cli/telling/`), and what the journal keeps.
"""
