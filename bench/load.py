"""A load client: one kept-alive connection, whole requests out, whole answers in, nothing else.

The same few lines are used against everything compared, so that their cost is on both sides of a
ratio. Requests are built before the clock starts.
"""

import socket
from collections.abc import Sequence
from urllib.parse import urlsplit

from bot.clock import performance_s

_CHUNK = 65_536
_PATIENCE_S = 30


def request_bytes(method: str, target: str, headers: dict[str, str], body: bytes = b"") -> bytes:
    """Return a request as it goes over the wire."""
    lines = [f"{method} {target} HTTP/1.1", "Host: 127.0.0.1"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def seconds_for(wire: socket.socket, requests: Sequence[bytes]) -> float:
    """Send requests one after another, each after the previous answer; return the time.

    Raises RuntimeError for an answer other than 200: a quick refusal must not look like speed.
    """
    started_s = performance_s()
    for request in requests:
        wire.sendall(request)
        _take_answer(wire)
    return performance_s() - started_s


def ask(base_url: str, request: bytes) -> bytes:
    """Send one request and return the body of its answer; raises RuntimeError unless it is 200."""
    with connected(base_url) as wire:
        wire.sendall(request)
        return _take_answer(wire)


def connected(base_url: str) -> socket.socket:
    """Return a connection to a server."""
    address = urlsplit(base_url)
    assert address.hostname is not None, "a base URL names a host"
    wire = socket.create_connection((address.hostname, address.port or 80), _PATIENCE_S)
    wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return wire


def _take_answer(wire: socket.socket) -> bytes:
    """Read one answer, which has a Content-Length, and return its body."""
    received = _more(wire)
    while (head_end := received.find(b"\r\n\r\n")) < 0:
        received += _more(wire)
    if not received.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(received.decode(errors="replace")[:500])
    length = head_end + 4 + _content_length(received[:head_end])
    while len(received) < length:
        received += _more(wire)
    return received[head_end + 4 :]


def _content_length(head: bytes) -> int:
    _, _, rest = head.lower().partition(b"\r\ncontent-length:")
    return int(rest.partition(b"\r\n")[0])


def _more(wire: socket.socket) -> bytes:
    part = wire.recv(_CHUNK)
    if not part:
        raise RuntimeError("the server closed the connection")
    return part
