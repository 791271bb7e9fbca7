"""Recorded days, as files tell them: bars of a minute or a day, or trades.

Prices are whole VND on the tick and within the band, quantities whole lots; whoever makes these
values has checked that. Seconds are those of the exchange's local day.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date

from bot.domain.order import Side


@dataclass(frozen=True, slots=True)
class RecordedBar:
    """What was traded in the minute, or the day, that begins at `second`."""

    second: int
    open: int
    high: int
    low: int
    close: int
    volume: int


@dataclass(frozen=True, slots=True)
class Print:
    """Shares that trade at one price. `aggressor` None: in the call auction ending at `second`."""

    second: int
    price: int
    quantity: int
    aggressor: Side | None


@dataclass(frozen=True, slots=True)
class RecordedDay:
    """One symbol on one day: its reference, and either minute bars, one bar, or trades."""

    reference: int
    minutes: tuple[RecordedBar, ...] = ()
    whole: RecordedBar | None = None
    trades: tuple[Print, ...] = ()


@dataclass(frozen=True, slots=True)
class Recording:
    """All that a scenario replays: by symbol, the days. `digest` tells two recordings apart."""

    days: Mapping[str, Mapping[date, RecordedDay]] = field(default_factory=dict)
    digest: str = ""
