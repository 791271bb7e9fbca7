"""The pulse: what happened lately, in one line, so that silence is never mistaken for death."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from bot.domain.entry import Note
from bot.domain.quote import Quote
from bot.engine.standing import Standing

_TOLD: Final = ("quotes", "depths", "signals", "skips", "orders", "fills")


class Pulse:
    """Counts from one pulse to the next."""

    def __init__(self) -> None:
        self._before: Mapping[str, int] = {}

    def beat(self, standing: Standing, at: datetime) -> Note:
        """Say how many strategies are on, what is open, and what was counted since last time."""
        counts = standing.counts
        since = {name: count - self._before.get(name, 0) for name, count in counts.items()}
        self._before = dict(counts)
        told = ", ".join(_counted(since[name], name) for name in _TOLD if since.get(name))
        open_now = f"{len(standing.open_orders)} open"
        text = f"{_strategies(standing)}, {open_now} · {told or 'quiet'}"
        return Note(at, "PULSE", text, since)


def _counted(count: int, name: str) -> str:
    return f"{count} {name}" if count != 1 else f"1 {name.removesuffix('s')}"


def _strategies(standing: Standing) -> str:
    states = [each.state for each in standing.strategies]
    others = sorted({state for state in states if state != "on"})
    counted = "".join(f", {states.count(state)} {state}" for state in others)
    return f"{states.count('on')} on{counted}"


def quote_note(quote: Quote, at: datetime) -> Note:
    """Say where a symbol stands: its last price and how far that is from the reference."""
    change = 0.0 if not quote.reference else 100 * (quote.last - quote.reference) / quote.reference
    text = f"{quote.symbol} {quote.last:,} {change:+.1f}%"
    return Note(at, "QUOTE", text, {"last": quote.last}, quote.symbol)
