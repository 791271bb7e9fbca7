"""Answers that are no answers: a good body spoilt in one of many named ways.

A kind either breaks the text (cut, doubled, not UTF-8, …) or says something absurd in good JSON
(every value null, the payload a number, …). Everything follows from the good body alone, so that
the same seed gives the same bytes. What is huge or slow besides is an action of its own.
"""

import gzip
import json
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import partial
from typing import Final

from pydantic import JsonValue

DEPTH: Final = 100_000
DIGITS: Final = 10_000
_HTML: Final = (
    b"<!DOCTYPE html><html><head><title>Sign in</title></head>"
    b"<body><form action='/login'>You are not connected.</form></body></html>"
)
_EMPTY: Final = b'{"error_code":"0","message":"success","data":{},"result":[]}'
_PAYLOAD_KEYS: Final = ("data", "result")
_ENVELOPE_KEYS: Final = frozenset({"error_code", "message", "title", "popup_message"})

Spoil = Callable[[bytes], bytes]
Change = Callable[[JsonValue], JsonValue]


class GarbageKind(StrEnum):
    """In which way an answer is no answer."""

    EMPTY = "empty"
    BLANK = "blank"
    HALF = "half"
    LAST_BYTE_LOST = "last_byte_lost"
    FIRST_BYTE_LOST = "first_byte_lost"
    NOT_JSON = "not_json"
    HTML = "html"
    XML = "xml"
    SINGLE_QUOTES = "single_quotes"
    TRAILING_COMMA = "trailing_comma"
    TRAILING_TEXT = "trailing_text"
    TWICE = "twice"
    DUPLICATE_KEY = "duplicate_key"
    NAN = "nan"
    INFINITY = "infinity"
    DEEP_ARRAYS = "deep_arrays"
    DEEP_OBJECTS = "deep_objects"
    LONG_INTEGER = "long_integer"
    LONG_FRACTION = "long_fraction"
    HUGE_EXPONENT = "huge_exponent"
    NOT_UTF8 = "not_utf8"
    UTF16 = "utf16"
    BYTE_ORDER_MARK = "byte_order_mark"
    NUL_BYTES = "nul_bytes"
    NUL_ESCAPED = "nul_escaped"
    HALF_CHARACTER = "half_character"
    CONTROL_CHARACTERS = "control_characters"
    GZIPPED = "gzipped"
    NULL = "null"
    NUMBER = "number"
    TEXT = "text"
    ARRAY = "array"
    NO_PAYLOAD = "no_payload"
    PAYLOAD_NULL = "payload_null"
    PAYLOAD_TEXT = "payload_text"
    PAYLOAD_NUMBER = "payload_number"
    OTHER_CONTAINER = "other_container"
    ROWS_OF_NULL = "rows_of_null"
    VALUES_NESTED = "values_nested"
    VALUES_TRUE = "values_true"
    VALUES_NULL = "values_null"
    NUMBERS_AS_WORDS = "numbers_as_words"
    NUMBERS_TOO_LARGE = "numbers_too_large"
    KEYS_RENAMED = "keys_renamed"


def _with_member(value: bytes, body: bytes) -> bytes:
    """Put one more member in front of those of the outer object."""
    inside = body.partition(b"{")[2]
    comma = b"" if inside.lstrip().startswith(b"}") else b","
    return b'{"novelty":' + value + comma + inside


def _deep(opening: bytes, closing: bytes, body: bytes) -> bytes:
    return _with_member(opening * DEPTH + b"0" + closing * DEPTH, body)


def _with_doubled_key(body: bytes) -> bytes:
    return _with_member(b'1,"novelty":1', body)


def _trailing_comma(body: bytes) -> bytes:
    return body.rstrip().removesuffix(b"}") + b",}"


def _single_quotes(body: bytes) -> bytes:
    return body.replace(b'"', b"'")


def _half(body: bytes) -> bytes:
    return body[: len(body) // 2]


def _utf16(body: bytes) -> bytes:
    return body.decode().encode("utf-16")


def _gzipped(body: bytes) -> bytes:
    return gzip.compress(body, mtime=0)


# ------------------------------------------------------------------ absurd, but good JSON


def _no_payload(body: bytes) -> bytes:
    kept = {name: value for name, value in _members(body).items() if name in _ENVELOPE_KEYS}
    return _written(kept)


def _changed(change: Change, body: bytes) -> bytes:
    """Change the payload; without a payload key all fields but the envelope's are the payload."""
    members = _members(body)
    found = [name for name in _PAYLOAD_KEYS if name in members]
    if found:
        return _written(members | {name: change(members[name]) for name in found})
    kept = {name: value for name, value in members.items() if name in _ENVELOPE_KEYS}
    inner = change({name: value for name, value in members.items() if name not in kept})
    return _written(kept | inner if isinstance(inner, dict) else inner)


def _leaves(change: Change, value: JsonValue) -> JsonValue:
    """Change everything that is neither object nor array."""
    if isinstance(value, dict):
        return {name: _leaves(change, inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_leaves(change, inner) for inner in value] or [None]
    return change(value)


def _numbers(replacement: JsonValue, value: JsonValue) -> JsonValue:
    return replacement if isinstance(value, int | float) else value


def _keys_renamed(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {f"x_{name}": _keys_renamed(inner) for name, inner in value.items()}
    return [_keys_renamed(inner) for inner in value] or [{}] if isinstance(value, list) else value


def _always(replacement: JsonValue) -> Spoil:
    return partial(_changed, lambda _: replacement)


def _each_leaf(replacement: JsonValue) -> Spoil:
    return partial(_changed, partial(_leaves, lambda _: replacement))


def _each_number(replacement: JsonValue) -> Spoil:
    return partial(_changed, partial(_leaves, partial(_numbers, replacement)))


def _members(body: bytes) -> dict[str, JsonValue]:
    members: dict[str, JsonValue] = json.loads(body)
    return members


def _written(value: JsonValue) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


_SPOILT: Final[Mapping[GarbageKind, Spoil]] = {
    GarbageKind.EMPTY: lambda _: b"",
    GarbageKind.BLANK: lambda _: b" \r\n\t ",
    GarbageKind.HALF: _half,
    GarbageKind.LAST_BYTE_LOST: lambda body: body[:-1],
    GarbageKind.FIRST_BYTE_LOST: lambda body: body[1:],
    GarbageKind.NOT_JSON: lambda _: b"OK",
    GarbageKind.HTML: lambda _: _HTML,
    GarbageKind.XML: lambda _: b"<?xml version='1.0'?><error_code>0</error_code>",
    GarbageKind.SINGLE_QUOTES: _single_quotes,
    GarbageKind.TRAILING_COMMA: _trailing_comma,
    GarbageKind.TRAILING_TEXT: lambda body: body + b" OK",
    GarbageKind.TWICE: lambda body: body + body,
    GarbageKind.DUPLICATE_KEY: _with_doubled_key,
    GarbageKind.NAN: partial(_with_member, b"NaN"),
    GarbageKind.INFINITY: partial(_with_member, b"-Infinity"),
    GarbageKind.DEEP_ARRAYS: partial(_deep, b"[", b"]"),
    GarbageKind.DEEP_OBJECTS: partial(_deep, b'{"a":', b"}"),
    GarbageKind.LONG_INTEGER: partial(_with_member, b"9" * DIGITS),
    GarbageKind.LONG_FRACTION: partial(_with_member, b"0." + b"9" * DIGITS),
    GarbageKind.HUGE_EXPONENT: partial(_with_member, b"1e999999999"),
    GarbageKind.NOT_UTF8: partial(_with_member, b'"\xff\xfe"'),
    GarbageKind.UTF16: _utf16,
    GarbageKind.BYTE_ORDER_MARK: lambda body: b"\xef\xbb\xbf" + body,
    GarbageKind.NUL_BYTES: lambda body: body + bytes(100),
    GarbageKind.NUL_ESCAPED: partial(_with_member, b'"\\u0000"'),
    GarbageKind.HALF_CHARACTER: partial(_with_member, b'"\\ud800"'),
    GarbageKind.CONTROL_CHARACTERS: partial(_with_member, b'"\x01\x02\n"'),
    GarbageKind.GZIPPED: _gzipped,
    GarbageKind.NULL: lambda _: b"null",
    GarbageKind.NUMBER: lambda _: b"0",
    GarbageKind.TEXT: lambda _: b'"success"',
    GarbageKind.ARRAY: lambda _: b"[]",
    GarbageKind.NO_PAYLOAD: _no_payload,
    GarbageKind.PAYLOAD_NULL: _always(None),
    GarbageKind.PAYLOAD_TEXT: _always("success"),
    GarbageKind.PAYLOAD_NUMBER: _always(0),
    GarbageKind.OTHER_CONTAINER: partial(
        _changed, lambda value: {} if isinstance(value, list) else [value]
    ),
    GarbageKind.ROWS_OF_NULL: _always([None]),
    GarbageKind.VALUES_NESTED: _each_leaf({"a": []}),
    GarbageKind.VALUES_TRUE: _each_leaf(True),
    GarbageKind.VALUES_NULL: _each_leaf(None),
    GarbageKind.NUMBERS_AS_WORDS: _each_number("many"),
    GarbageKind.NUMBERS_TOO_LARGE: _each_number(10**30),
    GarbageKind.KEYS_RENAMED: partial(_changed, _keys_renamed),
}


def spoil(kind: GarbageKind, body: bytes = _EMPTY) -> bytes:
    """Return what a good body becomes; always the same for the same body."""
    return _SPOILT[kind](body)
