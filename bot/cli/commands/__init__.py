"""What can be typed: a file a command, named as it is typed. Nothing is decided here.

How a fact of the journal reads as a line is in `cli/telling/`.
"""
