"""Our orders: what was requested (the intent), how sending it went, and what became of it.

There are two separate state machines. The *send state* is what we know about one POST:

    READY ─► SENDING ─► ACKED | REFUSED | NOT_SENT | UNKNOWN
    UNKNOWN ─► FRESH ─► NOT_PLACED          the nonce was unused: the POST can never arrive
    UNKNOWN ─► REACHED ─► MATCHED | AMBIGUOUS | EOD_ABSENT
    AMBIGUOUS ─► MATCHED | NOT_PLACED       a person decided; or the day ended: EOD_ABSENT

The *order state* is our reading of what the broker reports on an order that exists (or was
requested). Both are tables; a move that is not in its table is an error.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from typing import Final

from bot.domain.instrument import Exchange


class Side(StrEnum):
    BUY = "BUY"
    SELL = "SELL"


class OrderType(StrEnum):
    """The broker's codes for order types; `ORDER_TYPES` says what each does."""

    LO = "LO"
    MP = "MP"
    ATO = "ATO"
    ATC = "ATC"
    MTL = "MTL"
    MAK = "MAK"
    MOK = "MOK"
    PLO = "PLO"
    FOK = "FOK"
    FAK = "FAK"


@dataclass(frozen=True, slots=True)
class TypeRules:
    """What an order type does. Which exchange takes it in which phase is dated data in the
    rulebook.

    `has_price`: it carries a limit price; it is LIMIT on the wire and on screens, all others are
    MARKET. `takes_depth`: it takes at once what the depth shows, at any price; ATO, ATC and PLO
    trade at the single price of their phase. `all_or_nothing`: it trades in full or not at all.
    `rests_as_limit`: the part not matched at once stays as a limit order, and its row says so.
    `needs_trade_today`: it trades at the day's last price, so there must have been a trade.
    `routed`: the type that the broker's answer may name instead of the one sent.
    """

    has_price: bool = False
    takes_depth: bool = False
    all_or_nothing: bool = False
    rests_as_limit: bool = False
    needs_trade_today: bool = False
    routed: Mapping[Exchange, OrderType] = field(default_factory=dict)


ORDER_TYPES: Final[Mapping[OrderType, TypeRules]] = {
    OrderType.LO: TypeRules(has_price=True),
    OrderType.MP: TypeRules(takes_depth=True, routed={Exchange.HOSE: OrderType.MTL}),
    OrderType.ATO: TypeRules(),
    OrderType.ATC: TypeRules(),
    OrderType.MTL: TypeRules(takes_depth=True, rests_as_limit=True),
    OrderType.MAK: TypeRules(takes_depth=True, routed={Exchange.HNX: OrderType.FAK}),
    OrderType.MOK: TypeRules(
        takes_depth=True, all_or_nothing=True, routed={Exchange.HNX: OrderType.FOK}
    ),
    OrderType.PLO: TypeRules(needs_trade_today=True),
    OrderType.FOK: TypeRules(takes_depth=True, all_or_nothing=True),
    OrderType.FAK: TypeRules(takes_depth=True),
}
MARKET_TYPES: Final = tuple(kind for kind, rules in ORDER_TYPES.items() if not rules.has_price)


def type_word(order_type: str) -> str:
    """Return the type as screens show it: LIMIT for the limit order, else the exchange's name."""
    return "LIMIT" if order_type == OrderType.LO else order_type


def is_echo(exchange: Exchange, sent: OrderType, answered: str) -> bool:
    """Return whether an answer names the type that was sent, unchanged or as routing renames it."""
    if answered == sent:
        return True
    renamed = OrderType.__members__.get(answered)
    return renamed is not None and (
        ORDER_TYPES[sent].routed.get(exchange) is renamed
        or ORDER_TYPES[renamed].routed.get(exchange) is sent
    )


class OrderState(StrEnum):
    """The state of an order at the broker, in our own words."""

    INITIALIZED = "INITIALIZED"
    SUBMITTED = "SUBMITTED"
    UNKNOWN = "UNKNOWN"
    ACCEPTED = "ACCEPTED"
    PARTIALLY_FILLED = "PARTIALLY_FILLED"
    PENDING_REPLACE = "PENDING_REPLACE"
    PENDING_CANCEL = "PENDING_CANCEL"
    FILLED = "FILLED"
    CANCELLED = "CANCELLED"
    REJECTED = "REJECTED"
    EXPIRED = "EXPIRED"


class SendState(StrEnum):
    """What we know about the single POST of an intent."""

    DENIED = "DENIED"
    READY = "READY"
    EXPIRED_LOCAL = "EXPIRED_LOCAL"
    HELD = "HELD"
    SENDING = "SENDING"
    ACKED = "ACKED"
    REFUSED = "REFUSED"
    NOT_SENT = "NOT_SENT"
    UNKNOWN = "UNKNOWN"
    FRESH = "FRESH"
    NOT_PLACED = "NOT_PLACED"
    REACHED = "REACHED"
    MATCHED = "MATCHED"
    AMBIGUOUS = "AMBIGUOUS"
    EOD_ABSENT = "EOD_ABSENT"


_S = OrderState
TERMINAL_STATES: Final = frozenset({_S.FILLED, _S.CANCELLED, _S.REJECTED, _S.EXPIRED})
_LIVE: Final = frozenset({_S.ACCEPTED, _S.PARTIALLY_FILLED, _S.PENDING_REPLACE, _S.PENDING_CANCEL})

ORDER_MOVES: Final[Mapping[OrderState, frozenset[OrderState]]] = {
    _S.INITIALIZED: frozenset({_S.SUBMITTED, _S.REJECTED, _S.EXPIRED}),
    _S.SUBMITTED: _LIVE | TERMINAL_STATES | {_S.UNKNOWN},
    _S.UNKNOWN: _LIVE | TERMINAL_STATES,
    _S.ACCEPTED: (_LIVE | TERMINAL_STATES) - {_S.ACCEPTED},
    _S.PARTIALLY_FILLED: (_LIVE | TERMINAL_STATES)
    - {_S.PARTIALLY_FILLED, _S.ACCEPTED, _S.REJECTED},
    _S.PENDING_REPLACE: (_LIVE | TERMINAL_STATES) - {_S.PENDING_REPLACE},
    _S.PENDING_CANCEL: (_LIVE | TERMINAL_STATES) - {_S.PENDING_CANCEL},
    _S.FILLED: frozenset(),
    _S.CANCELLED: frozenset(),
    _S.REJECTED: frozenset(),
    _S.EXPIRED: frozenset(),
}
"""Allowed moves. Only a correction leaves a terminal state; it raises an alert and is no move."""

_N = SendState
SEND_MOVES: Final[Mapping[SendState, frozenset[SendState]]] = {
    _N.DENIED: frozenset(),
    _N.READY: frozenset({_N.SENDING, _N.EXPIRED_LOCAL, _N.HELD}),
    _N.EXPIRED_LOCAL: frozenset(),
    _N.SENDING: frozenset({_N.ACKED, _N.REFUSED, _N.NOT_SENT, _N.UNKNOWN, _N.HELD}),
    _N.HELD: frozenset({_N.REFUSED, _N.EXPIRED_LOCAL}),
    _N.ACKED: frozenset(),
    _N.REFUSED: frozenset(),
    _N.NOT_SENT: frozenset(),
    _N.UNKNOWN: frozenset({_N.FRESH, _N.REACHED, _N.MATCHED, _N.AMBIGUOUS}),
    _N.FRESH: frozenset({_N.NOT_PLACED, _N.REACHED, _N.AMBIGUOUS}),
    _N.NOT_PLACED: frozenset(),
    _N.REACHED: frozenset({_N.MATCHED, _N.AMBIGUOUS, _N.EOD_ABSENT, _N.NOT_PLACED}),
    _N.MATCHED: frozenset(),
    _N.AMBIGUOUS: frozenset({_N.MATCHED, _N.NOT_PLACED, _N.EOD_ABSENT}),
    _N.EOD_ABSENT: frozenset(),
}
"""Allowed send moves. HELD is a place that a 403 OTP code definitely refused and that may go out
again, checked in full, as another intent: SENDING to HELD, then HELD to REFUSED. Intents that were
waiting to be sent at that moment are held too, from READY.
"""

REOPENED_NOTE: Final = "open again: the broker shows it at work"
"""How the note of an order begins that had ended here."""
UNRESOLVED_SENDS: Final = frozenset({_N.SENDING, _N.UNKNOWN, _N.FRESH, _N.REACHED, _N.AMBIGUOUS})
"""In these states an intent's fingerprint is locked and its full size stays reserved."""


@dataclass(frozen=True, slots=True)
class Intent:
    """An order that risk has approved. At most one POST is ever made for it.

    `intent_id` is ours (`L-0001`, counted over the life of a journal) and never leaves this
    machine. `limit_price` is None for market types only. `ttl_at` is the last instant
    at which the first byte may leave. `expire_after` is how long the unmatched part may work once
    accepted. `follows` names the intent that a 403 OTP code had blocked. `closes_position` marks an
    exit.
    """

    intent_id: str
    signal_id: str
    strategy: str
    account: str
    trading_date: date
    symbol: str
    exchange: Exchange
    side: Side
    quantity: int
    order_type: OrderType
    limit_price: int | None
    why: str
    created_at: datetime
    ttl_at: datetime
    expire_after: timedelta | None = None
    follows: str | None = None
    closes_position: bool = False

    @property
    def fingerprint(self) -> str:
        """Equal for two intents that the broker could not tell apart (`order-safety.md`, section
        2).
        """
        parts = (
            self.account,
            self.trading_date.isoformat(),
            self.symbol,
            self.side,
            str(self.quantity),
            self.order_type,
            str(self.limit_price),
        )
        return sha256("|".join(parts).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class OrderResult:
    """One element of the `result[]` of a place, modify or cancel answer."""

    order_id: str
    account: str
    transaction_date: date
    symbol: str
    side: Side
    quantity: int
    limit_price: int | None
    market_price: str | None
    executed_quantity: int
    average_price: int
    executed_amount: int
    status: str
    state: OrderState
    order_type: str
    fee: int
    tax: int
    code: str | None
    reason: str | None
    lot: str | None
    raw: str


RowFigures = tuple[str, int, int | None, int, int, int]
"""What identifies a row of an order: status, quantity, price, executed and cancelled shares, and
the executed amount in VND.
"""


@dataclass(frozen=True, slots=True)
class OrderReport:
    """The broker's report on one order: a row of its day order book.

    `status` is the broker's own text, `state` our reading of it *before* quantities are looked at
    (None when the text is none of the 25 statuses: live and unknown, never final). Money comes from
    `executed_amount`; `average_price` is floored. `may_cancel` and `may_amend` are the row's own
    flags, None when it has none; they take precedence over a guess from the status. `placed_at` is
    market time, UTC. `requested_at` is when we asked for the row: rows are ordered by this, not by
    arrival.
    """

    order_id: str
    root_order_id: str
    account: str
    trading_date: date
    symbol: str
    side: Side
    quantity: int
    order_type: str
    price: int | None
    executed_quantity: int
    average_price: int
    executed_amount: int
    remaining_quantity: int
    cancelled_quantity: int
    status: str
    state: OrderState | None
    may_cancel: bool | None
    may_amend: bool | None
    placed_at: datetime | None
    message: str
    requested_at: datetime
    raw: str

    @property
    def is_successor(self) -> bool:
        """True if it says itself that another order was changed into it."""
        return self.root_order_id not in {"", self.order_id}

    @property
    def figures(self) -> RowFigures:
        """What it shows: a row of its order with the same figures is the same row."""
        executed, amount = self.executed_quantity, self.executed_amount
        return self.status, self.quantity, self.price, executed, self.cancelled_quantity, amount


@dataclass(frozen=True, slots=True)
class UnreadRow:
    """A row of the day order book that could not be read, with the fields that are certain.

    `reason` says what was wrong; `raw` is the row, redacted.
    """

    order_id: str | None
    symbol: str | None
    reason: str
    raw: str


@dataclass(frozen=True, slots=True)
class TodaysOrders:
    """One reading of the day order book. It is complete when no row was set aside."""

    reports: tuple[OrderReport, ...]
    set_aside: tuple[UnreadRow, ...] = ()
