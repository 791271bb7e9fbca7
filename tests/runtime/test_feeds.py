"""Polls fit the quota: as often as they were asked for, or all slower by one factor."""

from datetime import timedelta

from bot.runtime.feeds import POLLS_SHARE_PERCENT, Poll, fitted


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
