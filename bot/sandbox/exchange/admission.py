"""The checks of a new order and of an amendment, in order; the first that fails is the refusal."""

from typing import Final

from bot.domain.instrument import Lot
from bot.domain.order import OrderType
from bot.sandbox.exchange.book import RestingOrder
from bot.sandbox.exchange.day import ExchangeDay
from bot.sandbox.exchange.market import SymbolMarket
from bot.sandbox.exchange.message import NewOrder, Refusal

_EVEN: Final = Lot.EVEN
_ODD: Final = Lot.ODD
_LO: Final = OrderType.LO
_PLO: Final = OrderType.PLO


def verdict_on(order: NewOrder, market: SymbolMarket | None) -> Lot | Refusal:
    """Check symbol, phase, halt, type, quantity, price, tick, band, opposite order.

    Cash is checked afterwards. Return the lot of an order that is admitted.
    """
    if market is None:
        return Refusal.UNKNOWN_SYMBOL
    day, order_type = market.day, order.order_type
    if not day.is_taking:
        return Refusal.NOT_TRADING
    if market.is_halted:
        return Refusal.HALTED
    lot = day.lots.lot_of(order.quantity)
    if order_type not in day.accepted[lot or _EVEN]:
        return Refusal.ORDER_TYPE
    if order_type is _PLO and market.totals.last is None:
        return Refusal.NO_CLOSE
    if lot is None:
        return _quantity_refusal(order.quantity, day)
    if lot is _ODD and market.bans_odd_lots:
        return Refusal.ODD_LOT_BAN
    price = order.price
    if order_type is not _LO:
        if price is not None:
            return Refusal.PRICE_UNWANTED
    elif price not in market.grid.members:
        return _price_refusal(price, market)
    if day.is_auction and market.holds_opposite(order):
        return Refusal.OPPOSITE_ORDER
    return lot


def _quantity_refusal(quantity: int, day: ExchangeDay) -> Refusal:
    most = day.lots.max_quantity
    return Refusal.TOO_LARGE if most is not None and quantity > most else Refusal.QUANTITY


def _price_refusal(price: int | None, market: SymbolMarket) -> Refusal:
    """Return the refusal of a price off the day's grid: first the tick is checked, then the band.

    A price that is not positive is on no grid and below every floor.
    """
    if price is None:
        return Refusal.PRICE_MISSING
    if price > 0 and not market.grid.ticks.is_on_grid(price):
        return Refusal.OFF_TICK
    return Refusal.OUTSIDE_BAND


def amend_refusal(
    order: RestingOrder, market: SymbolMarket, *, price: int | None, quantity: int | None
) -> Refusal | None:
    """Check an amendment of an open order: phase, halt, type, quantity, price.

    An odd lot never becomes an even lot, or the reverse.
    """
    if not market.day.may_amend:
        return Refusal.CHANGE_NOT_NOW
    if market.is_halted:
        return Refusal.HALTED
    if order.order_type is not _LO:
        return Refusal.ORDER_TYPE
    if price in (None, order.price) and quantity in (None, order.quantity):
        return Refusal.NOTHING_CHANGED
    refusal = None if quantity is None else _total_refusal(order, quantity, market.day)
    if refusal is None and price is not None and price not in market.grid.members:
        return _price_refusal(price, market)
    return refusal


def _total_refusal(order: RestingOrder, quantity: int, day: ExchangeDay) -> Refusal | None:
    lot = day.lots.lot_of(quantity)
    if lot is None:
        return _quantity_refusal(quantity, day)
    if lot is not order.book.lot:
        return Refusal.LOT_CHANGED
    executed = order.quantity - order.remaining
    return None if quantity > executed else Refusal.BELOW_EXECUTED
