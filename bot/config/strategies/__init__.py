"""Strategy files and the classes that they name: found, trusted, checked, loaded.

What a strategy decides when it runs is the engine's matter.
"""
