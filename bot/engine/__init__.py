"""What we decide. Pure: an event goes in, commands come out; no clock, no I/O, no `async`."""
