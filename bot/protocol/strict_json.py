"""Parses JSON as if the other end were hostile: what a lenient parser lets through is an error.

Refused are NaN and infinities, a key given twice, integers beyond 64 bits, numbers too large or too
fine to be real, nesting deeper than 32, bytes that are not UTF-8, and text that can't be stored.

A common answer is parsed by the standard library's scanner without hooks for each object and
integer, after counting has excluded what the hooks would refuse. Where counting cannot exclude it,
the hooks are used and decide.
"""

import json
import re
from decimal import Decimal
from typing import Any, Final, NoReturn

WEB_PAGE: Final = (
    "a web page came, not JSON: the broker may be under maintenance, or a proxy or a sign-in page "
    "in between"
)
DEPTH_MAX: Final = 32
INTEGER_MAX: Final = 2**63 - 1
_NUMBER_CHARACTERS_MAX: Final = 64
_EXPONENT_MAX: Final = 30
_UNSTORABLE: Final = re.compile(rb"\\u(?:[dD][89a-fA-F]|0000)")
_SPACED_COLON: Final = re.compile(rb'"[ \t\n\r]+:')
_ALL_DIGITS_0: Final = bytes(ord("0") if chr(one) in "0123456789" else one for one in range(256))
_LONG_NUMBER: Final = b"0" * len(str(INTEGER_MAX))
_CONTAINERS: Final = frozenset({dict, list})


class NotJson(ValueError):
    """The bytes are not usable JSON; the text says why, without quoting them."""


def parse(body: bytes) -> Any:
    """Return the parsed body, fractions as Decimal. Raises NotJson."""
    found = parse_common(body)
    return parse_strictly(body) if found is None else found


def parse_common(body: bytes) -> Any:
    """Return what `parse_strictly` does, or None if unsure.

    If each key's colon directly follows its quote, the body has at least as many `":` as keys, so
    if the number of keys kept equals the number of `":`, none was duplicated. A text may also
    contain `":`; then the counts differ and the result is None. An integer of 18 digits has less
    than 64 bits.
    """
    if (
        b"\\u" in body
        or _LONG_NUMBER in body.translate(_ALL_DIGITS_0)
        or _SPACED_COLON.search(body)
    ):
        return None
    try:
        value = _COMMON_DECODER.decode(body.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    level = [value] if type(value) in _CONTAINERS else []
    unseen, keys = body.count(b"{") + body.count(b"["), body.count(b'":')
    for _ in range(DEPTH_MAX + 1):
        unseen -= len(level)
        keys -= sum([len(each) for each in level if type(each) is dict])
        if not unseen or not level:  # every bracket is accounted for, so nothing is nested deeper
            return None if keys else value
        level = [
            inner
            for outer in level
            for inner in (outer.values() if type(outer) is dict else outer)
            if type(inner) in _CONTAINERS
        ]
    return None


def parse_strictly(body: bytes) -> Any:
    """Return the parsed body after checking every object and number. Raises NotJson."""
    try:
        value = _DECODER.decode(body.decode("utf-8"))
    except UnicodeDecodeError:
        raise NotJson("the body is not UTF-8") from None
    except json.JSONDecodeError as error:
        if body.lstrip().startswith(b"<"):
            raise NotJson(WEB_PAGE) from None
        raise NotJson(f"the body is not JSON: {error.msg} at character {error.pos}") from None
    except RecursionError:
        raise NotJson(f"nested deeper than {DEPTH_MAX}") from None
    level = [value]  # level by level, so that no nesting can exhaust our own stack
    for _ in range(DEPTH_MAX + 1):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            break
    else:
        raise NotJson(f"nested deeper than {DEPTH_MAX}")
    if _UNSTORABLE.search(body):
        # Drop escaped backslashes first, or a text that spells out an escape would count as NUL.
        text = json.dumps(value, ensure_ascii=False, default=str).replace("\\\\", "")
        if "\\u0000" in text or any("\ud800" <= character <= "\udfff" for character in text):
            raise NotJson("a text holds NUL or half a character")
    return value


def compact(value: object) -> str:
    """Return JSON without spaces, without escaping non-ASCII; a Decimal becomes a number."""
    return _ENCODER.encode(value)


def _number(value: object) -> float:
    assert isinstance(value, Decimal), f"{type(value).__name__} can't be put into JSON"
    return float(value)


def _integer(text: str) -> int:
    if len(text) > _NUMBER_CHARACTERS_MAX or abs(value := int(text)) > INTEGER_MAX:
        raise NotJson("an integer beyond 64 bits")
    return value


def _fraction(text: str) -> Decimal:
    exponent = text.lower().partition("e")[2].lstrip("+-0")
    if (
        len(text) > _NUMBER_CHARACTERS_MAX
        or len(exponent) > 2
        or int(exponent or 0) > _EXPONENT_MAX
    ):
        raise NotJson("a number too large or too fine")
    return Decimal(text)


def _constant(name: str) -> NoReturn:
    raise NotJson(f"{name} is not a JSON number")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise NotJson("a key is given twice in one object")
    return found


_ENCODER: Final = json.JSONEncoder(
    ensure_ascii=False,
    allow_nan=False,
    check_circular=False,
    separators=(",", ":"),
    default=_number,
)
_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_fraction, parse_int=_integer, parse_constant=_constant
)
_COMMON_DECODER: Final = json.JSONDecoder(parse_float=_fraction, parse_constant=_constant)
