"""The commands, one file each, named as typed. Nothing is decided here.

`cli/telling/` turns facts of the journal into lines.
"""
