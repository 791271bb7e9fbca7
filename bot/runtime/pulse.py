"""The pulse: what happened lately, in one line, so that silence is never mistaken for death."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from bot.domain.entry import Note, RunState
from bot.domain.quote import Quote
from bot.engine.risk.checks import SILENT_PHASES
from bot.engine.status import BotStatus

_TOLD: Final = ("quotes", "depths", "signals", "skips", "orders", "fills")


class Pulse:
    """Counts from one pulse to the next."""

    def __init__(self) -> None:
        self._before: Mapping[str, int] = {}
        self._heard_at: datetime | None = None

    def beat(self, status: BotStatus, at: datetime) -> Note:
        """Say whether it trades, what is open, and what was counted since last time."""
        counts = status.counts
        since = {name: _grown(count, self._before.get(name, 0)) for name, count in counts.items()}
        self._before = dict(counts)
        told = ", ".join(_counted(since[name], name) for name in _TOLD if since.get(name))
        if since.get("quotes") or since.get("depths") or _is_asleep(status):
            self._heard_at = at
        else:
            told = ", ".join([self._silence(at), told] if told else [self._silence(at)])
        text = f"{_trading(status)}, {len(status.open_orders)} open · {told or 'quiet'}"
        return Note(at, "PULSE", text, since)

    def _silence(self, at: datetime) -> str:
        """`no data for 5 min`: the market is awake and should have told something."""
        if self._heard_at is None:
            return "no data yet"
        return f"no data for {(at - self._heard_at).total_seconds() // 60:.0f} min"


def _is_asleep(status: BotStatus) -> bool:
    """Whether nothing is polled now."""
    return all(phase in SILENT_PHASES for phase in status.phases.values())


def _grown(count: int, before: int) -> int:
    """How much a count has grown; it begins again each day."""
    return count - before if count >= before else count


def _counted(count: int, name: str) -> str:
    return f"{count} {name}" if count != 1 else f"1 {name.removesuffix('s')}"


def _trading(status: BotStatus) -> str:
    """How many strategies are on; what stops them all comes before."""
    if status.state is not RunState.RUNNING:
        return f"{status.state}, no new orders"
    states = [each.state for each in status.strategies]
    waits = [each.reason for each in status.strategies if each.state == "warming"]
    others = [each for each in ("paused", "disabled") if each in states]
    on = [f"{states.count('on')} on"] if "on" in states else []
    told = [f"{len(waits)} {waits[0]}"] if waits else []
    return ", ".join([*on, *told, *(f"{states.count(each)} {each}" for each in others)])


def quote_note(quote: Quote, at: datetime) -> Note:
    """Say where a symbol stands: its last price and how far that is from the reference."""
    change = 0.0 if not quote.reference else 100 * (quote.last - quote.reference) / quote.reference
    text = f"{quote.symbol} {quote.last:,} {change:+.1f}%"
    return Note(at, "QUOTE", text, {"last": quote.last}, quote.symbol)
