"""What we decide. Pure: an event goes in, commands come out; no clock, no I/O, no `async`.

The shells carry commands out; the engine does not know the broker's protocol.
"""
