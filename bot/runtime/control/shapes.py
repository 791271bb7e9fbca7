"""Values as JSON-ready fields, for `--json` and the control socket. The keys are a stable
contract.
"""

from dataclasses import fields
from datetime import datetime
from typing import Any

from bot.domain.quote import Depth
from bot.protocol.values.border import MarketPhase
from bot.runtime.schedule import Job

Fields = dict[str, object]


def instant(value: datetime | None) -> str | None:
    """An instant as ISO 8601 in UTC."""
    return value.isoformat() if value is not None else None


def fields_of(value: Any) -> Fields:
    """The fields of a flat dataclass, by their names; instants as text."""
    found = {field.name: getattr(value, field.name) for field in fields(value)}
    return {name: instant(it) if isinstance(it, datetime) else it for name, it in found.items()}


def job_fields(job: Job, now: datetime) -> Fields:
    """A job of the timetable: when it is due, and what becomes of a time that can't be kept."""
    late, period = job.late_max, job.period
    return {
        "job": job.name,
        "next": instant(job.next_due(now)),
        "every_s": period.total_seconds() if period else None,
        "late_max_s": late.total_seconds() if late else None,
        "missed": job.missed,
        "overlapping": job.overlapping,
        "done_by_start": job.done_by_start,
    }


def whole_or_none(value: object) -> int | None:
    """A whole number that came as JSON; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def depth_fields(depth: Depth) -> Fields:
    """Levels best first, as [price, volume]."""
    return {
        "symbol": depth.symbol,
        "bids": [[level.price, level.volume] for level in depth.bids],
        "asks": [[level.price, level.volume] for level in depth.asks],
        "updated_at": instant(depth.updated_at),
    }


def phase_fields(found: MarketPhase) -> Fields:
    """The phase of an exchange and the order types that the broker lists there."""
    return {
        "exchange": found.exchange,
        "phase": found.phase,
        "available_order_types": sorted(found.available) if found.available is not None else None,
    }
