"""The checks of a request: pure functions, tried in order, stopped at the first refusal.

Each takes the request and a view of the engine's state and yields verdicts, each with the numbers
it compared; none if it does not apply (no such limit, not its kind of order). Checks after a
refusal are not run. The engine handles one event at a time, so no two strategies can pass one limit
together.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import Final

from bot.domain.entry import CheckResult
from bot.domain.errors import NoRule
from bot.domain.instrument import EXCHANGE_TZ, PHASE_WORDS, Lot
from bot.domain.order import ORDER_TYPES, OrderType, Side, type_word
from bot.domain.plan import Limits
from bot.engine.findings import AUCTIONS
from bot.engine.risk import account_checks
from bot.engine.risk.codes import (
    ACCOUNT,
    STRATEGY,
    amounts,
    judged,
    or_none,
    percent,
    tightest,
    type_words,
    with_key,
)
from bot.engine.risk.sizing import OrderRequest, gap_of
from bot.engine.risk.view import SILENT_PHASES, AccountUse, View
from bot.engine.seen import PhaseSeen

_LO, _BUY, _SELL, _EVEN, _ODD = OrderType.LO, Side.BUY, Side.SELL, Lot.EVEN, Lot.ODD
"""Looked up for every order: on Python 3.11 access through the enum class costs ten
times as much.
"""
_NEED_TRADE_TODAY: Final = {kind for kind, rules in ORDER_TYPES.items() if rules.needs_trade_today}

_SLIPS: Final = (10, 100, 1_000)
_NEAR_SLIP: Final = 4
"""A price counts as one in another unit if it is within a fourth of that: no day's
band is wider.
"""
HABIT_FROM: Final = 5
"""This many buys make a habit with which a buy is compared."""

Check = Callable[[OrderRequest, View, Limits], Iterator[CheckResult]]


@dataclass(frozen=True, slots=True)
class OfAccount:
    """A check of limits shared by an account's strategies: skipped if the account has none."""

    check: Callable[[OrderRequest, View, AccountUse], Iterator[CheckResult]]


def gate(_request: OrderRequest, view: View, _limits: Limits) -> Iterator[CheckResult]:
    """The bot as a whole may send orders."""
    yield judged("GATE", view.is_gate_open, f"{view.state}", state=view.state)


def symbol(request: OrderRequest, view: View, _limits: Limits) -> Iterator[CheckResult]:
    """It is known where the symbol is listed, with rules for its kind, nothing has halted it, and
    its quote and depth are trusted.
    """
    instrument, is_ok = view.instrument, view.instrument is not None
    try:
        if instrument is not None:
            view.rulebook.ticks_of(instrument)
    except NoRule:
        is_ok = False
    exchange = instrument.exchange if instrument else None
    words = f"{request.symbol} on {exchange}"
    yield judged("SYMBOL", is_ok, words, symbol=request.symbol, exchange=exchange)
    reason = view.symbol_halt or view.rulebook.objection(view.traded.status)
    if reason is not None:
        yield judged("SYMBOL_HALTED", False, reason=reason)
    if view.held_data is not None:
        why, numbers = view.held_data
        yield judged("HELD_DATA", False, reason=why, **numbers)


def phase(request: OrderRequest, view: View, _limits: Limits) -> Iterator[CheckResult]:
    """The exchange takes orders, and the strategy file allows them now (a window's end excluded).

    The file's sessions and hours only hold back entries: positions can be sold outside of them,
    too.
    """
    wanted, start, end = view.when.phases, view.when.start, view.when.end
    is_wanted = not wanted or view.phase in wanted or request.side is Side.SELL
    is_ok = view.phase not in SILENT_PHASES and is_wanted
    exchange, now_is = view.traded.exchange, view.phase
    words = f"{exchange} {PHASE_WORDS[now_is]}"
    yield judged("PHASE", is_ok, words, exchange=exchange, phase=now_is)
    if request.side is Side.BUY and (start is not None or end is not None):
        local = view.at.astimezone(EXCHANGE_TZ).time()
        is_ok = (start is None or start <= local) and (end is None or local < end)
        first = f"{start:%H:%M}" if start is not None else "any"
        last = f"{end:%H:%M}" if end is not None else "any"
        at = f"{local:%H:%M:%S}"
        yield judged("WINDOW", is_ok, f"{at} in {first}-{last}", time=at, start=first, end=last)


def order_type(request: OrderRequest, view: View, _limits: Limits) -> Iterator[CheckResult]:
    """The exchange takes the type in this phase and the broker lists it: whichever is stricter.

    A phase that the broker's list lacks means LIMIT only. A type that trades at the day's price
    (PLO) needs one (HSC and FPTS rule pages for HNX).
    """
    exchange, wanted = view.traded.exchange, request.order_type
    accepted = PhaseSeen(view.phase, view.available).taken(view.rulebook, exchange, _EVEN)
    if not view.has_price_today:
        accepted -= _NEED_TRADE_TODAY
    names = "/".join(sorted(accepted)) or "nothing"
    is_ok = view.rulebook.canonical(exchange, wanted) in accepted
    words = f"{type_word(wanted)} in {PHASE_WORDS[view.phase]}, takes {type_words(names)}"
    yield judged("ORDER_TYPE", is_ok, words, order_type=wanted, phase=view.phase, accepted=names)


def lot(request: OrderRequest, view: View, _limits: Limits) -> Iterator[CheckResult]:
    """The quantity is whole lots of 100, or an odd lot of 1 to 99, and not above the maximum.

    An odd lot is a LIMIT order, in a phase that trades odd lots; on a first day or a day of return
    only once a round-lot price exists (HSC rules, May 2025).
    """
    rulebook, exchange, quantity = view.rulebook, view.traded.exchange, request.quantity
    lots = rulebook.venues[exchange].lots
    kind, maximum = lots.lot_of(quantity), lots.max_quantity
    is_too_many = maximum is not None and quantity > maximum
    words = f"quantity {quantity:,}"
    yield judged("LOT", kind is not None or is_too_many, words, quantity=quantity)
    if kind is _ODD:
        is_first_day = rulebook.statuses.is_first_day(view.traded.status)
        is_limit = request.order_type is _LO
        is_taken = _LO in rulebook.accepted_types(exchange, view.phase, _ODD)
        is_ok = is_limit and is_taken and (view.has_price_today or not is_first_day)
        words = f"odd lot {quantity:,} as {type_word(request.order_type)}"
        yield judged("ODD_LOT", is_ok, words, quantity=quantity, order_type=request.order_type)
    if maximum is not None:
        words = f"quantity {quantity:,} of {maximum:,}"
        yield judged("MAX_QUANTITY", not is_too_many, words, quantity=quantity, maximum=maximum)


def price(request: OrderRequest, view: View, limits: Limits) -> Iterator[CheckResult]:
    """A LIMIT order has a price above 0, any other has none. It is on the grid, within a known
    band, by a fresh quote, and not far from the last trade.
    """
    limit, quote = request.limit_price, view.quote
    is_priced = limit is not None and limit > 0
    if not (is_priced if request.order_type is _LO else limit is None):
        yield judged("PRICE", False, price=limit, order_type=request.order_type)
    if limit is not None:
        ticks = view.rulebook.ticks_of(view.traded)
        tick = ticks.tick_at(limit)
        words = f"price {limit:,}, tick {tick:,}"
        yield judged("TICK", ticks.is_on_grid(limit), words, price=limit, tick=tick)
    floor, ceiling = (quote.floor, quote.ceiling) if quote else (None, None)
    if quote is None or floor is None or ceiling is None:
        yield judged("BAND", False, price=limit, floor=floor, ceiling=ceiling)
        return
    is_ok = limit is None or floor <= limit <= ceiling
    words = f"price {or_none(limit)} in {floor:,}-{ceiling:,}"
    yield judged("BAND", is_ok, words, price=limit, floor=floor, ceiling=ceiling)
    age, most = view.quote_age, view.quote_age_max
    # Rounded up: 10.3 s is over a limit of 10, and must not read as 10.
    age_s, most_s = math.ceil(age.total_seconds()), round(most.total_seconds())
    words = f"quote {age_s:,} s old of {most_s:,}"
    yield judged("QUOTE_AGE", age <= most, words, age_s=age_s, age_s_max=most_s)
    if limit is None:
        return
    shared = view.account.limits.max_price_gap_ppm if view.account is not None else None
    gap_max, scope = tightest(limits.max_price_gap_ppm, shared)
    if gap_max is not None:
        gap = gap_of(limit, quote.last)
        words = f"{percent(gap)} off last of {percent(gap_max)}"
        yield judged(
            "PRICE_GAP", gap <= gap_max, words, gap_ppm=gap, gap_ppm_max=gap_max, scope=scope
        )
    if view.account is not None:
        yield from account_checks.reference_gap(limit, view, view.account)


def unit_slip(request: OrderRequest, view: View, _limits: Limits) -> Iterator[CheckResult]:
    """The limit is not the last price in another unit, ten, a hundred or a thousand times of it."""
    limit, quote = request.limit_price or 0, view.quote
    last = (quote.last or quote.reference or 0) if quote is not None else 0
    for times in _SLIPS:
        for more, less in ((limit, last), (last, limit)):
            if less > 0 and abs(more - less * times) * _NEAR_SLIP <= less * times:
                yield judged("UNIT_SLIP", False, price=limit, last=last, times=times)


def fat_finger(request: OrderRequest, view: View, limits: Limits) -> Iterator[CheckResult]:
    """A buy is not worth many times the strategy's usual buys; a few buys are not a habit yet."""
    most, worth = limits.max_times_median, view.recent_buys
    if most is None or request.side is _SELL or len(worth) < HABIT_FROM:
        return
    median, value = median_low(worth), request.quantity * view.price
    words = f"order {amounts(value, most * median)}, {most:,} times the usual"
    numbers = {"value_vnd": value, "median_vnd": median, "times": most, "orders": len(worth)}
    yield judged("FAT_FINGER", value <= most * median, words, **numbers)


def capital(request: OrderRequest, view: View, limits: Limits) -> Iterator[CheckResult]:
    """Including everything that may still be bought, the strategy has at most its capital in
    shares.
    """
    most = limits.capital
    if most is not None and request.side is _BUY:
        value = view.invested + request.quantity * view.price
        words = f"capital {amounts(value, most)}"
        yield judged("CAPITAL", value <= most, words, value_vnd=value, limit_vnd=most)


def max_order_value(request: OrderRequest, view: View, limits: Limits) -> Iterator[CheckResult]:
    """Quantity at the worst price is within the limit."""
    value = request.quantity * view.price
    shared = view.account.limits.max_order_value if view.account is not None else None
    limit, scope = tightest(limits.max_order_value, shared)
    if limit is not None:
        is_ok, words = value <= limit or account_checks.is_least_sale(request), "one lot sold"
        if value <= limit:
            words = f"order {amounts(value, limit)}"
        yield judged("MAX_ORDER_VALUE", is_ok, words, value_vnd=value, limit_vnd=limit, scope=scope)


def max_position(request: OrderRequest, view: View, limits: Limits) -> Iterator[CheckResult]:
    """Including everything that may still be bought, the position is within the limit."""
    limit, position = limits.max_position, view.position + request.quantity
    if limit is not None and request.side is _BUY:
        words = f"position {position:,} of {limit:,}"
        yield judged("MAX_POSITION", position <= limit, words, position=position, limit=limit)


def max_orders(request: OrderRequest, view: View, limits: Limits) -> Iterator[CheckResult]:
    """The strategy has orders left today, and so has the account; the one with fewer left is
    reported. A sale counts but always passes: shares that cannot be sold are the greater risk.
    """
    account = view.account
    counts = [(limits.max_orders_per_day, view.orders_today, STRATEGY)]
    if account is not None:
        counts.append((account.limits.max_orders_per_day, account.orders_today, ACCOUNT))
    known = [(most, before, scope) for most, before, scope in counts if most is not None]
    left = [(most - before, before, most, scope) for most, before, scope in known]
    if left:
        _, before, most, scope = min(left)
        words = f"day {before:,} of {most:,}"
        is_ok = before < most or request.side is _SELL
        yield judged("MAX_ORDERS", is_ok, words, orders=before, limit=most, scope=scope)


def max_loss(request: OrderRequest, view: View, limits: Limits) -> Iterator[CheckResult]:
    """Today's loss is within the limit; an exit always passes."""
    limit, loss = limits.max_loss_per_day, view.loss_today
    if limit is not None and request.side is _BUY:
        words = f"loss {amounts(loss, limit)}"
        yield judged("MAX_LOSS", loss < limit, words, loss_vnd=loss, limit_vnd=limit)


def cash(request: OrderRequest, view: View, _limits: Limits) -> Iterator[CheckResult]:
    """Free cash covers quantity at the worst price plus the fee, and is known."""
    if request.side is _BUY:
        if view.unpriced is not None:
            order, symbol = view.unpriced
            yield judged("UNPRICED_BUY", False, order=order, symbol=symbol)
        value, free = request.quantity * view.price, view.cash_free
        need = value + view.rulebook.fee(value)
        words = "" if free is None else f"cash {amounts(need, free)}"
        is_ok = free is not None and need <= free
        yield judged("CASH", is_ok, words, need_vnd=need, cash_vnd=free)


def sellable(request: OrderRequest, view: View, _limits: Limits) -> Iterator[CheckResult]:
    """Own, settled, free shares cover the sale: nothing is sold short."""
    quantity, most = request.quantity, view.sellable
    if request.side is _SELL:
        words = f"sell {quantity:,} of {most:,}"
        yield judged("SELLABLE", quantity <= most, words, quantity=quantity, sellable=most)


def other_orders(request: OrderRequest, view: View, _limits: Limits) -> Iterator[CheckResult]:
    """No equal order is open, unresolved, or younger than the window. It cannot trade with an order
    of the same owner; in auctions and shortly before one, none may be on the other side; and few
    enough orders have an unknown outcome.
    """
    if view.twin is not None:
        yield judged("DUPLICATE", False, twin=view.twin)
    for other in view.opposites:
        is_auction = view.is_auction_near or view.phase in AUCTIONS
        if is_auction or other.can_meet(request.side, request.limit_price):
            yield judged("SELF_CROSS", False, other=other.name, price=other.price)
    if view.opposites:
        yield judged("SELF_CROSS", True, "own opposite order none", other=None)
    if request.side is _SELL:
        return  # an exit reduces risk, whatever is unknown
    here, here_max = view.unknown_in_account, view.unknown_in_account_max
    if here >= here_max:
        yield judged("UNKNOWN_ORDERS", False, unknown=here, limit=here_max)
    if view.unknown >= view.unknown_max:
        yield judged("UNKNOWN_ORDERS", False, unknown=view.unknown, limit=view.unknown_max)


CHECKS: Final[tuple[Check | OfAccount, ...]] = (
    gate,
    symbol,
    OfAccount(account_checks.universe),
    phase,
    order_type,
    lot,
    OfAccount(account_checks.max_quantity),
    unit_slip,
    price,
    OfAccount(account_checks.market_price),
    max_order_value,
    fat_finger,
    max_position,
    capital,
    max_orders,
    OfAccount(account_checks.open_orders),
    OfAccount(account_checks.order_rate),
    max_loss,
    OfAccount(account_checks.day_loss),
    OfAccount(account_checks.flips),
    OfAccount(account_checks.fresh_account),
    OfAccount(account_checks.last_entry),
    OfAccount(account_checks.position_value),
    OfAccount(account_checks.gross),
    OfAccount(account_checks.auction_share),
    cash,
    OfAccount(account_checks.min_cash),
    sellable,
    other_orders,
)


def judge(
    request: OrderRequest,
    view: View,
    limits: Limits,
    checks: Sequence[Check | OfAccount] = CHECKS,
) -> tuple[CheckResult, ...]:
    """Try the checks in order; the last result is the refusal, if there is one."""
    results, account = list[CheckResult](), view.account
    for check in checks:
        if not isinstance(check, OfAccount):
            found = check(request, view, limits)
        elif account is not None:
            found = check.check(request, view, account)
        else:
            continue
        for result in found:
            if not result.passed:
                return (*results, _with_key(result, view))
            results.append(result)
    return tuple(results)


def _with_key(refusal: CheckResult, view: View) -> CheckResult:
    """Return a refusal with the setting behind it; a phase without orders belongs to none."""
    if refusal.code == "PHASE" and view.phase in SILENT_PHASES:
        return refusal
    return with_key(refusal, view.shared_limits, view.at_default)
