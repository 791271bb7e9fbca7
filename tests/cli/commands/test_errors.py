"""`bot errors`: every code that the program uses is explained, in both languages."""

import json
import re
from pathlib import Path

import bot
from bot.cli.explaining import entries
from bot.config.problems import ExitCode
from bot.engine.gate import DENIED_JOURNAL, REFUSAL_CODES
from bot.engine.risk.codes import ASK_CODES, CODES
from bot.protocol.status import STATUSES
from tests.cli.stage import call

SOURCE = Path(bot.__file__).parent
KNOWN = {name for each in entries() for name in (each.code, *each.also)}
ORDER_CODES = (
    "-400116 QMAX_EXCEED -900017 -10011 INVALID_PRICE_LOT -700106 -700104 -700105 -700114 -300025"
    " -100113 INVALID_ORDER_TYPE_FOR_THIS_SESSION -400099 -700069"
    " CAN_NOT_PLACE_ORDER_ON_HALTED_SYMBOL -701111 MUST_PUBLISH_TRADE_INFO FAILED"
)
"""The broker's order-level codes, by its document."""
HTTP_CODES = (
    "400 401 403 404 429 500 INVALID_PARAMETER AUTH_SIGNATURE_INVALID AUTH_NONCE_REUSED"
    " ORDER_BOOK_NOT_SUPPORTED RATE_LIMIT_EXCEEDED OTP_SESSION_REQUIRED OTP_SESSION_INVALID"
    " OTP_SESSION_EXPIRED OTP_SESSION_REVOKED OTP_INVALID OTP_LOCKED"
)
_SKIPS = re.compile(r"note_skip\(state, strategy, (?:instance\.)?symbol, \"([A-Z_]+)\"")
_REASONS = re.compile(r"return \"([A-Z]+_[A-Z_]+)\", ")


def test_every_code_of_a_decision_is_explained() -> None:
    engine = [path.read_text("utf-8") for path in (SOURCE / "engine").rglob("*.py")]
    skips = {code for text in engine for code in _SKIPS.findall(text)}
    reasons = set(_REASONS.findall((SOURCE / "engine" / "requests.py").read_text("utf-8")))
    gates = {*REFUSAL_CODES.values(), DENIED_JOURNAL}

    assert {"WARMING", "NOT_SETTLED"} <= skips | reasons
    assert {*CODES, *ASK_CODES, *skips, *reasons, *gates} - KNOWN == set()


def test_every_status_and_code_of_the_broker_is_explained() -> None:
    assert {*STATUSES, *ORDER_CODES.split(), *HTTP_CODES.split()} - KNOWN == set()


def test_no_code_is_explained_twice_and_all_have_both_languages() -> None:
    codes = [name for each in entries() for name in (each.code, *each.also)]

    assert sorted(set(codes)) == sorted(codes)
    assert [one.code for one in entries() if not (one.en and one.vi) or one.en == one.vi] == []


def test_a_code_is_told_in_both_languages_whatever_its_case() -> None:
    ran = call("errors", "qmax_exceed")

    assert ran.out.splitlines() == [
        "-400116 (also QMAX_EXCEED): code of the broker",
        "  More than buying or selling power allows.",
        "  Vượt sức mua hoặc số được bán.",
    ]


def test_a_code_with_a_minus_is_no_option() -> None:
    assert call("errors", "-700114").out.startswith("-700114: code of the broker")


def test_the_number_of_a_control_finds_its_codes() -> None:
    found = json.loads(call("errors", "R10", "--json").out)["errors"]

    assert [each["code"] for each in found] == ["POSITION_VALUE"]


def test_a_code_that_nobody_knows_is_named_with_the_nearest_one() -> None:
    ran = call("errors", "MAX_LOST")

    assert ran.code == ExitCode.USAGE
    assert "'MAX_LOST' is no code that is known here: did you mean MAX_LOSS?" in ran.err
