"""Parses the bytes of a connection into one answer. The only module that imports h11.

Nearly every answer of a broker looks alike: one status line, plain headers, one Content-Length, and
a body that comes with the head or right behind it. Such an answer is parsed here in one step; h11
parses all others from the first byte on. Whatever this reader accepts, h11 would have accepted in
the same way (a test gives mutated answers to both), and what h11 rejects is rejected.
"""

import re
from typing import Final, NamedTuple

import h11

from bot.broker.link import HEAD_BYTES_MAX, TWO_LENGTHS, Unusable, too_long

INFORMATIONAL_MAX: Final = 100
"""The most `1xx` answers that may precede the real one."""
_PLAIN_HEAD_BYTES_MAX: Final = 8 * 1024
_SLICE: Final = 64 * 1024
_LENGTH_DIGITS_MAX: Final = 9
_BODILESS: Final = frozenset({204, 304})
_HEAD_END: Final = b"\r\n\r\n"
_PLAIN_HEAD: Final = re.compile(
    r"HTTP/1\.1 [2-5][0-9][0-9] [ -~]*"
    r"(?:\r\n[!#$%&'*+.^_`|~0-9A-Za-z-]+: [!-~](?:[ -~]*[!-~])?)+"
)
"""Narrower than the standard allows; h11 parses whatever does not match."""


class Broken(Exception):
    """The bytes are not HTTP, or they ended early; the text says what was found."""


class Whole(NamedTuple):
    """A complete answer; header names are in lower case.

    `is_last` is true if the connection cannot be used again.
    """

    status: int
    headers: dict[str, str]
    body: bytes
    is_last: bool


class AnswerReader:
    """Reads one answer, which may arrive in any pieces; its body has at most `bytes_max` bytes.

    Both methods raise Broken if the bytes are not an answer, and Unusable if it is too long or
    cannot be trusted.
    """

    __slots__ = ("_body_at", "_bytes_max", "_headers", "_judge", "_received", "_status", "_until")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._received = bytearray()
        self._judge: _Judge | None = None
        self._until = 0

    def take(self, data: bytes) -> Whole | None:
        """Return the answer if these bytes complete it, None while more must come."""
        if self._judge is not None:
            return self._judge.take(data)
        if self._until:
            self._received += data
            return self._whole(self._received)
        if self._reads_head(data):
            if len(data) >= self._until:
                return self._whole(data)
            self._received += data
            return None
        self._judge = _Judge(self._bytes_max)
        return self._judge.take(data)

    def end(self) -> Whole:
        """The other side sends no more: return an answer that only this completes."""
        if self._judge is None:
            self._judge = _Judge(self._bytes_max)
            if self._received:
                self._judge.take(bytes(self._received))
        return self._judge.end()

    def _whole(self, received: bytes | bytearray) -> Whole | None:
        if len(received) < self._until:
            return None
        body = bytes(received[self._body_at : self._until])
        return Whole(self._status, self._headers, body, is_last=len(received) > self._until)

    def _reads_head(self, data: bytes) -> bool:
        """Parse the whole head of a plain answer from its first bytes; return whether it is one."""
        end = data.find(_HEAD_END, 0, _PLAIN_HEAD_BYTES_MAX)
        head = data[:end].decode("latin-1") if end > 0 else ""
        if _PLAIN_HEAD.fullmatch(head) is None:
            return False
        lines = head.split("\r\n")
        headers: dict[str, str] = {}
        for line in lines[1:]:
            name, _, value = line.partition(": ")
            headers[name.lower()] = value
        status, length = int(head[9:12]), headers.get("content-length", "")
        is_plain = (
            len(headers) == len(lines) - 1
            and length.isdigit()
            and len(length) <= _LENGTH_DIGITS_MAX
            and int(length) <= self._bytes_max
            and "transfer-encoding" not in headers
            and headers.get("connection", "keep-alive").lower() == "keep-alive"
            and status not in _BODILESS
        )
        if is_plain:
            self._status, self._headers, self._body_at = status, headers, end + len(_HEAD_END)
            self._until = self._body_at + int(length)
        return is_plain


class _Judge:
    """One answer as parsed by h11."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._peer = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES_MAX)
        # How an answer ends depends on its request only for HEAD and CONNECT, which we never send.
        self._peer.send(h11.Request(method="GET", target="/", headers=[("Host", "broker")]))
        self._peer.send(h11.EndOfMessage())
        self._response: h11.Response | None = None
        self._informational = 0
        self._body = bytearray()

    def take(self, data: bytes) -> Whole | None:
        """Read on, in slices, so that a limit takes effect where it lies and not a quarter MiB
        later.
        """
        for at in range(0, len(data), _SLICE):
            self._peer.receive_data(data[at : at + _SLICE])
            if (whole := self._read()) is not None:
                rest = len(data) > at + _SLICE
                return whole._replace(is_last=True) if rest else whole
        return None

    def end(self) -> Whole:
        """Parse what the end of the connection completes."""
        if self._peer.their_state is h11.SEND_RESPONSE:
            raise Broken("the server disconnected without an answer")
        self._peer.receive_data(b"")
        whole = self._read()
        assert whole is not None, "after its end h11 has an answer or an error"
        return whole

    def _read(self) -> Whole | None:
        while True:
            try:
                event = self._peer.next_event()
            except h11.RemoteProtocolError as error:
                raise Broken(f"{type(error).__name__}: {error}") from error
            match event:
                case h11.Response():
                    self._response = event
                case h11.InformationalResponse():
                    self._informational += 1
                    if self._informational > INFORMATIONAL_MAX:
                        raise Unusable(f"more than {INFORMATIONAL_MAX} informational answers")
                case h11.Data():
                    self._body += event.data
                    if len(self._body) > self._bytes_max:
                        raise too_long(self._bytes_max)
                case h11.EndOfMessage():
                    return self._whole()
                case _:
                    return None

    def _whole(self) -> Whole:
        assert self._response is not None, "a message that ends has begun"
        headers = texts_of(self._response.headers.raw_items())
        if "content-length" in headers and "transfer-encoding" in headers:
            raise Unusable(TWO_LENGTHS)
        has_more = bool(self._peer.trailing_data[0])
        is_last = has_more or self._peer.their_state is not h11.DONE
        return Whole(self._response.status_code, headers, bytes(self._body), is_last)


def texts_of(fields: list[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return headers as text, decoded with the narrowest encoding that fits all, one per name."""
    everything = b"".join(value for _, value in fields)
    encoding = "latin-1"
    for narrower in ("utf-8", "ascii"):
        try:
            everything.decode(narrower)
        except UnicodeDecodeError:
            break
        encoding = narrower
    headers: dict[str, str] = {}
    for raw_name, raw_value in fields:
        name, value = raw_name.decode("ascii").lower(), raw_value.decode(encoding)
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers
