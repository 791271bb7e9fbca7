"""The settings of a run: from flags, environment and `bot.yaml`, with the origin of each.

Strategy files are read in `config/strategies/`; secrets are read only here.
"""
