"""A proxy in front of PostgreSQL that breaks the connection at a commit, before or after it is
done, or swallows all bytes.
"""

import contextlib
import socket
import threading
from collections.abc import Iterator
from enum import Enum

import sqlalchemy as sa

COMMIT = b"COMMIT"
CHUNK = 65_536


class Break(Enum):
    """When the next commit's connection breaks."""

    NEVER = "never"
    BEFORE = "the server never hears of the commit"
    AFTER = "the server commits, its answer is lost"


class BreakingProxy:
    """Forwards bytes both ways while it `flows`; each `arm` breaks one commit. `refuse` turns new
    clients away. `trips` and `commits`: how often the client had to wait for the server, and how
    often it asked for a commit.
    """

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.armed = Break.NEVER
        self.refuse = False
        self.trips = self.commits = 0
        self._is_answered = True
        self.flows = threading.Event()
        self.flows.set()

    def serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self.refuse:
                    client.close()
                    continue
                server = socket.create_connection(self._target)
                for run in (self._upward, self._downward):
                    threading.Thread(target=run, args=(client, server), daemon=True).start()

    def close(self) -> None:
        self.flows.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _upward(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(CHUNK):
                self.flows.wait()
                self.trips += self._is_answered
                self.commits += COMMIT in data
                self._is_answered = False
                if COMMIT in data and self.armed is not Break.NEVER:
                    self._break(data, client, server)
                    return
                server.sendall(data)
            server.shutdown(socket.SHUT_RDWR)

    def _break(self, data: bytes, client: socket.socket, server: socket.socket) -> None:
        how, self.armed = self.armed, Break.NEVER
        client.shutdown(socket.SHUT_WR)
        if how is Break.AFTER:
            server.sendall(data)
            server.shutdown(socket.SHUT_WR)
        else:
            server.shutdown(socket.SHUT_RDWR)

    def _downward(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(CHUNK):
                self.flows.wait()
                self._is_answered = True
                client.sendall(data)
        for each in (client, server):
            with contextlib.suppress(OSError):  # a close alone is not heard while the other reads
                each.shutdown(socket.SHUT_RDWR)
            each.close()


@contextlib.contextmanager
def breaking_proxy(url: str) -> Iterator[tuple[BreakingProxy, str]]:
    """Yield a proxy and the URL of the same database through it."""
    direct = sa.make_url(url)
    proxy = BreakingProxy(direct.host or "", direct.port or 0)
    thread = threading.Thread(target=proxy.serve, daemon=True)
    thread.start()
    try:
        yield proxy, direct.set(port=proxy.port).render_as_string(hide_password=False)
    finally:
        proxy.close()
        thread.join(5)
