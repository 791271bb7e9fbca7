"""The event and the commands of earlier bars: looked for, found, and kept for the next start."""

from dataclasses import dataclass
from datetime import date, datetime, timedelta

from bot.domain.quote import Bar


@dataclass(frozen=True, slots=True)
class BarsRead:
    """Earlier bars were looked for: closed ones, oldest first, and what is there of the `forming`.

    `wanted` is how many were asked for. `origin` says in words where they come from, `lacks` what
    is missing and why; empty: nothing. `is_asked_again`: a source could not be read. `ex_ratios`:
    by what closes before past ex-dates count in indicators, oldest first; 1: they are adjusted.
    """

    at: datetime
    symbol: str
    width: timedelta
    bars: tuple[Bar, ...]
    wanted: int
    origin: str = ""
    lacks: str = ""
    forming: Bar | None = None
    is_asked_again: bool = False
    ex_ratios: tuple[tuple[date, float], ...] = ()


@dataclass(frozen=True, slots=True)
class ReadBars:
    """Look for `count` earlier bars of a symbol: a strategy reads further back than was known."""

    symbol: str
    width: timedelta
    count: int


@dataclass(frozen=True, slots=True)
class WentEx:
    """What an exchange made of a close on an ex-date; VND."""

    symbol: str
    day: date
    close: int
    reference: int


@dataclass(frozen=True, slots=True)
class KeepExDate:
    """Keep what a close became on an ex-date, for the next start."""

    went_ex: WentEx


@dataclass(frozen=True, slots=True)
class KeepBar:
    """Keep a bar that quotes have built, for the next start."""

    bar: Bar
