"""Polls fit the quota: as often as they were asked for, or all slower by one factor."""

from datetime import timedelta
from pathlib import Path

from bot.runtime.feeds import POLLS_SHARE_PERCENT, Poll, fitted, room_for_polls
from tests.staging import QUIET
from tests.story import once, tell, write_project


def poll(symbol: str, seconds: int) -> Poll:
    return Poll("quote", symbol, timedelta(seconds=seconds))


def test_polls_that_fit_are_as_often_as_asked_for() -> None:
    polls = [poll("FPT", 5), poll("HPG", 10)]

    assert fitted(polls, 60) == tuple(polls)


def test_polls_that_do_not_fit_are_all_slower_by_one_factor() -> None:
    polls = [poll(f"S{number}", 10) for number in range(30)] + [poll("SLOW", 20)]

    slower = fitted(polls, 60)

    assert [each.interval.total_seconds() for each in slower] == [61] * 30 + [122]
    assert sum(each.per_minute for each in slower) <= 60 * POLLS_SHARE_PERCENT / 100


def test_the_check_names_the_number_that_the_run_keeps_to() -> None:
    polls = [poll(f"S{number}", 10) for number in range(30)]

    kept = sum(each.per_minute for each in fitted(polls, 60))

    assert room_for_polls(60) == 30
    assert 0.95 * room_for_polls(60) < kept <= room_for_polls(60)


async def test_a_run_says_at_its_start_that_polls_are_slower_than_asked_for(tmp_path: Path) -> None:
    config = write_project(
        tmp_path,
        scenario=QUIET,
        strategies=[once(wake={"quote": "1s", "depth": "1s"})],
        broker={"requests_per_minute": 60},
    )

    story = await tell(config, minutes=1)

    assert ("polls", SLOWER) in story.shown.rows


SLOWER = "need 120 a minute, the quota leaves 30: each comes 4.0 times as seldom"
