"""The class that a strategy subclasses; a strategy needs no other import.

Annotated class attributes are the parameters of a strategy; the strategy file sets them. There is
one instance per symbol. A hook looks at its event and makes requests (`buy`, `sell`, `close`,
`cancel`) or says why not (`skip`); the engine collects the requests after the hook has returned.
The same class runs in backtest, sandbox, paper and live: it sees no clock, no network and no
secret.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, time
from enum import Enum, StrEnum
from typing import ClassVar, Final

from bot.domain.account import Holding
from bot.domain.entry import Fill
from bot.domain.instrument import Phase
from bot.domain.order import OrderType, Side
from bot.domain.quote import Bar, Depth, Quote


class Indicator(float):
    """The value of an indicator at the last closed bar; `previous` is its value one bar earlier.

    NaN while the history is too short: every comparison with NaN is false, so nothing crosses.
    """

    __slots__ = ("previous",)
    previous: float

    def __new__(cls, value: float, previous: float = math.nan) -> "Indicator":
        made = float.__new__(cls, value)  # called on every read: super() costs half as much again
        made.previous = previous
        return made

    def crossed_above(self, other: "Indicator | float") -> bool:
        """Return True if this bar took it from at or below `other` to above it."""
        return self.previous <= _previous(other) and self > other

    def crossed_below(self, other: "Indicator | float") -> bool:
        """Return True if this bar took it from at or above `other` to below it."""
        return self.previous >= _previous(other) and self < other


def _previous(value: float) -> float:
    return value.previous if isinstance(value, Indicator) else value


class RequestKind(StrEnum):
    """What a strategy may request, or report instead (a skip)."""

    BUY = "buy"
    SELL = "sell"
    CLOSE = "close"
    CANCEL = "cancel"
    SKIP = "skip"


class Default(Enum):
    """`limit=FROM_FILE`: the file determines the price. None means *no price* and is refused,
    unless a market type is given.
    """

    FROM_FILE = "as the strategy file says"


FROM_FILE: Final = Default.FROM_FILE
_Limit = int | Default | None


@dataclass(frozen=True, slots=True)
class Request:
    """One request of a call. `quantity` None: the file's size; `why` None: the values that were
    read.
    """

    kind: RequestKind
    quantity: int | None = None
    limit: _Limit = FROM_FILE
    market: OrderType | None = None
    why: str | None = None


@dataclass(frozen=True, slots=True)
class PositionView:
    """The strategy's own shares of its symbol; `sellable` shares have settled and are free."""

    qty: int = 0
    sellable: int = 0
    cost: int = 0
    """What these shares cost, in VND, without fees."""

    def __bool__(self) -> bool:
        return self.qty != 0

    @property
    def average_price(self) -> float:
        """Cost of one share, 0 without shares."""
        return self.cost / self.qty if self.qty else 0.0


@dataclass(frozen=True, slots=True)
class AccountView:
    """The whole account as last read: available cash, and every holding by symbol."""

    cash: int = 0
    holdings: Mapping[str, Holding] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rejection:
    """An order of this strategy that the broker refused, or that provably was never placed."""

    intent_id: str
    side: Side
    quantity: int
    limit_price: int | None
    code: str
    reason: str


WHY_MAX: Final = 1_000
"""Characters of a reason that are kept."""
NUMBER_MAX: Final = 10**12
"""Upper limit of a quantity in shares and of a price in VND; a larger number is a mistake."""
BARS_MIN: Final = 2
BARS_MAX: Final = 5_000
"""The shortest and longest period of an indicator, in bars."""

Read = Callable[[str, int], Indicator]
"""A function from an indicator's name and period to its value."""


@dataclass(frozen=True, slots=True)
class BarView:
    """A closed bar with prices in VND and volume in shares, and the indicators over all bars of its
    symbol and width up to this one.
    """

    bar: Bar
    read: Read

    @property
    def start(self) -> datetime:
        return self.bar.start

    @property
    def open(self) -> int:
        return self.bar.open

    @property
    def high(self) -> int:
        return self.bar.high

    @property
    def low(self) -> int:
        return self.bar.low

    @property
    def close(self) -> int:
        return self.bar.close

    @property
    def volume(self) -> int:
        return self.bar.volume

    def sma(self, bars: int) -> Indicator:
        """Return the simple moving average of the closes over `bars` bars."""
        return self.read("sma", bars)

    def ema(self, bars: int) -> Indicator:
        """Return the exponential moving average of the closes over `bars` bars."""
        return self.read("ema", bars)

    def rsi(self, bars: int = 14) -> Indicator:
        """Return the relative strength index of the closes, 0 to 100 (Wilder's smoothing)."""
        return self.read("rsi", bars)


Reads = dict[str, float]
"""What a call has read, by name, in the order of reading."""


@dataclass(frozen=True, slots=True)
class DepthView:
    """The market's levels, best first. `bid` and `ask` are the best prices, None if that side is
    empty.
    """

    depth: Depth
    reads: Reads = field(default_factory=dict)

    @property
    def bid(self) -> int | None:
        return self.depth.bid

    @property
    def ask(self) -> int | None:
        return self.depth.ask

    def bid_volume(self, levels: int = 3) -> int:
        """Return the shares waiting on the best `levels` bids."""
        volume = sum([level.volume for level in self.depth.bids[:levels]])
        self.reads[f"bid_volume({levels})"] = volume
        return volume

    def ask_volume(self, levels: int = 3) -> int:
        """Return the shares waiting on the best `levels` asks."""
        volume = sum([level.volume for level in self.depth.asks[:levels]])
        self.reads[f"ask_volume({levels})"] = volume
        return volume


@dataclass(slots=True, eq=False)
class Context:
    """What one instance can see, and its requests until the engine collects them."""

    symbol: str = ""
    name: str = ""
    now: datetime | None = None
    phase: Phase | None = None
    quote: Quote | None = None
    depth: Depth | None = None
    position: PositionView = PositionView()
    account: AccountView = field(default_factory=AccountView)
    requests: list[Request] = field(default_factory=list)
    reads: Reads = field(default_factory=dict)


class Strategy:
    """Base class of strategies: annotate parameters, write the hooks you need. All are optional.

    `warm_up` is how many closed bars must have been seen before `on_bar` is called at all. A hook
    that reads an indicator without enough history makes no request either.
    """

    warm_up: ClassVar[int] = 0

    def __init__(self, context: Context | None = None) -> None:
        self.context = context or Context()

    # ------------------------------------------------------------------------------ what it sees

    @property
    def name(self) -> str:
        """The name of the strategy file."""
        return self.context.name

    @property
    def symbol(self) -> str:
        """The one symbol of this instance."""
        return self.context.symbol

    @property
    def now(self) -> datetime | None:
        """Market time of the event, UTC."""
        return self.context.now

    @property
    def phase(self) -> Phase | None:
        """The phase of the symbol's exchange."""
        return self.context.phase

    @property
    def quote(self) -> Quote | None:
        """The last quote of the symbol."""
        return self.context.quote

    @property
    def depth(self) -> Depth | None:
        """The last depth of the symbol."""
        return self.context.depth

    @property
    def position(self) -> PositionView:
        """The strategy's own position, from its own fills; it survives restarts."""
        return self.context.position

    @property
    def account(self) -> AccountView:
        """The whole account, including shares of other strategies and of the owner."""
        return self.context.account

    # ------------------------------------------------------------------------- what it may request

    def buy(
        self,
        quantity: int | None = None,
        *,
        limit: _Limit = FROM_FILE,
        market: str | None = None,
        why: str | None = None,
    ) -> None:
        """Request to buy. Whatever is omitted comes from the strategy file.

        `limit` is whole VND, `market` a market type like MTL or ATC. Raises TypeError if a quantity
        or price is not a whole number or `why` is not text, ValueError for an absurd number or an
        unknown market type.
        """
        self.context.requests.append(_request(RequestKind.BUY, quantity, limit, market, why=why))

    def sell(
        self,
        quantity: int | None = None,
        *,
        limit: _Limit = FROM_FILE,
        market: str | None = None,
        why: str | None = None,
    ) -> None:
        """Request to sell; like `buy`. Only settled shares can be sold."""
        self.context.requests.append(_request(RequestKind.SELL, quantity, limit, market, why=why))

    def close(
        self, *, limit: _Limit = FROM_FILE, market: str | None = None, why: str | None = None
    ) -> None:
        """Request to sell what is sellable of the own position; does nothing without a position."""
        if self.position:
            self.context.requests.append(_request(RequestKind.CLOSE, None, limit, market, why=why))

    def cancel(self, *, why: str | None = None) -> None:
        """Request to cancel the own orders in this symbol; one that has not left yet is not sent,
        one on its way, or of unknown outcome, is cancelled when it turns up.
        """
        self.context.requests.append(_request(RequestKind.CANCEL, why=why))

    def skip(self, why: str) -> None:
        """Journal that no request is made, and why."""
        self.context.requests.append(_request(RequestKind.SKIP, why=why))

    # --------------------------------------------------------------------------------- parameters

    def check(self) -> None:
        """Called when a strategy file is checked and before a run, with the parameters set.

        Raise ValueError with a sentence that says what is wanted: `fast must be below slow`.
        """

    # ------------------------------------------------------------------------------------- hooks

    def on_start(self) -> None:
        """Called once, after the day order book and the account have been read."""

    def on_bar(self, bar: BarView) -> None:
        """Called when a bar has closed."""

    def on_quote(self, quote: Quote) -> None:
        """Called with a polled quote."""

    def on_depth(self, book: DepthView) -> None:
        """Called with a polled depth."""

    def on_timer(self, timer: time) -> None:
        """Called at a local time of day that the strategy file asks for."""

    def on_session(self, phase: Phase) -> None:
        """Called when the exchange's phase has changed."""

    def on_fill(self, fill: Fill) -> None:
        """Called when more of an own order has traded; `position` is up to date."""

    def on_reject(self, rejection: Rejection) -> None:
        """Called when an own order was refused, or provably never placed."""

    def on_stop(self) -> None:
        """Called on an orderly stop; requests are refused from now on."""


def _request(
    kind: RequestKind,
    quantity: int | None = None,
    limit: _Limit = FROM_FILE,
    market: str | None = None,
    *,
    why: object,
) -> Request:
    if why is not None and not isinstance(why, str):
        raise TypeError(f"why must be a text, not {why!r}")
    # Kinds of text and number of a plug-in's own end here: no method of theirs is called later.
    reason = None if why is None else str.__str__(why)
    if reason is not None and len(reason) > WHY_MAX:
        reason = f"{reason[:WHY_MAX]}… ({len(reason):,} characters)"
    price = None if limit is FROM_FILE else limit
    numbers: tuple[tuple[str, object], ...] = (("quantity", quantity), ("limit", price))
    exact = dict[str, int]()
    for name, value in numbers:
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool):
            raise TypeError(f"{name} must be a whole number, not {value!r}")
        exact[name] = int.__int__(value)
        if abs(exact[name]) > NUMBER_MAX:
            raise ValueError(f"{name} must be at most {NUMBER_MAX:,}")
    if market is not None and "limit" in exact:
        raise ValueError("give limit or market, not both")
    order_type = OrderType(market) if market else None
    has_price = order_type is None or order_type is OrderType.LO
    at = FROM_FILE if limit is FROM_FILE or not has_price else exact.get("limit")
    return Request(kind, exact.get("quantity"), at, order_type, reason)
