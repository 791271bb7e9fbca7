"""What the broker, a file or another shell says never acts on the terminal and forges no line."""

import json
import logging
import re
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any
from unicodedata import category

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.cli.command import Invocation
from bot.cli.rows import csv_lines
from bot.cli.show import LogLines, aligned, print_json, print_table, show_mistake, write_line
from bot.cli.telling.wording import folded
from bot.config.problems import OperatorMistake, Problem
from bot.domain.entry import Entry, OrderUpdated
from bot.domain.local_time import clock_of
from tests.cli.stage import call
from tests.cli.test_foreground import screen
from tests.journal.facts import EVERY_KIND
from tests.staging import QUIET
from tests.story import once, tell, write_project

ACTING = {"Cc", "Cf", "Cs", "Zl", "Zp"}
FORGED = "no \x1b[31mOWNED \x1b]0;T\x07\n09:16:00 FILL    L-0001     100 @ 1 \u202edlo\u2028x"
SHOWN = "no \\x1b[31mOWNED \\x1b]0;T\\x07\\x0a09:16:00 FILL"
OUTSIDE = st.lists(
    st.one_of(st.text(st.characters(codec=None), max_size=20), st.just(FORGED)), max_size=4
).map("".join)
PAST = re.compile(
    r"(?<![\w.])(?:print|click\.(?:s?echo|confirm|prompt)|sys\.std(?:out|err)\.write(?:lines)?)\(.*"
)
ROOT = Path(__file__).resolve().parents[2]


def acting(text: str) -> list[str]:
    """The characters in what was written that a terminal would obey; our own line feeds aside."""
    return [each for each in text if each != "\n" and category(each) in ACTING]


def with_text(entry: Entry, text: str) -> Iterator[Entry]:
    """The entry with `text` in each of its texts that comes from outside, one at a time."""
    kept = {"entry", "kind", "scope", "by", "side"}
    for field in fields(entry):
        value = getattr(entry, field.name)
        if type(value) is str and field.name not in kept:
            changes: dict[str, Any] = {field.name: text}
            yield replace(entry, **changes)


@settings(max_examples=30)
@given(OUTSIDE)
def test_whatever_a_text_of_an_entry_holds_no_line_of_the_run_is_forged(text: str) -> None:
    for kind in EVERY_KIND:
        for entry in with_text(kind, text):
            with screen(Invocation(no_input=True)) as (shows, shown):
                shows.entry(entry)

            head = f"{clock_of(entry.at)} "
            lines = shown.out.split("\n")
            assert all(line.startswith((head, " ")) for line in lines if line), lines
            assert not acting(shown.out + shown.err)


def test_a_run_as_json_is_one_harmless_line_for_an_entry() -> None:
    entry = next(each for each in EVERY_KIND if isinstance(each, OrderUpdated))
    with screen(Invocation(json=True)) as (shows, shown):
        shows.entry(replace(entry, reason=FORGED))

    assert json.loads(shown.out)["reason"] == FORGED
    assert shown.out.count("\n") == 1
    assert not acting(shown.out)


@settings(max_examples=30)
@given(OUTSIDE)
def test_talk_and_trouble_hold_one_line_each(text: str) -> None:
    with screen(Invocation()) as (shows, shown):
        shows.row("2FA", text)
        shows.trouble(f"!{text}")
        shows.talk(text)

    assert shown.err.count("\n") == 3
    assert not acting(shown.err)


def test_a_mistake_that_quotes_the_broker_keeps_to_its_line_and_the_files_lines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    problem = Problem("E-NET-001", FORGED, "bot.yaml", 1, 2, "   1 | mode: \x1b[2J\n     | ^ here")
    show_mistake(OperatorMistake([problem]))

    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith(f"bot.yaml:1:2: E-NET-001 {SHOWN}")
    assert lines[1:] == ["   1 | mode: \\x1b[2J", "     | ^ here"]


def test_tables_texts_csv_and_json_show_it_and_obey_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_table(Invocation(color="always"), ["WHY", "QTY"], [[FORGED, 1]], limit=500)
    write_line(FORGED)
    print_json({"why": FORGED})

    styled = "\x1b[1mWHY"
    out = capsys.readouterr().out
    assert out.startswith(styled)
    assert out.count("\n") == 4
    assert out.count(SHOWN) == 2
    assert not acting(out.replace("\x1b[1m", "").replace("\x1b[0m", ""))
    assert [*csv_lines([{"why": FORGED}], ["why"])][1].startswith(SHOWN)


async def test_a_rejection_that_holds_a_fill_is_told_as_one_rejection(tmp_path: Path) -> None:
    match = {"verb": "POST", "path": "*/orders"}
    fault = {"match": match, "action": {"do": "reject", "reason": FORGED}}
    config = write_project(tmp_path, scenario={**QUIET, "faults": [fault]}, strategies=[once()])

    story = await tell(config, minutes=2)
    with screen(Invocation()) as (shows, shown):
        for entry in story.shown.entries:
            shows.entry(entry)

    kept = [each.reason for each in story.shown.all(OrderUpdated)]
    assert FORGED in kept, "the journal keeps the text as it came"
    assert SHOWN in shown.out.replace("\n" + 17 * " ", " ")
    assert not [line for line in shown.out.splitlines() if line[9:13] == "FILL"]
    assert not acting(shown.out)
    _look_at(config)


def _look_at(config: Path) -> None:
    """Every command that shows an order, over the journal of the story."""
    for words in (
        ["orders"],
        ["orders", "-o", "wide"],
        ["orders", "-o", "csv"],
        ["orders", "-o", "jsonl"],
        ["orders", "--json"],
        ["order", "last"],
        ["order", "last", "--timeline"],
        ["order", "last", "--raw"],
        ["decisions"],
        ["journal", "export", "--what", "orders"],
        ["journal", "export", "--what", "events", "--format", "jsonl"],
    ):
        ran = call("-c", str(config), *words, columns=300)
        assert ran.code == 0, (words, ran.err)
        assert not acting(ran.out.removeprefix("\ufeff")), words
        assert not [line for line in ran.out.splitlines() if line.startswith("09:16:00 FILL")]


@pytest.mark.parametrize("match", [{"verb": "POST", "path": "*/orders"}, {"verb": "GET"}])
async def test_the_error_of_a_request_is_told_harmlessly(
    tmp_path: Path, match: dict[str, object]
) -> None:
    when = {"at": "09:21:00", "until": "09:23:00"} if match["verb"] == "GET" else {}
    error = {"do": "status", "status": 403, "code": "X\n09:16:00 FILL", "message": FORGED}
    fault = {"match": {**match, **when}, "action": error}
    scenario = {**QUIET, "faults": [fault]}

    story = await tell(write_project(tmp_path, scenario=scenario, strategies=[once()]), minutes=4)
    with screen(Invocation()) as (shows, shown):
        for entry in story.shown.entries:
            shows.entry(entry)
        for text in story.shown.troubles:
            shows.trouble(text)

    assert "OWNED" in shown.out + shown.err
    assert not acting(shown.out + shown.err)
    assert not [line for line in shown.out.splitlines() if "L-0001     100 @ 1" in line[:40]]


def test_what_a_library_logs_stands_set_in_where_it_goes_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    LogLines().emit(logging.LogRecord("x", logging.WARNING, "x.py", 1, "job %s", (FORGED,), None))

    err = capsys.readouterr().err
    assert err.startswith("job no \\x1b[31m")
    assert "\n  09:16:00 FILL" in err
    assert not acting(err)


@settings(max_examples=50)
@given(OUTSIDE)
def test_a_table_is_measured_as_it_is_shown(text: str) -> None:
    lines = aligned(["WHY", "QTY"], [[text, 100], ["plain", 2_000]], limit=10_000)

    assert {len(line) for line in lines} == {len(lines[0])}
    assert not acting("".join(lines))


@settings(max_examples=50)
@given(OUTSIDE)
def test_a_folded_line_is_measured_as_it_is_shown(text: str) -> None:
    lines = folded(f"09:16:00 REJECT  {text}", indent=17, limit=60)

    assert all(len(line) <= 60 for line in lines)
    assert all(line.startswith(17 * " ") for line in lines[1:])
    assert not acting("".join(lines))


def test_nothing_is_written_past_the_one_way_out() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {call}"
        for path in sorted((ROOT / "bot").rglob("*.py"))
        if path.name != "show.py"
        for call in PAST.findall(path.read_text("utf-8"))
    ]

    assert found == []
