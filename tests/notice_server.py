"""A service that takes notices on loopback, as Apprise's `json://` posts them."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class NoticeServer:
    """Records what it was sent. `status` is its answer, after `statuses` one by one; `hang_s` is
    how long it waits before that.
    """

    def __init__(self) -> None:
        self.messages: list[dict[str, str]] = []
        self.status = 200
        self.statuses: list[int] = []
        self.headers: dict[str, str] = {}
        self.released = threading.Event()
        self.released.set()
        self.hang_s = 60.0
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                service.messages.append(json.loads(self.rfile.read(length)))
                service.released.wait(service.hang_s)
                status = service.statuses.pop(0) if service.statuses else service.status
                self.send_response(status)
                for name, value in service.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        """Its address, as Apprise knows it."""
        return f"json://127.0.0.1:{self._server.server_port}/"

    @property
    def titles(self) -> list[str]:
        return [each["title"] for each in self.messages]

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def notice_server() -> Iterator[NoticeServer]:
    """Serve until the block ends."""
    server = NoticeServer()
    server.thread.start()
    try:
        yield server
    finally:
        server.close()
