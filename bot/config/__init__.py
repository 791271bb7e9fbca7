"""Turns files and environment into checked values; errors come with place and hint.

Nothing is run, sent or journalled here. The parts keep their own settings and checks.
"""
