"""Processes of `bot` for tests: as real as any, with their own id, streams, signals and end.

Each is forked from a process that has already imported the command line (`nursery.py`), which takes
most of a start. tests/cli/commands/test_demo.py starts one from nothing.
"""

import atexit
import fcntl
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final, TextIO

from tests.canaries import CODE, require_clean

ROOT: Final = Path(__file__).resolve().parents[1]
REPLY_MAX: Final = 64
UNREAD_MAX: Final = 1 << 20
"""Bytes of stdout that may wait to be read."""
SPARE_S: Final = 120.0
"""How long a process may take to end unless a test says otherwise."""


class BotProcess:
    """`bot` with arguments in a process of its own; its standard input is empty."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        # Both streams are closed when it has ended.
        read, write = os.pipe()
        fcntl.fcntl(read, fcntl.F_SETPIPE_SZ, UNREAD_MAX)
        self.stdout: TextIO = os.fdopen(read, encoding="utf-8")
        self._stderr: TextIO = os.fdopen(os.memfd_create("stderr"), "w+", encoding="utf-8")
        asked = {"arguments": arguments, "environment": {**os.environ, **environment}}
        try:
            self.pid = _ask(asked, write, self._stderr.fileno())
        finally:
            os.close(write)
        self._told = 0
        self._tells_key = "paper" in arguments  # the sandbox as a server says its key first
        self._end = os.pidfd_open(self.pid)
        self.returncode: int | None = None

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has ended."""
        if self.poll() is None:
            signal.pidfd_send_signal(self._end, number)

    def said(self) -> str:
        """Return what it has written since the last time, on either stream."""
        out = b""
        while select.select([self.stdout], [], [], 0)[0]:
            part = os.read(self.stdout.fileno(), UNREAD_MAX)
            if not part:
                break
            out += part
        errors = os.pread(self._stderr.fileno(), UNREAD_MAX, self._told)
        self._told += len(errors)
        return (out + errors).decode()

    def poll(self) -> int | None:
        """Return its exit code; None while it runs."""
        if self.returncode is None and select.select([self._end], [], [], 0)[0]:
            self.returncode = _ask({"over": self.pid})
        return self.returncode

    def communicate(self, timeout: float = SPARE_S) -> tuple[str, str]:
        """Wait for its end; return its further output on stdout, unless we have closed that, and on
        stderr.
        """
        if not select.select([self._end], [], [], timeout)[0]:
            self.kill()
            raise TimeoutError(f"bot went on for {timeout:g} s")
        self.poll()
        os.close(self._end)
        self._stderr.seek(0)
        with self._stderr:
            err = self._stderr.read()
        out = ""
        if not self.stdout.closed:
            with self.stdout:
                out = self.stdout.read()
        if not self._tells_key:
            require_clean(out + err, CODE)
        return out, err

    def kill(self) -> None:
        """End it as a power cut would."""
        self.send_signal(signal.SIGKILL)

    def end(self) -> None:
        """End it if it still runs, and let go of its streams."""
        self.kill()
        if not self.stdout.closed:
            self.communicate()


def _ask(asked: Mapping[str, object], *streams: int) -> int:
    channel = _nursery()
    socket.send_fds(channel, [json.dumps(asked).encode()], streams)
    return int(channel.recv(REPLY_MAX))


@cache
def _nursery() -> socket.socket:
    """One for each worker, until that ends."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        nursery = subprocess.Popen(
            [sys.executable, "-m", "tests.nursery"],
            cwd=ROOT,
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
            process_group=0,  # Ctrl-C is for pytest, which ends the rest
        )
    atexit.register(nursery.wait)
    atexit.register(ours.close)
    return ours
