"""The checks of limits shared by an account's strategies, besides each strategy's own.

They run among those of `checks.py`, but not at all if the account has no limits.
"""

from collections.abc import Iterator

from bot.domain.entry import CheckResult
from bot.domain.instrument import BOARD_LOT, PHASE_WORDS
from bot.domain.order import ORDER_TYPES, Side
from bot.domain.rulebook import PPM
from bot.engine.findings import AUCTIONS
from bot.engine.risk.codes import (
    ACCOUNT,
    SYMBOL,
    amounts,
    judged,
    or_none,
    percent,
    short_money,
)
from bot.engine.risk.sizing import OrderRequest, gap_of
from bot.engine.risk.view import AccountUse, View


def is_least_sale(request: OrderRequest) -> bool:
    """Return whether it sells one lot of own shares: no limit of one order's size may lock in a
    position that a person has left alone.
    """
    return request.side is Side.SELL and request.quantity <= BOARD_LOT


def universe(request: OrderRequest, _view: View, account: AccountUse) -> Iterator[CheckResult]:
    """The symbol is one of those that the account may trade; shares of others can be sold."""
    allowed = account.limits.symbols
    if allowed is not None:
        many, symbol = len(allowed), request.symbol
        is_one = symbol in allowed
        words = f"{symbol} is {'one' if is_one else 'none'} of {many:,}"
        is_ok = symbol in allowed or request.side is Side.SELL
        yield judged("UNIVERSE", is_ok, words, symbol=symbol, symbols=many)


def max_quantity(request: OrderRequest, _view: View, account: AccountUse) -> Iterator[CheckResult]:
    """An order has at most as many shares as the limit."""
    most = account.limits.max_order_quantity
    if most is not None:
        quantity = request.quantity
        words = f"quantity {quantity:,} of {most:,}"
        is_ok = quantity <= most or is_least_sale(request)
        yield judged("MAX_ORDER_QUANTITY", is_ok, words, quantity=quantity, limit=most)


def market_price(request: OrderRequest, view: View, account: AccountUse) -> Iterator[CheckResult]:
    """The worst level shown to a market order is not far from the last trade."""
    quote = view.quote
    if not ORDER_TYPES[request.order_type].takes_depth:
        return
    gap_max = account.limits.max_price_gap_ppm
    if gap_max is None and account.limits.max_reference_gap_ppm is None:
        return
    worst, shown, quantity = account.worst_price, account.shown, request.quantity
    is_shown = worst is not None and quantity <= shown
    words = f"depth shows {shown:,} of {quantity:,}"
    yield judged("DEPTH_SHOWN", is_shown, words, shown=shown, quantity=quantity, price=worst)
    if gap_max is not None:
        gap = gap_of(worst or 0, quote.last if quote is not None else 0)
        words = f"worst level {percent(gap)} off last of {percent(gap_max)}"
        yield judged(
            "PRICE_GAP", gap <= gap_max, words, gap_ppm=gap, gap_ppm_max=gap_max, scope=ACCOUNT
        )
    yield from reference_gap(worst or 0, view, account)


def reference_gap(price: int, view: View, account: AccountUse) -> Iterator[CheckResult]:
    """A price is not far from the day's reference."""
    gap_max = account.limits.max_reference_gap_ppm
    if gap_max is not None:
        gap = gap_of(price, (view.quote.reference or 0) if view.quote is not None else 0)
        words = f"{percent(gap)} off reference of {percent(gap_max)}"
        yield judged(
            "REFERENCE_GAP", gap <= gap_max, words, gap_ppm=gap, gap_ppm_max=gap_max, scope=ACCOUNT
        )


def open_orders(request: OrderRequest, _view: View, account: AccountUse) -> Iterator[CheckResult]:
    """Few enough orders of this bot work, or may work, in the account and in the symbol. A close
    always passes: a strategy has one at a time in a symbol.
    """
    limits = account.limits
    for scope, here, most in (
        (ACCOUNT, account.open_orders, limits.max_open_orders),
        (SYMBOL, account.open_orders_here, limits.max_open_orders_per_symbol),
    ):
        if most is not None:
            words = f"open {here:,} of {most:,}"
            is_ok = here < most or request.closes_position
            yield judged("OPEN_ORDERS", is_ok, words, orders=here, limit=most, scope=scope)


def order_rate(request: OrderRequest, _view: View, account: AccountUse) -> Iterator[CheckResult]:
    """Few enough orders, changes and cancels were sent recently; only orders and changes wait. A
    sale waits only for sales: buys cannot use up what an exit needs.
    """
    code, counts = "ORDER_RATE", (account.last_second, account.last_minute)
    if request.side is Side.SELL:
        code, counts = "EXIT_RATE", (account.sales_of_second, account.sales_of_minute)
    mosts = account.limits.max_orders_per_second, account.limits.max_orders_per_minute
    for span, sent, most in zip(("second", "minute"), counts, mosts, strict=True):
        if most is not None:
            words = f"{sent:,} of {most:,} a {span}"
            yield judged(code, sent < most, words, sent=sent, limit=most, span=span, scope=ACCOUNT)


def day_loss(request: OrderRequest, _view: View, account: AccountUse) -> Iterator[CheckResult]:
    """The account has not lost its limit of the day; a sale always passes."""
    if account.loss_limit is None or request.side is Side.SELL:
        return
    loss, most = account.loss, account.loss_limit
    is_ok = not account.is_reduced and (loss <= 0 or loss < most)
    words = f"account loss {amounts(loss, most)}"
    yield judged("DAY_LOSS", is_ok, words, loss_vnd=loss, limit_vnd=most, scope=ACCOUNT)


def flips(request: OrderRequest, _view: View, account: AccountUse) -> Iterator[CheckResult]:
    """The account's fills have not changed sides too often in the symbol; a sale always passes."""
    most = account.limits.max_flips_per_symbol
    if most is not None and request.side is Side.BUY:
        count, name = account.flips, request.symbol
        words = f"side changes {count:,} of {most:,}"
        yield judged(
            "FLIPS", count <= most, words, flips=count, limit=most, symbol=name, scope=ACCOUNT
        )


def fresh_account(request: OrderRequest, _view: View, account: AccountUse) -> Iterator[CheckResult]:
    """The account's value was read recently; a sale needs no value."""
    most = account.limits.max_account_age
    if most is not None and request.side is Side.BUY:
        age, most_s = account.age, round(most.total_seconds())
        age_s = None if age is None else round(age.total_seconds())
        words = f"account {or_none(age_s)} s old of {most_s:,}"
        is_ok = age is not None and age <= most
        yield judged("ACCOUNT_AGE", is_ok, words, age_s=age_s, age_s_max=most_s)


def last_entry(request: OrderRequest, view: View, account: AccountUse) -> Iterator[CheckResult]:
    """No phase without orders is about to begin; a sale always passes."""
    most = account.limits.last_entry
    if most is not None and request.side is Side.BUY:
        ends_in, exchange = account.ends_in, view.traded.exchange
        numbers = {"exchange": exchange, "phase": ends_in, "seconds": round(most.total_seconds())}
        words = f"no end of {exchange} {PHASE_WORDS[view.phase]} within {numbers['seconds']} s"
        yield judged("LAST_ENTRY", ends_in is None, words, **numbers)


def position_value(request: OrderRequest, view: View, account: AccountUse) -> Iterator[CheckResult]:
    """Including everything that may still be bought, the symbol is worth no more than
    its limits.
    """
    if request.side is Side.SELL:
        return
    limits, value = account.limits, account.position_value + request.quantity * view.price
    found = (limits.max_position_value, _of_nav(account, limits.max_position_nav_ppm))
    most = min((limit for limit in found if limit is not None), default=None)
    if most is not None:
        words = f"{request.symbol} {amounts(value, most)}"
        yield judged(
            "POSITION_VALUE",
            value <= most,
            words,
            value_vnd=value,
            limit_vnd=most,
            symbol=request.symbol,
            scope=ACCOUNT,
        )


def gross(request: OrderRequest, view: View, account: AccountUse) -> Iterator[CheckResult]:
    """Including everything that may still be bought, all shares are worth no more
    than their limit.
    """
    if request.side is Side.SELL:
        return
    value = account.gross + request.quantity * view.price
    most = _of_nav(account, account.limits.max_gross_nav_ppm)
    if most is not None:
        words = f"shares {amounts(value, most)}"
        yield judged("GROSS", value <= most, words, value_vnd=value, limit_vnd=most, scope=ACCOUNT)


def _of_nav(account: AccountUse, ppm: int | None) -> int | None:
    """Return a share of the net asset value; an unknown one allows nothing."""
    return None if ppm is None else max(0, account.nav or 0) * ppm // PPM


def auction_share(request: OrderRequest, view: View, account: AccountUse) -> Iterator[CheckResult]:
    """In an auction the order is a small part of what the other side shows."""
    share = account.limits.max_auction_share_ppm
    if share is not None and view.phase in AUCTIONS:
        shown, quantity = account.shown or None, request.quantity
        is_ok = shown is not None and quantity * PPM <= shown * share
        is_ok = is_ok or is_least_sale(request)
        words = f"{quantity:,} of {or_none(shown)} shown"
        yield judged("AUCTION_SHARE", is_ok, words, quantity=quantity, shown=shown, share_ppm=share)


def min_cash(request: OrderRequest, view: View, account: AccountUse) -> Iterator[CheckResult]:
    """The buy leaves enough cash after its fee; CASH, an earlier check, has ensured that it is
    known.
    """
    least = account.limits.min_cash
    if least is not None and request.side is Side.BUY:
        value = request.quantity * view.price
        left = (view.cash_free or 0) - value - view.rulebook.fee(value)
        words = f"cash left {short_money(left)}, at least {short_money(least)}"
        yield judged(
            "MIN_CASH", left >= least, words, left_vnd=left, limit_vnd=least, scope=ACCOUNT
        )
