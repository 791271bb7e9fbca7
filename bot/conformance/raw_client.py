"""Talks to the server under test: raw requests, signed as documented or deliberately wrong.

The bot's own client is not used for this: it would not send what a conforming server refuses.
"""

import asyncio
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from hashlib import sha256
from typing import Any, Final
from urllib.parse import quote, unquote, urlencode
from uuid import uuid4

from bot.broker.budget import RequestBudget, Waiter
from bot.broker.clock_offset import ClockOffset
from bot.broker.link import READ_BOUNDS, HttpRequest, Link
from bot.clock import Clock, wire_ms
from bot.protocol.endpoints.endpoint import Lane
from bot.protocol.envelope import NoAnswer, rate_limit_reset
from bot.protocol.secret import Secret
from bot.protocol.signing import (
    HEADER_API_KEY,
    HEADER_BODY_HASH,
    HEADER_DEVICE_ID,
    HEADER_NONCE,
    HEADER_SIGNATURE,
    HEADER_TIMESTAMP,
    HEADER_TWO_FACTOR,
)
from bot.protocol.strict_json import NotJson, compact, parse
from bot.protocol.two_factor import ABOUT_CODES

TRIES_MAX: Final = 3
WAIT_MAX: Final = timedelta(seconds=130)

Headers = Mapping[str, str | None]
"""Headers that replace ours; None omits one."""
UNSIGNED: Final[Headers] = dict.fromkeys(
    (HEADER_TIMESTAMP, HEADER_NONCE, HEADER_SIGNATURE, HEADER_BODY_HASH)
)
"""Only the key, which is all that tier 1 needs (2.1)."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, its body parsed once. `body` None: not a JSON object."""

    status: int
    headers: Mapping[str, str]
    body: dict[str, Any] | None
    raw: bytes
    trouble: str = ""

    @property
    def code(self) -> str:
        """The body's `error_code`, empty without one."""
        return str((self.body or {}).get("error_code") or "")

    @property
    def is_success(self) -> bool:
        """True for 200 with a JSON object, unless its `error_code` says otherwise."""
        return self.status == 200 and self.body is not None and self.code in {"", "0"}

    @property
    def is_client_error(self) -> bool:
        """True for a status from 400 to 499."""
        return 400 <= self.status < 500

    def __str__(self) -> str:
        return self.trouble or f"{self.status} {self.code or 'without error_code'}".strip()


@dataclass(frozen=True, slots=True)
class Signed:
    """What a signature is made of."""

    timestamp: str
    method: str
    target: str
    body: bytes
    body_hash: str


def as_documented(signed: Signed) -> bytes:
    """Return the signed text, `timestamp LF METHOD LF target LF bodyhash` (2.2)."""
    parts = (signed.timestamp, signed.method, signed.target, signed.body_hash)
    return "\n".join(parts).encode()


@dataclass(frozen=True, slots=True)
class Signing:
    """A way to sign: `join` makes the signed text, `key` turns the secret's text into the key."""

    join: Callable[[Signed], bytes] = as_documented
    key: Callable[[str], bytes] = str.encode


def _from_hex(secret: str) -> bytes:
    """Decode a secret that looks like hexadecimal; one that does not is made wrong in
    another way.
    """
    try:
        return bytes.fromhex(secret)
    except ValueError:
        return hmac.digest(b"", secret.encode(), "sha256")


@dataclass(frozen=True, slots=True)
class Key:
    """Who asks."""

    api_key: Secret
    api_secret: Secret
    device_id: str


class RawClient:
    """Sends one request after another within the quota; after a 429 it waits and retries.

    `token` is the 2FA token, once there is one.
    """

    def __init__(
        self,
        link: Link,
        key: Key,
        *,
        wire: Clock,
        offset: ClockOffset,
        budget: RequestBudget,
        waiter: Waiter,
    ) -> None:
        self.offset = offset
        self.token: Secret | None = None
        self._link = link
        self._key = key
        self._wire = wire
        self._budget = budget
        self._waiter = waiter

    async def pause(self, how_long: timedelta) -> None:
        """Send nothing for this long."""
        await self._waiter.sleep_until(self._waiter.now() + how_long)

    async def get(self, target: str, headers: Headers | None = None) -> Reply:
        """Read, signed as every public client does."""
        return await self.ask("GET", target, headers=headers)

    async def ask(
        self,
        method: str,
        target: str,
        body: object = None,
        *,
        headers: Headers | None = None,
        signing: Signing | None = None,
        stamp: Callable[[int], str] = str,
        raw: bytes | None = None,
    ) -> Reply:
        """Send once, again after a 429. `stamp` writes the timestamp, `raw` is a literal body."""
        content = raw if raw is not None else b"" if body is None else compact(body).encode()
        reply = Reply(0, {}, None, b"", trouble="not sent")
        for _ in range(TRIES_MAX):
            await self._budget.take(Lane.CANCEL, target, wait_max=WAIT_MAX)
            ours = self._headers(method, target, content, signing or Signing(), stamp)
            merged = {**ours, **(headers or {})}
            sent = {name: value for name, value in merged.items() if value is not None}
            reply = await self._exchange(HttpRequest(method, target, sent, content))
            if reply.status != 429 or reply.code.startswith(ABOUT_CODES):
                return reply
        return reply

    async def get_twice_at_once(self, target: str, headers: Headers) -> tuple[Reply, Reply]:
        """Read over two connections at the same moment; either answer may be 429."""
        for _ in range(2):
            await self._budget.take(Lane.CANCEL, target, wait_max=WAIT_MAX)
        both = [{**self._headers("GET", target, b"", Signing(), str), **headers} for _ in range(2)]
        sent = [{name: value for name, value in one.items() if value is not None} for one in both]
        first, second = (self._exchange(HttpRequest("GET", target, one, b"")) for one in sent)
        return await asyncio.gather(first, second)

    async def _exchange(self, request: HttpRequest) -> Reply:
        sent_at = self._wire.now()
        answer = await self._link.exchange(request, READ_BOUNDS)
        if isinstance(answer, NoAnswer):
            return Reply(0, {}, None, b"", trouble=f"no answer: {answer.reason}")
        self.offset.observe(answer.headers, sent_at=sent_at, answered_at=self._wire.now())
        status = answer.http_status
        if status == 429:
            self._budget.note_limit(rate_limit_reset(answer), request.target, tries=1)
        try:
            body = parse(answer.body)
        except NotJson as error:
            return Reply(status, answer.headers, None, answer.body, f"{status}, {error}")
        if not isinstance(body, dict):
            trouble = f"{status}, the body is not an object"
            return Reply(status, answer.headers, None, answer.body, trouble)
        return Reply(status, answer.headers, body, answer.body)

    def _headers(
        self,
        method: str,
        target: str,
        content: bytes,
        signing: Signing,
        write: Callable[[int], str],
    ) -> dict[str, str | None]:
        stamp, is_write = write(wire_ms(self.offset.now())), method != "GET"
        digest = sha256(content).hexdigest() if content else ""
        signed = Signed(stamp, method, target, content, digest)
        secret = signing.key(self._key.api_secret.reveal())
        return {
            HEADER_API_KEY: self._key.api_key.reveal(),
            HEADER_TIMESTAMP: stamp,
            HEADER_NONCE: str(uuid4()),
            HEADER_SIGNATURE: hmac.new(secret, signing.join(signed), sha256).hexdigest(),
            HEADER_BODY_HASH: digest or None,
            HEADER_DEVICE_ID: self._key.device_id if is_write else None,
            HEADER_TWO_FACTOR: self.token.reveal() if self.token and is_write else None,
            "Content-Type": "application/json" if content else None,
        }


def target_of(path: str, query: Mapping[str, str]) -> str:
    """Return path and query, percent-encoded; the path is not encoded."""
    return f"{path}?{urlencode(query, quote_via=quote, safe='')}" if query else path


# ------------------------------------------------------------------- the names of `access.yaml`

SIGNINGS: Final[Mapping[str, Signing]] = {
    "as documented": Signing(),
    "query left out": Signing(
        lambda s: as_documented(replace(s, target=s.target.partition("?")[0]))
    ),
    "last LF left out": Signing(lambda s: as_documented(s).removesuffix(b"\n")),
    "LF added": Signing(lambda s: as_documented(s) + b"\n"),
    "body in place of its hash": Signing(
        lambda s: as_documented(replace(s, body_hash="")) + s.body + b"\n"
    ),
    "hash left empty": Signing(lambda s: as_documented(replace(s, body_hash=""))),
    "secret as hexadecimal": Signing(key=_from_hex),
    "decoded target": Signing(lambda s: as_documented(replace(s, target=unquote(s.target)))),
    "other method": Signing(lambda s: as_documented(replace(s, method="POST"))),
    "other path": Signing(lambda s: as_documented(replace(s, target=f"{s.target}/"))),
    "longer query": Signing(lambda s: as_documented(replace(s, target=f"{s.target}&x=1"))),
    "other timestamp": Signing(lambda s: as_documented(replace(s, timestamp=f"{s.timestamp}0"))),
}
STAMPS: Final[Mapping[str, Callable[[int], str]]] = {
    "now": str,
    "27 s behind": lambda now_ms: str(now_ms - 27_000),
    "27 s ahead": lambda now_ms: str(now_ms + 27_000),
    "33 s behind": lambda now_ms: str(now_ms - 33_000),
    "33 s ahead": lambda now_ms: str(now_ms + 33_000),
    "whole seconds": lambda now_ms: str(now_ms // 1000 * 1000),
    "in seconds": lambda now_ms: str(now_ms // 1000),
    "in words": lambda _: "today",
}
