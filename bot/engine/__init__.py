"""What we decide. Pure: an event goes in, commands come out; no clock, no I/O, no `async`.

How a command is carried out is the shells' matter; how the broker speaks is not known here.
"""
