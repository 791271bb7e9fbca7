"""Garbage answers: a good body spoilt in one of many named ways.

A kind either breaks the text (cut, doubled, not UTF-8, …) or puts something absurd into valid JSON
(every value null, the payload a number, …). Everything follows from the good body alone, so that
the same seed gives the same bytes. Huge or slow answers are separate actions.
"""

import gzip
import json
from collections.abc import Callable
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


def _with_member(value: bytes, body: bytes) -> bytes:
    """Insert one more member before those of the outer object."""
    inside = body.partition(b"{")[2]
    comma = b"" if inside.lstrip().startswith(b"}") else b","
    return b'{"novelty":' + value + comma + inside


def _envelope(body: bytes) -> dict[str, JsonValue]:
    return {name: value for name, value in json.loads(body).items() if name in _ENVELOPE_KEYS}


def _changed(change: Change, body: bytes) -> bytes:
    """Change the payload; without a payload key all fields but the envelope's are the payload."""
    members: dict[str, JsonValue] = json.loads(body)
    found = [name for name in _PAYLOAD_KEYS if name in members]
    if found:
        return _written(members | {name: change(members[name]) for name in found})
    kept = _envelope(body)
    inner = change({name: value for name, value in members.items() if name not in kept})
    return _written(kept | inner if isinstance(inner, dict) else inner)


def _leaves(change: Change, value: JsonValue) -> JsonValue:
    """Change every value that is neither object nor array."""
    if isinstance(value, dict):
        return {name: _leaves(change, inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_leaves(change, inner) for inner in value] or [None]
    return change(value)


def _keys_renamed(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {f"x_{name}": _keys_renamed(inner) for name, inner in value.items()}
    return [_keys_renamed(inner) for inner in value] or [{}] if isinstance(value, list) else value


def _always(replacement: JsonValue) -> Spoil:
    return partial(_changed, lambda _: replacement)


def _each_leaf(replacement: JsonValue) -> Spoil:
    return partial(_changed, partial(_leaves, lambda _: replacement))


def _each_number(replacement: JsonValue) -> Spoil:
    def changed(value: JsonValue) -> JsonValue:
        return replacement if isinstance(value, int | float) else value

    return partial(_changed, partial(_leaves, changed))


def _written(value: JsonValue) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


class GarbageKind(StrEnum):
    """A way of spoiling an answer: the word in a scenario file, and its function."""

    spoil: Spoil

    def __new__(cls, word: str, spoil: Spoil) -> "GarbageKind":
        kind = str.__new__(cls, word)
        kind._value_ = word
        kind.spoil = spoil
        return kind

    EMPTY = "empty", lambda _: b""
    BLANK = "blank", lambda _: b" \r\n\t "
    HALF = "half", lambda body: body[: len(body) // 2]
    LAST_BYTE_LOST = "last_byte_lost", lambda body: body[:-1]
    FIRST_BYTE_LOST = "first_byte_lost", lambda body: body[1:]
    NOT_JSON = "not_json", lambda _: b"OK"
    HTML = "html", lambda _: _HTML
    XML = "xml", lambda _: b"<?xml version='1.0'?><error_code>0</error_code>"
    SINGLE_QUOTES = "single_quotes", lambda body: body.replace(b'"', b"'")
    TRAILING_COMMA = "trailing_comma", lambda body: body.rstrip().removesuffix(b"}") + b",}"
    TRAILING_TEXT = "trailing_text", lambda body: body + b" OK"
    TWICE = "twice", lambda body: body + body
    DUPLICATE_KEY = "duplicate_key", partial(_with_member, b'1,"novelty":1')
    NAN = "nan", partial(_with_member, b"NaN")
    INFINITY = "infinity", partial(_with_member, b"-Infinity")
    DEEP_ARRAYS = "deep_arrays", partial(_with_member, b"[" * DEPTH + b"0" + b"]" * DEPTH)
    DEEP_OBJECTS = "deep_objects", partial(_with_member, b'{"a":' * DEPTH + b"0" + b"}" * DEPTH)
    LONG_INTEGER = "long_integer", partial(_with_member, b"9" * DIGITS)
    LONG_FRACTION = "long_fraction", partial(_with_member, b"0." + b"9" * DIGITS)
    HUGE_EXPONENT = "huge_exponent", partial(_with_member, b"1e999999999")
    NOT_UTF8 = "not_utf8", partial(_with_member, b'"\xff\xfe"')
    UTF16 = "utf16", lambda body: body.decode().encode("utf-16")
    BYTE_ORDER_MARK = "byte_order_mark", lambda body: b"\xef\xbb\xbf" + body
    NUL_BYTES = "nul_bytes", lambda body: body + bytes(100)
    NUL_ESCAPED = "nul_escaped", partial(_with_member, b'"\\u0000"')
    HALF_CHARACTER = "half_character", partial(_with_member, b'"\\ud800"')
    CONTROL_CHARACTERS = "control_characters", partial(_with_member, b'"\x01\x02\n"')
    GZIPPED = "gzipped", lambda body: gzip.compress(body, mtime=0)
    NULL = "null", lambda _: b"null"
    NUMBER = "number", lambda _: b"0"
    TEXT = "text", lambda _: b'"success"'
    ARRAY = "array", lambda _: b"[]"
    NO_PAYLOAD = "no_payload", lambda body: _written(_envelope(body))
    PAYLOAD_NULL = "payload_null", _always(None)
    PAYLOAD_TEXT = "payload_text", _always("success")
    PAYLOAD_NUMBER = "payload_number", _always(0)
    OTHER_CONTAINER = (
        "other_container",
        partial(_changed, lambda value: {} if isinstance(value, list) else [value]),
    )
    ROWS_OF_NULL = "rows_of_null", _always([None])
    VALUES_NESTED = "values_nested", _each_leaf({"a": []})
    VALUES_TRUE = "values_true", _each_leaf(True)
    VALUES_NULL = "values_null", _each_leaf(None)
    NUMBERS_AS_WORDS = "numbers_as_words", _each_number("many")
    NUMBERS_TOO_LARGE = "numbers_too_large", _each_number(10**30)
    KEYS_RENAMED = "keys_renamed", partial(_changed, _keys_renamed)


def spoil(kind: GarbageKind, body: bytes = _EMPTY) -> bytes:
    """Return the spoilt body; always the same for the same body."""
    return kind.spoil(body)
