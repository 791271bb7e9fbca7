"""What a scenario file may say of recorded days that it replays."""

from enum import StrEnum

from pydantic import Field

from bot.sandbox.scenario_part import Part

DAYS_MAX = 60


class RecordKind(StrEnum):
    """What a symbol is replayed from."""

    MINUTES = "minutes"
    DAILY = "daily"
    TRADES = "trades"


class ReplayScript(Part):
    """Where the records are, relative to the scenario's file; formats in `docs/market-files.md`.

    `minutes` and `trades` are folders of one file for each symbol, `daily` is one file of all
    symbols. `days` is how many trading days are read, the scenario's first.
    """

    minutes: str | None = None
    daily: str | None = None
    trades: str | None = None
    days: int = Field(default=1, ge=1, le=DAYS_MAX)
