"""`bot logs`: the newest lines, by level, over the file that was put aside, and those to come."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from bot.cli.commands.logs import WORDS, words_of
from bot.config.problems import ExitCode
from bot.domain.entry import Entry, Note, RunState, StateChanged
from bot.runtime.health.process_log import name_of
from bot.runtime.hush import Hiding
from tests.cli.stage import CONFIG, Ran, call
from tests.journal.facts import EVERY_KIND, after


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "bot.yaml"
    path.write_text(CONFIG)
    (tmp_path / "state").mkdir()
    return path


def line(number: int, level: str = "info", **facts: object) -> str:
    time = f"2026-11-19T02:30:{number:02}.000+00:00"
    return json.dumps({"time": time, "level": level, "event": "alert", **facts}) + "\n"


def logs(config: Path, *arguments: str) -> Ran:
    return call("logs", "-c", str(config), *arguments)


def test_the_newest_lines_are_shown_also_of_the_file_before(config: Path) -> None:
    (config.parent / "state/bot.log.1").write_text(line(1, text="a") + line(2, text="b"))
    (config.parent / "state/bot.log").write_text(line(3, text="c\x1b[2J") + '{"cut": ')

    ran = logs(config, "-n", "2")

    assert (ran.code, ran.err) == (ExitCode.DONE, "")
    assert ran.out.splitlines() == [
        "11-19 09:30:02 info    alert text=b",
        "11-19 09:30:03 info    alert text=c\\x1b[2J",
    ]


def test_a_level_leaves_out_what_is_less(config: Path) -> None:
    (config.parent / "state/bot.log").write_text(line(1) + line(2, "error") + line(3, "warning"))

    ran = logs(config, "--level", "warning", "--json")

    assert [each["level"] for each in json.loads(ran.out)["lines"]] == ["error", "warning"]


def test_what_is_written_later_is_followed_and_json_is_a_line_each(config: Path) -> None:
    (config.parent / "state/bot.log").write_text(line(1) + line(2))

    ran = logs(config, "-f", "--json", "--looks", "1", "-n", "1")

    assert [json.loads(each)["time"][17:19] for each in ran.out.splitlines()] == ["02"]


@pytest.mark.parametrize(
    ("text", "code"),
    [("", ExitCode.NOT_RUNNING), ("log: {level: 'off'}\n", ExitCode.CONFIG)],
)
def test_without_a_log_it_says_what_to_do(config: Path, text: str, code: ExitCode) -> None:
    config.write_text(CONFIG + text)

    ran = logs(config)

    assert ran.code == code
    assert "E-LOG-001" in ran.err


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
