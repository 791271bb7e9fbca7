"""What the status line under a run shows, gathered from the entries as they are told. Pure."""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from bot.cli.telling.wording import LINE_MAX, clock_of
from bot.domain.entry import (
    AuthEvent,
    Entry,
    Fill,
    Note,
    OrderUpdated,
    RunState,
    StateChanged,
)
from bot.domain.order import TERMINAL_STATES
from bot.domain.recovery import Recovery

SPARE: Final = ("keys", "phases", "open", "result", "2fa")
"""What is left out of the status line first where the terminal is narrow."""


class StatusLine:
    """The newest state, phase, orders and day's result."""

    def __init__(self) -> None:
        self.at: datetime | None = None
        self.state: RunState = RunState.STARTING
        self.phases: dict[str, str] = {}
        self.orders: dict[str, OrderUpdated] = {}
        self.result = 0
        self.second_factor = ""

    def recall(self, recovery: Recovery) -> None:
        """Begin with the orders and the result that the day already has."""
        self.orders = {order.order_id: order for order in recovery.orders}
        books = recovery.strategies.values()
        self.result = sum(book.realised_today - book.fees_today for book in books)

    def see(self, entry: Entry) -> None:
        """Take in an entry."""
        self.at = entry.at
        match entry:
            case StateChanged(to_state=state, scope="all"):
                self.state = state
            case OrderUpdated(order_id=order_id):
                self.orders[order_id] = entry
            case Fill(realised=realised, fee=fee, tax=tax):
                self.result += realised - fee - tax
            case Note(kind="PHASE", text=text, numbers=numbers):
                self.phases[str(numbers.get("exchange"))] = text
            case AuthEvent(kind="ready", detail=detail):
                self.second_factor = detail.split(",")[0]
            case AuthEvent(kind="needed"):
                self.second_factor = "needed"
            case _:
                return

    def open_orders(self) -> list[OrderUpdated]:
        """Own orders that have not ended, in the order of their ids."""
        ours = [each for each in self.orders.values() if each.intent_id and _is_open(each)]
        return sorted(ours, key=lambda each: each.order_id)

    def text(self, mode: str, limit: int = LINE_MAX) -> str:
        """`RUNNING SANDBOX 09:31:07 | HOSE continuous | open 1 | P&L +38,000 | 2FA until 23:59`.

        Where `limit` columns have no room for all of it, whole parts are left out.
        """
        parts = {
            "state": f"{self.state} {mode.upper()} {clock_of(self.at) if self.at else ''}".rstrip(),
            "phases": ", ".join(text for _, text in sorted(self.phases.items())),
            "open": f"open {len(self.open_orders())}",
            "result": f"P&L {self.result:+,}",
            "2fa": f"2FA {self.second_factor}" if self.second_factor else "",
            "keys": "Ctrl-C stops",
        }
        for spare in SPARE:
            if len(_joined(parts.values())) > limit:
                del parts[spare]
        return _joined(parts.values())[:limit]


def _joined(parts: Iterable[str]) -> str:
    return " | ".join(part for part in parts if part)


def _is_open(order: OrderUpdated) -> bool:
    return order.state not in TERMINAL_STATES
