"""When more happens in a day of a backtest than bars: timers, phases, auctions, settlements."""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import time, timedelta

from bot.engine.settings import LoadedStrategy
from bot.runtime.history.backtest.market import MarketDay


@dataclass(frozen=True, slots=True)
class Timer:
    """A local time of day that a strategy asks for, and the symbols that it trades."""

    at: time
    strategy: str
    symbols: tuple[str, ...]


def timers_of(strategies: Iterable[LoadedStrategy]) -> list[Timer]:
    """Return the timers of all strategies in the order of a day."""
    timers = (
        Timer(at, each.plan.name, each.plan.symbols)
        for each in strategies
        for at in each.plan.wake.timers
    )
    return sorted(timers, key=lambda timer: timer.at)


def engines_own(day: MarketDay, deadlines: Iterable[time]) -> list[int]:
    """Return the instants that bring more than bars, by their numbers, and the day's end.

    A phase begins, an auction is matched, a bar of the day before is shown, or a deadline has come.
    """
    seconds = {round(since_midnight(each).total_seconds()) for each in deadlines} | day.moves
    for rows in day.rows.values():
        seconds.update(rows.auctions)
        if rows.held is not None:
            seconds.add(rows.held[0])
    return sorted({bisect_left(day.seconds, each) for each in seconds} | {len(day.seconds)})


def since_midnight(local: time) -> timedelta:
    """Return how far a local time is in its day."""
    return timedelta(hours=local.hour, minutes=local.minute, seconds=local.second)
