"""What a narrator remembers of the lines so far, and the status line below them. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Final

from bot.cli.telling.languages import ENGLISH
from bot.cli.telling.wording import LINE_MAX
from bot.domain.entry import (
    ENTRIES_SCOPE,
    REDUCED_SCOPE,
    AttemptFinished,
    AuthEvent,
    Entry,
    Fill,
    Note,
    OrderUpdated,
    RunState,
    StateChanged,
)
from bot.domain.local_time import clock_of, local_date
from bot.domain.order import TERMINAL_STATES, Intent
from bot.domain.recovery import Recovery

Lines = list[str]
INDENT: Final = 17
"""The column at which the text of a line begins, and that of continuation lines."""
SPARE: Final = ("keys", "phases", "open", "result", "2fa")
"""Parts dropped from the status line first if the terminal is narrow."""


def line(at: datetime, kind: str, text: str, who: str = "") -> str:
    """One line of a run: `HH:MM:SS KIND    who        text`."""
    subject = f"{who:<10} " if who else ""
    return f"{clock_of(at)} {kind:<7} {subject}{text}"


def more(text: str) -> str:
    return f"{'':{INDENT}}{text}"


class StatusLine:
    """The latest state, phase, orders and day's result."""

    def __init__(self) -> None:
        self.at: datetime | None = None
        self.state: RunState = RunState.STARTING
        self.reduced: set[str] = set()
        self.phases: dict[str, str] = {}
        self.orders: dict[str, OrderUpdated] = {}
        self.day: date | None = None
        self.result = 0
        self.second_factor = ""

    def recall(self, recovery: Recovery) -> None:
        """Begin with the day's existing orders and result."""
        self.orders = {order.order_id: order for order in recovery.orders}
        self.reduced = {f"{ENTRIES_SCOPE}{account}" for account in recovery.reduced}
        self.reduced |= {REDUCED_SCOPE} & recovery.halted_scopes.keys()
        states = recovery.strategies.values()
        self.day = recovery.trading_date
        self.result = sum(state.realised_today - state.fees_today for state in states)

    def see(self, entry: Entry) -> None:
        self.at, day = entry.at, local_date(entry.at)
        if self.day is not None and day > self.day:
            self.result = 0
        self.day = max(day, self.day or day)
        match entry:
            case StateChanged(to_state=state, scope="all"):
                self.state = state
            case StateChanged(to_state=state, scope=scope) if scope.startswith(ENTRIES_SCOPE):
                (self.reduced.add if state is RunState.HALTED else self.reduced.discard)(scope)
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

    def open_orders(self) -> list[OrderUpdated]:
        """Own orders that have not ended, sorted by id."""
        ours = (order for order in self.orders.values() if order.intent_id)
        still_open = [order for order in ours if order.state not in TERMINAL_STATES]
        return sorted(still_open, key=lambda order: order.order_id)

    def text(self, mode: str, limit: int = LINE_MAX) -> str:
        """`RUNNING SANDBOX 09:31:07 | HOSE continuous | open 1 | P&L +38,000 | 2FA until 23:59`.

        If it does not fit into `limit` columns, whole parts are dropped.
        """
        is_reducing = self.reduced and self.state is RunState.RUNNING
        shown = RunState.REDUCING if is_reducing else self.state
        parts = {
            "state": f"{shown} {mode.upper()} {clock_of(self.at) if self.at else ''}".rstrip(),
            "phases": ", ".join(text for _, text in sorted(self.phases.items())),
            "open": f"open {len(self.open_orders())}",
            "result": f"P&L {self.result:+,}",
            "2fa": f"2FA {self.second_factor}" if self.second_factor else "",
            "keys": "Ctrl-C stops",
        }
        for spare in SPARE:
            if len(_joined(parts)) > limit:
                del parts[spare]
        return _joined(parts)[:limit]


def _joined(parts: Mapping[str, str]) -> str:
    return " | ".join(filter(None, parts.values()))


@dataclass(slots=True)
class Memory:
    """`announced`: intents whose order has no row yet; `skips`: see `_is_news`.

    `gaps` is the distance of two values of one indicator when there was no signal, `reasons` how
    often each reason for no request occurred since the last pulse, with its last wording.
    `scripted` is the scenario's mark on an order's latest move. `needed` is the latest request for
    a token, `ready` the latest token, `paused_at` the start of the present pause, `halted_by` who
    has halted the bot last. `otp` is the command that gives this bot a code.
    """

    language: str = ENGLISH
    otp: str = "bot otp"
    status_line: StatusLine = field(default_factory=StatusLine)
    answers: dict[str, AttemptFinished] = field(default_factory=dict)
    intents: dict[str, Intent] = field(default_factory=dict)
    announced: set[str] = field(default_factory=set)
    held: set[str] = field(default_factory=set)
    skips: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    quoted: dict[str, datetime] = field(default_factory=dict)
    gaps: dict[tuple[str, str], float] = field(default_factory=dict)
    reasons: dict[tuple[str, str, str], tuple[int, str]] = field(default_factory=dict)
    scripted: dict[str, str] = field(default_factory=dict)
    limited_at: datetime | None = None
    needed: AuthEvent | None = None
    ready: AuthEvent | None = None
    paused_at: datetime | None = None
    halted_by: str = ""
