"""How others learn that the bot is alive and working: service manager, probes, process log.

The lines of a run on a terminal are in `cli/telling/`.
"""
