"""How often to look again, what is written then, and which times are taken."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from bot.cli.command import Invocation
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
