"""Ports for servers that must be told theirs before they have it."""

import os
import socket
from itertools import count
from typing import Final

LOWEST: Final = 15_000
SPAN: Final = 15_000
"""Below what the kernel gives to whoever takes any port: nobody gets one of these meanwhile."""
_steps = count()


def free_port() -> int:
    """Return a port of this process's own that nobody listens on."""
    for _ in range(SPAN):
        port = LOWEST + (os.getpid() * 101 + next(_steps)) % SPAN
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("no port is free")
