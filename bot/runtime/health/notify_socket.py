"""Speaks to the service manager that started us, over the socket it named (sd_notify, systemd 252).

A manager that is away, or too busy to listen, is no reason to wait or to fail: what it was to hear
is told again with the next sign of life.
"""

import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from bot.domain.visible import visible

STATUS_MAX: Final = 200
"""Characters of the line that `systemctl status` shows."""
_USECS: Final = 1_000_000


class ServiceManager:
    """Sends what it is told to; without `NOTIFY_SOCKET` nobody listens, and nothing is sent."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._status = ""
        span, pid = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", "")
        is_meant = not pid or pid == str(os.getpid())
        self.watchdog_s = int(span) / _USECS if span.isdecimal() and is_meant else 0.0
        """How long it waits for a sign of life; 0: it waits for none."""

    @property
    def is_there(self) -> bool:
        """Whether somebody has started us who wants to hear."""
        return bool(self._address)

    def status(self, text: str) -> None:
        """Show one line, unless it is shown already."""
        if text != self._status and self.tell(f"STATUS={visible(text, STATUS_MAX)}"):
            self._status = text

    def tell(self, *lines: str) -> bool:
        """Send one message, like `READY=1`; say whether that could be done."""
        if not self._address:
            return False
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ours:
            ours.setblocking(False)
            ours.connect(self._address)
            ours.send("\n".join(lines).encode())
            return True
        return False
