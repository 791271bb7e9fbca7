"""A proxy before PostgreSQL that takes bytes and passes none on while it does not flow."""

import contextlib
import socket
import threading
from collections.abc import Iterator

import sqlalchemy as sa

CHUNK = 65_536


class StallingProxy:
    """Forwards bytes both ways while it flows."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.flows = threading.Event()
        self.flows.set()

    def serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
                for pair in ((client, server), (server, client)):
                    threading.Thread(target=self._pass_on, args=pair, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(CHUNK):
                self.flows.wait()
                target.sendall(data)
        source.close()
        target.close()

    def close(self) -> None:
        self.flows.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@contextlib.contextmanager
def stalling_proxy(url: str) -> Iterator[tuple[StallingProxy, str]]:
    """Yield a proxy and the URL of the same database through it."""
    direct = sa.make_url(url)
    proxy = StallingProxy(direct.host or "", direct.port or 0)
    thread = threading.Thread(target=proxy.serve, daemon=True)
    thread.start()
    try:
        yield proxy, direct.set(port=proxy.port).render_as_string(hide_password=False)
    finally:
        proxy.close()
        thread.join(5)
