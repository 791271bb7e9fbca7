"""Keeps of a backtest's journal what its result needs: orders, fills, decisions, counts."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from bot.domain.entry import Decision, Entry, Fill, Note, OrderUpdated
from bot.domain.timetable import local_of

PLAIN: Final = frozenset({"NO_SIGNAL", "SKIP", "WARMING"})
"""Codes of the plain "no"s: one for each bar and symbol, so they are counted and not kept."""
ALERTS_SHOWN: Final = 10


@dataclass(slots=True)
class Collected:
    """What has come of a run so far; `orders` holds the newest state of each."""

    orders: dict[str, OrderUpdated] = field(default_factory=dict)
    fills: list[Fill] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    alerts: list[str] = field(default_factory=list)

    def keep(self, entry: Entry) -> None:
        """Take one entry of the journal."""
        match entry:
            case Decision():
                self.counts[entry.code] += 1
                if entry.code not in PLAIN:
                    self.decisions.append(entry)
            case OrderUpdated():
                self.orders[entry.order_id or f"{entry.intent_id}"] = entry
            case Fill():
                self.fills.append(entry)
            case Note(kind="ALERT"):
                self.alerts.append(f"alert on {local_of(entry.at):%Y-%m-%d %H:%M}: {entry.text}")
            case _:
                pass

    def told(self) -> list[str]:
        """Return what the bot would have alerted its owner of, the first ones in full."""
        more = len(self.alerts) - ALERTS_SHOWN
        return [*self.alerts[:ALERTS_SHOWN], *([f"and {more:,} more alerts"] if more > 0 else [])]
