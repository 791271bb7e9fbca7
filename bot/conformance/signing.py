"""How a request is signed and stamped: as documented, and wrongly by the names of `access.yaml`."""

import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import unquote


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
    """A way to sign: `join` makes the signed text, `key` the key of the secret's text."""

    join: Callable[[Signed], bytes] = as_documented
    key: Callable[[str], bytes] = str.encode


def _from_hex(secret: str) -> bytes:
    """The secret looks like hexadecimal; one that does not is made wrong in another way."""
    try:
        return bytes.fromhex(secret)
    except ValueError:
        return hmac.digest(b"", secret.encode(), "sha256")


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
