"""Each alert says which order, what the bot does and what to do, in English and in Vietnamese."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import bot
from bot.cli.commands.status import alerts_of
from bot.cli.target import Fields
from bot.cli.telling.languages import catalogue, told
from bot.cli.telling.narrator import Narrator
from bot.domain.entry import Note
from tests.cli.telling.told_whole import ALERTS, require_whole
from tests.rows import every_row

VIETNAMESE: Final = catalogue("vi")
_NAMES: Final = ("intent_id", "order_id", "ids", "rows", "break", "symbol")
"""Facts by which a person finds an order; an alert names the first that it has."""
_CALLS: Final = re.compile(
    r'\b(?:Standing|alert|tell|_alert|_contradict|_halt)\((?:[a-z_, .]*)\s*"([A-Z][A-Z_]+)"'
)
_OTHERS: Final = re.compile(
    r'(?:"alert": "|(?:_S|SendState)\.[A-Z]+: "|code = "|else ")([A-Z]+_[A-Z_]+|BREAK)"'
)


def _codes_in(folder: str) -> Iterator[str]:
    for path in (Path(bot.__file__).parent / folder).rglob("*.py"):
        text = path.read_text("utf-8")
        if "alert" in text:
            yield from _CALLS.findall(text)
            yield from _OTHERS.findall(text)


def test_every_alert_of_the_program_is_in_the_catalogue_and_none_is_left_over() -> None:
    used = {*_codes_in("engine"), *_codes_in("runtime")} & {*ALERTS, *VIETNAMESE.alerts}
    unknown = {*_codes_in("engine"), *_codes_in("runtime")} - {*VIETNAMESE.alerts}

    assert unknown - {"DAY_OVER", "ELSEWHERE"} == set()
    assert (used, set(ALERTS)) == (set(VIETNAMESE.alerts), set(VIETNAMESE.alerts))


@every_row("code", sorted(ALERTS))
def test_an_alert_says_what_the_bot_does_and_what_the_person_must_do(code: str) -> None:
    require_whole(code, ALERTS[code]["en"])


@every_row("code", sorted(ALERTS))
def test_what_each_such_alert_must_say_is_about_no_order_or_symbol_in_particular(code: str) -> None:
    words = f"{ALERTS[code]['now']} {ALERTS[code]['do']}"

    assert not re.search(r"HPG|L-0|ORD\d", words)


@every_row("code", sorted(ALERTS))
def test_an_alert_names_its_order_in_both_languages(code: str) -> None:
    alert = ALERTS[code]
    named = next((str(alert["facts"][one]) for one in _NAMES if alert["facts"].get(one)), "")

    assert named in alert["en"]
    assert named in alert["vi"]


@every_row("code", sorted(ALERTS))
def test_an_alert_is_whole_in_vietnamese_by_its_code_and_facts_alone(code: str) -> None:
    alert = ALERTS[code]

    assert told("vi", alert["en"], code, alert["facts"]) == alert["vi"].rstrip("\n")


def test_a_day_that_was_not_compared_names_in_vietnamese_too_what_differed() -> None:
    facts = {"day": "2026-11-19", "open": "cash: 5 at the broker", "did_differ": True}

    text = VIETNAMESE.told("DAY_NOT_COMPARED", facts)

    assert text is not None
    assert "khác (cash: 5 at the broker)" in text
    assert "bot reconcile" in text


def test_a_market_order_is_named_by_its_type() -> None:
    facts = {**ALERTS["UNKNOWN_OPEN"]["facts"], "price": None, "order_type": "ATC"}

    assert "MUA 100 HPG giá ATC" in told("vi", "", "UNKNOWN_OPEN", facts)


@every_row(
    ("code", "facts"),
    [("", {}), ("NEW_ONE", {"symbol": "HPG"}), ("SYMBOL_HALTED", {"symbol": "HPG"})],
)
def test_what_has_no_template_or_lacks_a_fact_is_told_in_english(
    code: str, facts: dict[str, object]
) -> None:
    assert told("vi", "as it is", code, facts) == "as it is"


def test_braces_of_a_broker_s_text_are_only_text() -> None:
    facts = {"symbol": "HPG", "why": "{symbol} {0} {why.__class__}"}

    assert "{symbol} {0} {why.__class__}" in told("vi", "", "SYMBOL_HALTED", facts)


@every_row(("code", "language"), [(code, each) for code in sorted(ALERTS) for each in ("en", "vi")])
def test_run_and_status_tell_it_whole_in_the_language_of_the_settings(
    code: str, language: str
) -> None:
    alert = ALERTS[code]
    facts = {**alert["facts"], "alert": code}
    note = Note(datetime(2026, 11, 19, 2, 30, tzinfo=UTC), "ALERT", alert["en"], facts)
    row = {"code": code, "text": alert["en"], "facts": facts}

    lines = Narrator(language).lines_of(note)
    shown = list(alerts_of(Fields({"language": language, "standing": [row]})))

    assert " ".join(" ".join(lines).split()[2:]) == " ".join(alert[language].split())
    assert shown == [alert[language].rstrip("\n")]
