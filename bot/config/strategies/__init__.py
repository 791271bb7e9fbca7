"""Strategy files and the classes that they name: finds, vets, checks and loads them.

What a strategy decides at run time is up to the engine.
"""
