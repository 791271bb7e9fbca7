"""What the checks of one order may look at, and how much of its limits an account has used."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from bot.domain.instrument import Instrument, Phase
from bot.domain.order import OrderType, Side
from bot.domain.plan import AccountLimits, When
from bot.domain.quote import DepthLevel, Quote
from bot.domain.rulebook import Rulebook
from bot.engine.risk import losses
from bot.engine.risk.accounts import Means
from bot.engine.risk.lags import read_of
from bot.engine.risk.sizing import OrderRequest, shown_to
from bot.engine.risk.under_way import worst_price
from bot.engine.seen import Figures
from bot.engine.state import State, StrategyState

SILENT_PHASES: Final = frozenset({Phase.BREAK, Phase.CLOSED, Phase.PUT_THROUGH})
"""Phases in which no exchange takes an order. Source: HOSE Decision 352, VNX Decision 17."""


@dataclass(frozen=True, slots=True)
class AccountUse:
    """The limits shared by an account's strategies, and how much of them is used.

    Orders are this bot's, including those of unknown outcome. `worst_price` is the worst level that
    the depth shows to an order on this side, `shown` its shares; None and 0 without one. `nav` is
    the net asset value and `age` that of the account's read, None before the first one.
    `position_value`: the account's shares of the symbol, `gross`: of all symbols, at last prices,
    including what open buys may add. `flips` includes that of an order on this side. `ends_in` is
    the coming phase without orders, if it is near.
    """

    limits: AccountLimits
    open_orders: int
    open_orders_here: int
    last_second: int
    last_minute: int
    orders_today: int
    worst_price: int | None
    shown: int
    nav: int | None = None
    age: timedelta | None = None
    position_value: int = 0
    gross: int = 0
    loss: int = 0
    loss_limit: int | None = None
    is_reduced: bool = False
    flips: int = 0
    sales_of_second: int = 0
    sales_of_minute: int = 0
    ends_in: Phase | None = None


@dataclass(frozen=True, slots=True)
class Opposite:
    """A working order of the same owner on the other side. `price` None: at the market."""

    name: str
    price: int | None

    def can_meet(self, side: Side, price: int | None) -> bool:
        """Return whether it can trade with an order of the other side at this price."""
        if price is None or self.price is None:
            return True
        return price >= self.price if side is Side.BUY else price <= self.price


@dataclass(frozen=True, slots=True)
class View:
    """What the checks of one order may look at. Money is VND."""

    at: datetime
    rulebook: Rulebook
    state: str
    is_gate_open: bool
    instrument: Instrument | None
    symbol_halt: str | None
    held_data: tuple[str, Figures] | None
    phase: Phase
    available: frozenset[OrderType] | None
    when: When
    quote: Quote | None
    quote_age: timedelta
    quote_age_max: timedelta
    price: int
    """The limit, or the worst price of an order without one."""
    position: int
    """Own shares including everything that may still be bought."""
    orders_today: int
    loss_today: int
    cash_free: int | None
    sellable: int
    twin: str | None
    opposites: tuple[Opposite, ...]
    unknown_in_account: int
    unknown_in_account_max: int
    unknown: int
    unknown_max: int
    account: AccountUse | None = None
    """What the account has used of its limits; None: it has none."""
    is_auction_near: bool = False
    """Whether an auction is under way, or begins so soon that both sides would be in it."""
    recent_buys: Sequence[int] = ()
    """The values of the strategy's last buys."""
    invested: int = 0
    """The value of its shares of all symbols, including what its open buys may add."""
    shared_limits: frozenset[str] = frozenset()
    """Limits of the strategy set by `risk.limits` and not by its file."""
    unpriced: tuple[str, str] | None = None
    """Name and symbol of an open buy of the account of which nobody knows what it may cost."""
    at_default: frozenset[str] = frozenset()
    """Keys of limits that nobody has set."""

    @property
    def traded(self) -> Instrument:
        """The instrument; SYMBOL, one of the first checks, has ensured that it is known."""
        assert self.instrument is not None, "SYMBOL is checked before"
        return self.instrument

    @property
    def has_price_today(self) -> bool:
        """Whether a round-lot price has been made today, as far as the quote shows."""
        return self.quote is not None and (self.quote.volume or 0) > 0


# --------------------------------------------------------------------------------- what is gathered


def use_of(state: State, request: OrderRequest, means: Means) -> AccountUse | None:
    """Return what the request's account has used; None if nothing is limited."""
    if not state.has_account_limits:
        return None
    limits, account, symbol = state.settings.account_limits, request.account, request.symbol
    usage = state.usage.of(account)
    read_at = read_of(state, account)
    worth, side, index = state.exposure.of(account), request.side, state.index
    here = open_value = 0
    for order in means.orders:
        row = order.row
        here += order.is_own and row.account == account
        if row.side is Side.BUY and row.account == account:
            price = worst_price(state, symbol, order.prices[-1])
            open_value += order.open_quantity * price
    for tracked in means.pending:
        intent = tracked.intent
        here += intent.account == account
        if intent.side is Side.BUY and intent.account == account:
            open_value += intent.quantity * worst_price(state, symbol, intent.limit_price)
    levels = shown_to(state, symbol, side)
    turns = usage.sides.get(symbol, side) is not side
    return AccountUse(
        limits=limits,
        open_orders=index.working.of(account),
        open_orders_here=here,
        last_second=usage.last_second.count(state.now),
        last_minute=usage.last_minute.count(state.now),
        orders_today=usage.orders_today,
        sales_of_second=usage.sales_of_second.count(state.now),
        sales_of_minute=usage.sales_of_minute.count(state.now),
        worst_price=_worst(levels, request),
        shown=sum([level.volume for level in levels]),
        nav=losses.nav_of(state, account),
        age=state.now - read_at if read_at is not None else None,
        position_value=state.exposure.value_of(account, symbol) + open_value,
        gross=worth.value + bought(state, account),
        loss=worth.loss,
        loss_limit=losses.limit_of(state, account),
        is_reduced=bool(usage.reduced_by),
        flips=usage.flips[symbol] + turns,
        ends_in=_ends_in(state, request),
    )


def bought(state: State, account: str) -> int:
    """Return what the account's open buys may cost, without fees."""
    index = state.index
    total = index.bought.of(account)
    for order in index.orders_at_market.of(account):
        total += order.open_quantity * worst_price(state, order.row.symbol, None)
    for tracked in index.intents_at_market.of(account):
        total += tracked.intent.quantity * worst_price(state, tracked.intent.symbol, None)
    return total


def invested(state: State, strategy: StrategyState) -> int:
    """Return the value of a strategy's shares, including what its open buys may cost,
    without fees.
    """
    name, total = strategy.plan.name, 0
    for symbol, position in strategy.positions.items():
        seen = state.quotes.get(symbol)
        last = seen.quote.last if seen is not None else 0
        total += position.shares * last if last > 0 else position.cost
    for order in state.open_orders():
        row = order.row
        if row.strategy == name and row.side is Side.BUY:
            total += order.open_quantity * worst_price(state, row.symbol, order.prices[-1])
    for tracked in state.pending_intents():
        intent = tracked.intent
        if intent.strategy == name and intent.side is Side.BUY:
            total += intent.quantity * worst_price(state, intent.symbol, intent.limit_price)
    return total


def _worst(levels: Sequence[DepthLevel], request: OrderRequest) -> int | None:
    """Return the price of the worst level; for a sale, which must get out, the worst one it
    reaches.
    """
    left = request.quantity
    for level in levels if request.side is Side.SELL else ():
        left -= level.volume
        if left <= 0:
            return level.price
    return levels[-1].price if levels else None


def _ends_in(state: State, request: OrderRequest) -> Phase | None:
    """Return the phase without orders that begins within the time of the last entry."""
    instrument = state.instruments.get(request.symbol)
    before = state.settings.account_limits.last_entry
    if before is None or instrument is None or request.side is Side.SELL:
        return None
    soon = state.rulebook.phase_at(instrument.exchange, state.now + before)
    return soon if soon in SILENT_PHASES else None
