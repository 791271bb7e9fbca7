import json
from decimal import Decimal

import pytest

from bot.protocol.strict_json import DEPTH_MAX, NotJson, compact, parse
from tests.rows import every_row

HOSTILE = {
    "nothing": (b"", "not JSON"),
    "cut short": (b'{"a": 1', "not JSON"),
    "HTML": (b"<html><body>502</body></html>", "a web page came, not JSON: the broker may be"),
    "HTML after a line": (b"\n <!DOCTYPE html>", "a web page came, not JSON"),
    "two documents": (b"{} {}", "not JSON"),
    "a byte order mark": (b'\xef\xbb\xbf{"a":1}', "not JSON"),
    "a raw control character": (b'{"a":"\x00"}', "not JSON"),
    "not UTF-8": (b'{"a":"\xff"}', "UTF-8"),
    "UTF-16": ('{"a":1}'.encode("utf-16"), "UTF-8"),
    "NaN": (b'{"a":NaN}', "NaN"),
    "infinity": (b'{"a":-Infinity}', "Infinity"),
    "a key twice": (b'{"a":1,"a":1}', "twice"),
    "an inner key twice": (b'{"a":[{"b":1,"b":2}]}', "twice"),
    "10,000 digits": (b'{"a":' + b"9" * 10_000 + b"}", "64 bits"),
    "beyond 64 bits": (b'{"a":9223372036854775808}', "64 bits"),
    "a huge exponent": (b'{"a":1e999999999}', "too large"),
    "a tiny exponent": (b'{"a":1e-999}', "too large"),
    "a long fraction": (b'{"a":0.' + b"1" * 100 + b"}", "too large"),
    "too deep": (b"[" * 40 + b"]" * 40, "deeper"),
    "100,000 deep": (b"[" * 100_000 + b"]" * 100_000, "deeper"),
    "100,000 objects deep": (b'{"a":' * 100_000, "deeper"),
    "half a character": (rb'{"a":"\ud800"}', "half a character"),
    "an escaped NUL": (rb'{"a":"\u0000"}', "NUL"),
}


@every_row(("body", "reason"), HOSTILE.values())
def test_hostile_bytes_are_refused_with_their_reason(body, reason):
    with pytest.raises(NotJson, match=reason):
        parse(body)


def test_a_whole_character_in_two_halves_is_a_character():
    assert parse(rb'{"a":"\ud83d\ude00"}') == {"a": "\N{GRINNING FACE}"}


def test_nesting_is_allowed_up_to_the_limit():
    body = b"[" * DEPTH_MAX + b"]" * DEPTH_MAX

    assert parse(body) == json.loads(body)


def test_fractions_are_exact():
    assert parse(b'{"a":0.1,"b":1e2,"c":9223372036854775807}') == {
        "a": Decimal("0.1"),
        "b": Decimal(100),
        "c": 2**63 - 1,
    }


def test_compact_json_has_no_spaces_and_keeps_characters():
    assert compact({"a": ["đ", None, True, Decimal("0.5")]}) == '{"a":["đ",null,true,0.5]}'


def test_a_text_that_spells_an_escape_out_holds_no_nul():
    assert parse(rb'{"a":"\\u0000"}') == {"a": r"\u0000"}
