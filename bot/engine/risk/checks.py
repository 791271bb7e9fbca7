"""The checks of a request: pure functions, tried in order, stopped at the first refusal.

Each gets the request and a view of what the engine knows and returns its verdict with the numbers
it compared, or None when it has nothing to say (no such limit, not its kind of order). The engine
handles one event at a time, so no two strategies can pass one limit together.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from bot.domain.entry import CheckResult
from bot.domain.errors import NoRule
from bot.domain.instrument import EXCHANGE_TZ, Instrument, Lot, Phase
from bot.domain.order import ORDER_TYPES, OrderType, Side
from bot.domain.plan import Limits, When
from bot.domain.quote import Quote
from bot.domain.rulebook import Rulebook
from bot.engine.risk.codes import judged
from bot.engine.risk.sizing import OrderRequest

PPM: Final = 1_000_000
AUCTIONS: Final = frozenset({Phase.OPEN, Phase.PRE_CLOSED, Phase.CA})
SILENT_PHASES: Final = frozenset({Phase.BREAK, Phase.CLOSED, Phase.PUT_THROUGH})
"""Phases in which no exchange takes an order. Source: HOSE Decision 352, VNX Decision 17."""

_NEED_TRADE_TODAY: Final = {kind for kind, rules in ORDER_TYPES.items() if rules.needs_trade_today}


@dataclass(frozen=True, slots=True)
class Opposite:
    """A working order of the same owner on the other side. `price` None: at the market."""

    name: str
    price: int | None


@dataclass(frozen=True, slots=True)
class View:
    """What the checks of one order may look at. Money is VND."""

    at: datetime
    rulebook: Rulebook
    state: str
    is_gate_open: bool
    instrument: Instrument | None
    symbol_halt: str | None
    phase: Phase
    available: frozenset[OrderType] | None
    when: When
    quote: Quote | None
    quote_age: timedelta
    quote_age_max: timedelta
    price: int
    """The limit, or the worst price of an order without one."""
    position: int
    """Own shares with everything that may still be bought."""
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

    @property
    def traded(self) -> Instrument:
        """The instrument; SYMBOL, one of the first checks, has made sure that it is known."""
        assert self.instrument is not None, "SYMBOL is checked before"
        return self.instrument

    @property
    def has_price_today(self) -> bool:
        """Whether a round-lot price has been made today, as far as the quote tells."""
        return self.quote is not None and self.quote.volume > 0


Check = Callable[[OrderRequest, View, Limits], CheckResult | None]


def gate(_request: OrderRequest, view: View, _limits: Limits) -> CheckResult | None:
    """The bot as a whole may send orders."""
    return judged("GATE", view.is_gate_open, state=view.state)


def symbol(request: OrderRequest, view: View, _limits: Limits) -> CheckResult | None:
    """It is known where the symbol trades, and that exchange has rules for its kind."""
    instrument, is_ok = view.instrument, view.instrument is not None
    try:
        if instrument is not None:
            view.rulebook.tick_size(instrument, view.price)
    except NoRule:
        is_ok = False
    exchange = instrument.exchange if instrument else None
    return judged("SYMBOL", is_ok, symbol=request.symbol, exchange=exchange)


def symbol_halted(_request: OrderRequest, view: View, _limits: Limits) -> CheckResult | None:
    """No discrepancy has halted the symbol, and its status is one that the bot trades."""
    reason = view.symbol_halt or view.rulebook.objection(view.traded.status)
    return None if reason is None else judged("SYMBOL_HALTED", False, reason=reason)


def phase(_request: OrderRequest, view: View, _limits: Limits) -> CheckResult | None:
    """The exchange takes orders, and the strategy file wants them in this phase."""
    wanted = view.when.phases
    is_ok = view.phase not in SILENT_PHASES and (not wanted or view.phase in wanted)
    return judged("PHASE", is_ok, exchange=view.traded.exchange, phase=view.phase)


def window(_request: OrderRequest, view: View, _limits: Limits) -> CheckResult | None:
    """The local time lies in the strategy file's window, its end excluded."""
    start, end = view.when.start, view.when.end
    if start is None and end is None:
        return None
    local = view.at.astimezone(EXCHANGE_TZ).time()
    is_ok = (start is None or start <= local) and (end is None or local < end)
    first, last = (f"{one:%H:%M}" if one is not None else "any" for one in (start, end))
    return judged("WINDOW", is_ok, time=f"{local:%H:%M:%S}", start=first, end=last)


def order_type(request: OrderRequest, view: View, _limits: Limits) -> CheckResult | None:
    """The exchange takes the type in this phase and the broker lists it: whichever is stricter.

    A phase that the broker's list lacks means LIMIT only. PLO trades at the day's price, so there
    must be one (HSC and FPTS rule pages for HNX).
    """
    rulebook, exchange = view.rulebook, view.traded.exchange
    accepted = rulebook.accepted_types(exchange, view.phase, Lot.EVEN)
    if not view.has_price_today:
        accepted -= {OrderType.PLO}
    if view.available is not None:
        listed = view.available or {OrderType.LO}
        accepted &= {rulebook.canonical(exchange, one) for one in listed}
    is_ok = rulebook.canonical(exchange, request.order_type) in accepted
    names = "/".join(sorted(accepted)) or "nothing"
    return judged(
        "ORDER_TYPE", is_ok, order_type=request.order_type, phase=view.phase, accepted=names
    )


def lot(request: OrderRequest, view: View, _limits: Limits) -> CheckResult | None:
    """The quantity is whole lots of 100, or an odd lot of 1 to 99; too many are MAX_QUANTITY's."""
    rulebook, exchange, quantity = view.rulebook, view.traded.exchange, request.quantity
    is_ok = rulebook.lot_of(exchange, quantity) is not None
    if not is_ok:
        maximum = rulebook.max_quantity(exchange)
        is_ok = maximum is not None and quantity > maximum
    return judged("LOT", is_ok, quantity=quantity)


def odd_lot(request: OrderRequest, view: View, _limits: Limits) -> CheckResult | None:
    """An odd lot is a LIMIT order, in a phase that has a book for odd lots.

    On a first day or a day of return, only once a round-lot price exists (HSC rules, May 2025).
    """
    exchange = view.traded.exchange
    if view.rulebook.lot_of(exchange, request.quantity) is not Lot.ODD:
        return None
    accepted = view.rulebook.accepted_types(exchange, view.phase, Lot.ODD)
    is_banned = view.rulebook.statuses.is_first_day(view.traded.status) and not view.has_price_today
    is_limit = ORDER_TYPES[request.order_type].has_price
    is_ok = is_limit and request.order_type in accepted and not is_banned
    return judged("ODD_LOT", is_ok, quantity=request.quantity, order_type=request.order_type)


def max_quantity(request: OrderRequest, view: View, _limits: Limits) -> CheckResult | None:
    """The exchange takes an order of this size."""
    maximum = view.rulebook.max_quantity(view.traded.exchange)
    if maximum is None:
        return None
    is_ok = request.quantity <= maximum
    return judged("MAX_QUANTITY", is_ok, quantity=request.quantity, maximum=maximum)


def price(request: OrderRequest, _view: View, _limits: Limits) -> CheckResult | None:
    """A LIMIT order has a price above 0, any other has none."""
    is_limit, limit = ORDER_TYPES[request.order_type].has_price, request.limit_price
    is_ok = (limit is not None and limit > 0) if is_limit else limit is None
    return None if is_ok else judged("PRICE", False, price=limit, order_type=request.order_type)


def tick(request: OrderRequest, view: View, _limits: Limits) -> CheckResult | None:
    """The price is on the grid."""
    if request.limit_price is None:
        return None
    step = view.rulebook.tick_size(view.traded, request.limit_price)
    is_ok = view.rulebook.is_on_tick(view.traded, request.limit_price)
    return judged("TICK", is_ok, price=request.limit_price, tick=step)


def band(request: OrderRequest, view: View, _limits: Limits) -> CheckResult | None:
    """The price lies in the day's band; a band that nobody has published is a refusal."""
    floor = view.quote.floor if view.quote else None
    ceiling = view.quote.ceiling if view.quote else None
    wanted = request.limit_price
    is_known = floor is not None and ceiling is not None
    is_ok = is_known and (wanted is None or floor <= wanted <= ceiling)  # type: ignore[operator]
    return judged("BAND", is_ok, price=wanted, floor=floor, ceiling=ceiling)


def quote_age(_request: OrderRequest, view: View, _limits: Limits) -> CheckResult | None:
    """The last quote was asked for a short while ago."""
    age, age_max = view.quote_age, view.quote_age_max
    return judged(
        "QUOTE_AGE",
        view.quote is not None and age <= age_max,
        age_s=round(age.total_seconds()) if view.quote else None,
        age_s_max=round(age_max.total_seconds()),
    )


def price_gap(request: OrderRequest, view: View, limits: Limits) -> CheckResult | None:
    """The limit is not far from the last trade."""
    last = view.quote.last if view.quote else 0
    if limits.max_price_gap_ppm is None or request.limit_price is None:
        return None
    gap = abs(request.limit_price - last) * PPM // last if last > 0 else PPM
    is_ok = gap <= limits.max_price_gap_ppm
    return judged("PRICE_GAP", is_ok, gap_ppm=gap, gap_ppm_max=limits.max_price_gap_ppm)


def max_order_value(request: OrderRequest, view: View, limits: Limits) -> CheckResult | None:
    """Quantity at the worst price is within the limit."""
    limit, value = limits.max_order_value, request.quantity * view.price
    if limit is None:
        return None
    return judged("MAX_ORDER_VALUE", value <= limit, value_vnd=value, limit_vnd=limit)


def max_position(request: OrderRequest, view: View, limits: Limits) -> CheckResult | None:
    """After everything that may still be bought, the position is within the limit."""
    limit, position = limits.max_position, view.position + request.quantity
    if limit is None or request.side is Side.SELL:
        return None
    return judged("MAX_POSITION", position <= limit, position=position, limit=limit)


def max_orders(_request: OrderRequest, view: View, limits: Limits) -> CheckResult | None:
    """The strategy has orders left today."""
    limit, before = limits.max_orders_per_day, view.orders_today
    if limit is None:
        return None
    return judged("MAX_ORDERS", before < limit, orders=before, limit=limit)


def max_loss(request: OrderRequest, view: View, limits: Limits) -> CheckResult | None:
    """Today's loss is within the limit; an exit is let through."""
    limit = limits.max_loss_per_day
    if limit is None or request.side is Side.SELL:
        return None
    return judged("MAX_LOSS", view.loss_today < limit, loss_vnd=view.loss_today, limit_vnd=limit)


def cash(request: OrderRequest, view: View, _limits: Limits) -> CheckResult | None:
    """Free cash covers quantity at the worst price with the fee on it."""
    if request.side is Side.SELL:
        return None
    value = request.quantity * view.price
    need, free = value + view.rulebook.fee(value), view.cash_free
    return judged("CASH", free is not None and need <= free, need_vnd=need, cash_vnd=free)


def sellable(request: OrderRequest, view: View, _limits: Limits) -> CheckResult | None:
    """Own, settled, free shares cover the sale: nothing is sold short."""
    if request.side is Side.BUY:
        return None
    is_ok = request.quantity <= view.sellable
    return judged("SELLABLE", is_ok, quantity=request.quantity, sellable=view.sellable)


def duplicate(_request: OrderRequest, view: View, _limits: Limits) -> CheckResult | None:
    """No equal order is open, unresolved, or younger than the window."""
    return None if view.twin is None else judged("DUPLICATE", False, twin=view.twin)


def self_cross(request: OrderRequest, view: View, _limits: Limits) -> CheckResult | None:
    """It can't trade with an order of the same owner; in auctions none may be on the other side."""
    mine, is_buy = request.limit_price, request.side is Side.BUY
    for other in view.opposites:
        can_meet = view.phase in AUCTIONS or mine is None or other.price is None
        if mine is not None and other.price is not None:
            can_meet = can_meet or (mine >= other.price if is_buy else mine <= other.price)
        if can_meet:
            return judged("SELF_CROSS", False, other=other.name, price=other.price)
    return judged("SELF_CROSS", True, other=None) if view.opposites else None


def unknown_orders(_request: OrderRequest, view: View, _limits: Limits) -> CheckResult | None:
    """Few enough orders have an outcome that nobody knows."""
    for count, limit in (
        (view.unknown_in_account, view.unknown_in_account_max),
        (view.unknown, view.unknown_max),
    ):
        if count >= limit:
            return judged("UNKNOWN_ORDERS", False, unknown=count, limit=limit)
    return None


CHECKS: Final[tuple[Check, ...]] = (
    gate,
    symbol,
    symbol_halted,
    phase,
    window,
    order_type,
    lot,
    odd_lot,
    max_quantity,
    price,
    tick,
    band,
    quote_age,
    price_gap,
    max_order_value,
    max_position,
    max_orders,
    max_loss,
    cash,
    sellable,
    duplicate,
    self_cross,
    unknown_orders,
)


def judge(
    request: OrderRequest, view: View, limits: Limits, checks: Sequence[Check] = CHECKS
) -> tuple[CheckResult, ...]:
    """Try the checks in order; the last result is the refusal when there is one."""
    results = []
    for check in checks:
        result = check(request, view, limits)
        if result is not None:
            results.append(result)
            if not result.passed:
                break
    return tuple(results)
