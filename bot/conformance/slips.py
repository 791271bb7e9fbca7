"""Ways to sign and to stamp a request wrongly, by the names that `access.yaml` gives them."""

import hmac
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final
from urllib.parse import unquote

from bot.conformance.talk import Signed, Slip, as_documented


def _query_left_out(signed: Signed) -> bytes:
    return as_documented(replace(signed, target=signed.target.partition("?")[0]))


def _last_lf_left_out(signed: Signed) -> bytes:
    return as_documented(signed).removesuffix(b"\n")


def _body_in_place(signed: Signed) -> bytes:
    return as_documented(replace(signed, body_hash="")) + signed.body + b"\n"


def _unhexed(secret: str) -> bytes:
    """The secret looks like hexadecimal; one that does not is made wrong in another way."""
    try:
        return bytes.fromhex(secret)
    except ValueError:
        return hmac.digest(b"", secret.encode(), "sha256")


SLIPS: Final[Mapping[str, Slip]] = {
    "none": Slip(),
    "query left out": Slip(_query_left_out),
    "last LF left out": Slip(_last_lf_left_out),
    "LF added": Slip(lambda signed: as_documented(signed) + b"\n"),
    "body in place of its hash": Slip(_body_in_place),
    "hash left empty": Slip(lambda s: as_documented(replace(s, body_hash=""))),
    "secret as hexadecimal": Slip(key=_unhexed),
    "decoded target": Slip(lambda s: as_documented(replace(s, target=unquote(s.target)))),
    "other method": Slip(lambda s: as_documented(replace(s, method="POST"))),
    "other path": Slip(lambda s: as_documented(replace(s, target=f"{s.target}/"))),
    "longer query": Slip(lambda s: as_documented(replace(s, target=f"{s.target}&x=1"))),
    "other timestamp": Slip(lambda s: as_documented(replace(s, timestamp=f"{s.timestamp}0"))),
}


def _shifted(shift_ms: int) -> Callable[[int], str]:
    return lambda now_ms: str(now_ms + shift_ms)


STAMPS: Final[Mapping[str, Callable[[int], str]]] = {
    "now": str,
    "27 s behind": _shifted(-27_000),
    "27 s ahead": _shifted(27_000),
    "33 s behind": _shifted(-33_000),
    "33 s ahead": _shifted(33_000),
    "whole seconds": lambda now_ms: str(now_ms // 1000 * 1000),
    "in seconds": lambda now_ms: str(now_ms // 1000),
    "in words": lambda _: "today",
}
