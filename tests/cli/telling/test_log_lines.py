"""`bot logs` says in plain words what a line of the log is about."""

from collections.abc import Mapping

import pytest

from bot.cli.telling.log_lines import WORDS, words_of
from bot.domain.entry import Entry, Note, RunState, StateChanged
from bot.runtime.health.process_log import name_of
from bot.runtime.hush import Hiding
from tests.journal.facts import EVERY_KIND, after

ACCOUNT = "120C900001.1"


def line_of(entry: Entry, **around: object) -> Mapping[str, object]:
    facts = Hiding(tuple).plain(entry)
    assert isinstance(facts, Mapping)
    head = {"time": "2026-11-19T02:30:00.000+00:00", "level": "info", "event": name_of(entry)}
    return {**head, **facts} if not around else {**head, **around, "entry": facts}


@pytest.mark.parametrize("entry", EVERY_KIND, ids=lambda entry: type(entry).__name__)
def test_every_kind_of_entry_has_words_without_marks_of_a_program(entry: Entry) -> None:
    told = words_of(line_of(entry))

    assert told
    assert isinstance(entry, Note) or name_of(entry) in WORDS
    assert not set("{}[]'\"=") & set(told), told
    assert "None" not in told
    assert ACCOUNT not in told


def changed(before: RunState, after_it: RunState, scope: str) -> StateChanged:
    return StateChanged(after(0), before, after_it, "prices", "operator", scope=scope)


@pytest.mark.parametrize(
    ("before", "after_it", "scope", "words"),
    [
        (RunState.RUNNING, RunState.HALTED, "all", "RUNNING to HALTED by operator: prices"),
        (RunState.RUNNING, RunState.RUNNING, f"base:{ACCOUNT}", "base:…001.1: prices"),
        (
            *(RunState.HALTED, RunState.RUNNING, "symbol:HPG"),
            "symbol:HPG no longer HALTED by operator: prices",
        ),
        (
            *(RunState.RUNNING, RunState.HALTED, f"account:{ACCOUNT}"),
            "account:…001.1 RUNNING to HALTED by operator: prices",
        ),
    ],
)
def test_a_change_of_state_says_what_changed(
    before: RunState, after_it: RunState, scope: str, words: str
) -> None:
    assert words_of(line_of(changed(before, after_it, scope))) == words


def test_a_halt_without_a_reason_ends_with_who_did_it() -> None:
    halt = StateChanged(after(0), RunState.RUNNING, RunState.HALTED, "", "operator")

    assert words_of(line_of(halt)) == "RUNNING to HALTED by operator"


def test_what_the_journal_did_not_have_yet_is_said_to_be_so() -> None:
    note = Note(after(0), "ALERT", "the disk is full", {"code": "DISK_LOW"}, "HPG")

    told = words_of(line_of(note, in_journal=False))

    assert told == "HPG: the disk is full (not in the journal yet)"


@pytest.mark.parametrize(
    "line",
    [
        {"event": "of_a_later_version", "a": {"b": 1, "c": None}, "d": ["x", "y"], "at": "z"},
        {"event": "fill", "a": {"b": 1}, "d": ["x", "y"]},
    ],
)
def test_what_it_has_no_words_for_is_names_and_values(line: Mapping[str, object]) -> None:
    assert words_of(line) == "a.b=1 d=x,y"
