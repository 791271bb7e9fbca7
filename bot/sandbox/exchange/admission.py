"""The checks of a new order and of a change, in their order; the first that fails is the answer."""

from bot.domain.instrument import Lot
from bot.domain.order import OrderType
from bot.domain.rulebook import Rulebook
from bot.sandbox.exchange.book import RestingOrder
from bot.sandbox.exchange.market import SymbolMarket
from bot.sandbox.exchange.order import AmendmentRule, NewOrder, Refusal
from bot.sandbox.exchange.timetable import ExchangeDay


def verdict_on(
    order: NewOrder, market: SymbolMarket, day: ExchangeDay, rulebook: Rulebook
) -> Lot | Refusal:
    """Check phase, halt, type, quantity, price, tick, band, opposite order; money comes after.

    Return the lot of an order that may come in.
    """
    if not day.is_taking:
        return Refusal.NOT_TRADING
    if market.is_halted:
        return Refusal.HALTED
    lot = rulebook.lot_of(day.exchange, order.quantity)
    if order.order_type not in day.accepted[lot or Lot.EVEN]:
        return Refusal.ORDER_TYPE
    if order.order_type is OrderType.PLO and market.tape.last is None:
        return Refusal.NO_CLOSE
    if lot is None:
        return _quantity_refusal(order.quantity, day, rulebook)
    if lot is Lot.ODD and market.bans_odd_lots:
        return Refusal.ODD_LOT_BAN
    refusal = _price_refusal(order, market, rulebook)
    if refusal is None and day.is_auction and market.holds_opposite(order):
        return Refusal.OPPOSITE_ORDER
    return refusal or lot


def _quantity_refusal(quantity: int, day: ExchangeDay, rulebook: Rulebook) -> Refusal:
    most = rulebook.max_quantity(day.exchange)
    return Refusal.TOO_LARGE if most is not None and quantity > most else Refusal.QUANTITY


def _price_refusal(order: NewOrder, market: SymbolMarket, rulebook: Rulebook) -> Refusal | None:
    if order.order_type is not OrderType.LO:
        return None if order.price is None else Refusal.PRICE_UNWANTED
    if order.price is None:
        return Refusal.PRICE_MISSING
    return grid_refusal(order.price, market, rulebook)


def grid_refusal(price: int, market: SymbolMarket, rulebook: Rulebook) -> Refusal | None:
    """Check a price against tick, then band."""
    if price in market.grid.members:
        return None
    instrument = market.listing.instrument
    if price > 0 and not rulebook.is_on_tick(instrument, price):
        return Refusal.OFF_TICK
    return Refusal.OUTSIDE_BAND


def amend_refusal(
    order: RestingOrder,
    market: SymbolMarket,
    day: ExchangeDay,
    rulebook: Rulebook,
    *,
    price: int | None,
    quantity: int | None,
    rule: AmendmentRule,
) -> Refusal | None:
    """Check an amendment of an open order: phase, halt, type, fields, quantity, price.

    Odd and even lots never turn into each other.
    """
    if not day.may_amend:
        return Refusal.CHANGE_NOT_NOW
    if market.is_halted:
        return Refusal.HALTED
    if order.order_type is not OrderType.LO:
        return Refusal.ORDER_TYPE
    if price is not None and quantity is not None and rule is AmendmentRule.ONE_FIELD:
        return Refusal.TWO_FIELDS
    if price in (None, order.price) and quantity in (None, order.quantity):
        return Refusal.NOTHING_CHANGED
    refusal = None if quantity is None else _total_refusal(order, quantity, day, rulebook)
    if refusal is None and price is not None:
        return grid_refusal(price, market, rulebook)
    return refusal


def _total_refusal(
    order: RestingOrder, quantity: int, day: ExchangeDay, rulebook: Rulebook
) -> Refusal | None:
    lot = rulebook.lot_of(day.exchange, quantity)
    if lot is None:
        return _quantity_refusal(quantity, day, rulebook)
    if lot is not order.lot:
        return Refusal.LOT_CHANGED
    executed = order.quantity - order.remaining
    return None if quantity > executed else Refusal.BELOW_EXECUTED
