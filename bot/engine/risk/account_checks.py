"""The checks of what an account's strategies share, beside the limits of each one of them.

They are tried among those of `checks.py`, and say nothing where the account has no limits.
"""

from collections.abc import Iterator
from typing import Final

from bot.domain.entry import CheckResult
from bot.domain.order import OrderType
from bot.domain.plan import Limits
from bot.engine.risk.codes import ACCOUNT, judged, percent
from bot.engine.risk.sizing import OrderRequest
from bot.engine.risk.view import View

PPM: Final = 1_000_000
_AT_THE_MARKET: Final = frozenset(
    {
        OrderType.MP,
        OrderType.MTL,
        OrderType.MAK,
        OrderType.MOK,
        OrderType.FAK,
        OrderType.FOK,
    }
)
"""Types that take what the depth shows. ATO, ATC and PLO trade at the one price of their phase."""


def universe(request: OrderRequest, view: View, _limits: Limits) -> Iterator[CheckResult]:
    """The symbol is one of those that the account may trade."""
    allowed = view.account.limits.symbols if view.account is not None else None
    if allowed is not None:
        many, symbol = len(allowed), request.symbol
        words = f"{symbol} is one of {many:,}"
        yield judged("UNIVERSE", symbol in allowed, words, symbol=symbol, symbols=many)


def max_quantity(request: OrderRequest, view: View, _limits: Limits) -> Iterator[CheckResult]:
    """One order is not of more shares than the limit."""
    most = view.account.limits.max_order_quantity if view.account is not None else None
    if most is not None:
        quantity = request.quantity
        words = f"quantity {quantity:,} of {most:,}"
        yield judged("MAX_ORDER_QUANTITY", quantity <= most, words, quantity=quantity, limit=most)


def market_price(request: OrderRequest, view: View, _limits: Limits) -> Iterator[CheckResult]:
    """The worst level that a market order is shown is not far from the last trade."""
    account, quote = view.account, view.quote
    gap_max = account.limits.max_price_gap_ppm if account is not None else None
    if account is None or gap_max is None or request.order_type not in _AT_THE_MARKET:
        return
    worst, shown, quantity = account.worst_price, account.shown, request.quantity
    is_shown = worst is not None and quantity <= shown
    words = f"depth shows {shown:,} of {quantity:,}"
    yield judged("DEPTH_SHOWN", is_shown, words, shown=shown, quantity=quantity, price=worst)
    last = quote.last if quote is not None else 0
    gap = abs((worst or 0) - last) * PPM // last if last > 0 else PPM
    words = f"worst level {percent(gap)} off last of {percent(gap_max)}"
    yield judged(
        "PRICE_GAP", gap <= gap_max, words, gap_ppm=gap, gap_ppm_max=gap_max, scope=ACCOUNT
    )


def open_orders(_request: OrderRequest, view: View, _limits: Limits) -> Iterator[CheckResult]:
    """Few enough orders of this bot work, or may work, in the account and in the symbol."""
    if view.account is None:
        return
    for scope, here, most in (
        (ACCOUNT, view.account.open_orders, view.account.limits.max_open_orders),
        ("symbol", view.account.open_orders_here, view.account.limits.max_open_orders_per_symbol),
    ):
        if most is not None:
            words = f"open {here:,} of {most:,}"
            yield judged("OPEN_ORDERS", here < most, words, orders=here, limit=most, scope=scope)


def order_rate(_request: OrderRequest, view: View, _limits: Limits) -> Iterator[CheckResult]:
    """Few enough orders, changes and cancels have just gone out; only orders and changes wait."""
    if view.account is None:
        return
    for span, sent, most in (
        ("second", view.account.last_second, view.account.limits.max_orders_per_second),
        ("minute", view.account.last_minute, view.account.limits.max_orders_per_minute),
    ):
        if most is not None:
            words = f"{sent:,} of {most:,} a {span}"
            yield judged(
                "ORDER_RATE", sent < most, words, sent=sent, limit=most, span=span, scope=ACCOUNT
            )
