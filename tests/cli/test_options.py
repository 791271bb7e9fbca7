"""How often to look again, what is written then, and which times are taken."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from bot.cli.command import FREE_TEXT, Invocation
from bot.cli.main import walk
from bot.cli.options import EVERY, LENGTH_MAX_S, WATCH_EVERY_S_MIN, length_from
from bot.cli.show import watch
from bot.config.problems import ExitCode
from tests.cli.stage import call


def test_in_a_pipe_only_changes_are_written() -> None:
    looks = iter([["a"], ["a"], ["b"]])
    with CliRunner().isolation() as streams:
        watch(Invocation(), lambda: next(looks), every_s=0, looks=3)
        written = streams[0].getvalue().decode()

    assert written == "a\nb\n"


@pytest.mark.parametrize(("said", "seconds"), [("2", 2.0), ("5s", 5.0), ("0.5", WATCH_EVERY_S_MIN)])
def test_seconds_may_have_their_unit(said: str, seconds: float) -> None:
    assert EVERY(said) == seconds


@pytest.mark.parametrize("said", ["0", "-1", "0.4s", "nan", "inf"])
def test_to_watch_every_zero_seconds_is_refused(said: str) -> None:
    with pytest.raises(click.BadParameter, match=r"wanted at least 0\.5 seconds"):
        EVERY(said)


def test_what_is_no_number_of_seconds_is_refused() -> None:
    with pytest.raises(click.BadParameter, match="wanted how often to refresh"):
        EVERY("FPT")


def test_only_a_time_that_would_overflow_is_too_long() -> None:
    assert length_from(0)(f"{LENGTH_MAX_S:.0f}") == LENGTH_MAX_S

    with pytest.raises(click.BadParameter, match="at most 1,000,000,000"):
        length_from(0)("999999h")


@pytest.mark.parametrize(
    "command",
    [
        ("orders", "--since", "0001-01-01"),
        ("fills", "--since", "0001-01-01T00:00"),
        ("events", "--since", "9999-12-31T23:59:59-12:00"),
        ("session", "--at", "9999-12-31T23:59"),
        ("session", "--at", "0001-01-01T00:00"),
    ],
    ids=" ".join,
)
def test_a_day_at_the_edge_of_the_calendar_is_a_wrong_command_line(
    command: tuple[str, ...], config: Path
) -> None:
    ran = call(*command, "-c", str(config))

    assert (ran.code, ran.out) == (ExitCode.USAGE, "")
    assert f"{command[-1]!r}: wanted" in ran.err


def _empty_words() -> list[tuple[str, ...]]:
    """Each command line that gives an empty value: of every command, every value it takes."""
    found = list[tuple[str, ...]]()
    for path, command in walk():
        words = path.split()[1:]
        for each in command.params:
            if isinstance(each, click.Argument) and not isinstance(command, click.Group):
                found.append((*words, ""))
            elif isinstance(each, click.Option) and not (each.is_flag or each.name in FREE_TEXT):
                found.append((*words, each.opts[0], ""))
    return found


def test_no_command_takes_an_empty_name_for_all_or_for_this_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    for words in (*_empty_words(), ("--state-dir", "", "halt"), ("-c", " ", "halt", "--yes")):
        ran = call(*words)

        assert (ran.code, ran.out) == (ExitCode.USAGE, ""), words
        assert " is empty (an unset variable?): nothing was done" in ran.err, (words, ran.err)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("order", "L-0003", "--is", "", "--yes", "--reason", "seen"), "'--is'"),
        (("order", "L-0003", "--is= ", "--yes", "--reason", "seen"), "'--is'"),
        (("resume", "", "--reason", "checked"), "'[SYMBOL]'"),
        (("halt", "--yes", "--state-dir", ""), "'--state-dir'"),
    ],
    ids=" ".join,
)
def test_the_empty_one_is_named(words: tuple[str, ...], named: str) -> None:
    assert f"Error: {named} is empty" in call(*words).err


def test_an_empty_reason_keeps_nobody_from_halting(tmp_path: Path) -> None:
    ran = call("halt", "--yes", "--reason", "", "--state-dir", str(tmp_path))

    assert (tmp_path / "HALT").exists(), ran.err
