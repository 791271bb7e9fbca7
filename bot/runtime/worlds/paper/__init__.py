"""Paper mode: the market of the real broker, our orders matched in this process."""
