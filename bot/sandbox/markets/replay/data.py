"""Recorded days: what a scenario may say of them, and what their files hold.

Prices are whole VND on the tick and within the band, quantities whole lots; whoever makes these
values has checked that. Seconds are those of the exchange's local day.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum

from pydantic import Field

from bot.domain.order import Side
from bot.sandbox.scenario_part import Part


class RecordKind(StrEnum):
    """What a symbol is replayed from."""

    MINUTES = "minutes"
    DAILY = "daily"
    TRADES = "trades"


class ReplayScript(Part):
    """Where the records are, relative to the scenario's file; formats in `docs/market-files.md`.

    `minutes` and `trades` are folders with one file for each symbol, `daily` is one file of all
    symbols. `days` is how many trading days are read, the scenario's first.
    """

    minutes: str | None = None
    daily: str | None = None
    trades: str | None = None
    days: int = Field(default=1, ge=1, le=60)


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
    """All that a scenario replays: days by symbol. `digest` distinguishes two recordings."""

    days: Mapping[str, Mapping[date, RecordedDay]] = field(default_factory=dict)
    digest: str = ""
