"""Each limit of an account at its border: what is refused, and what just passes.

A row: the code, the request, what is used, the limit.
"""

from dataclasses import replace

from bot.domain.limits import AccountLimits
from bot.domain.order import OrderType, Side
from bot.engine.risk.sizing import OrderRequest
from bot.engine.risk.view import AccountUse

BUY = OrderRequest("test", "A.1", "HPG", Side.BUY, 100, OrderType.LO, 27_000, "why")
SELL = replace(BUY, side=Side.SELL)
MARKET = replace(BUY, order_type=OrderType.MTL, limit_price=None)
USE = AccountUse(
    limits=AccountLimits(),
    open_orders=0,
    open_orders_here=0,
    last_second=0,
    last_minute=0,
    orders_today=0,
    worst_price=27_050,
    shown=5_000,
)
GAP = {"max_price_gap_ppm": 20_000}

REFUSED = [
    ("UNIVERSE", BUY, {}, {"symbols": frozenset({"FPT"})}),
    ("UNIVERSE", SELL, {}, {"symbols": frozenset()}),
    ("MAX_ORDER_QUANTITY", replace(BUY, quantity=5_100), {}, {"max_order_quantity": 5_000}),
    ("MAX_ORDER_QUANTITY", replace(SELL, quantity=5_100), {}, {"max_order_quantity": 5_000}),
    ("MAX_ORDER_VALUE", BUY, {}, {"max_order_value": 2_699_999}),
    ("PRICE_GAP", replace(BUY, limit_price=27_550), {}, GAP),
    ("PRICE_GAP", replace(SELL, limit_price=26_450), {}, GAP),
    ("PRICE_GAP", MARKET, {"worst_price": 27_550}, GAP),
    ("DEPTH_SHOWN", MARKET, {"shown": 99}, GAP),
    ("DEPTH_SHOWN", MARKET, {"worst_price": None, "shown": 0}, GAP),
    ("MAX_ORDERS", BUY, {"orders_today": 60}, {"max_orders_per_day": 60}),
    ("OPEN_ORDERS", BUY, {"open_orders": 10}, {"max_open_orders": 10}),
    ("OPEN_ORDERS", SELL, {"open_orders_here": 3}, {"max_open_orders_per_symbol": 3}),
    ("ORDER_RATE", BUY, {"last_second": 1}, {"max_orders_per_second": 1}),
    ("ORDER_RATE", SELL, {"last_minute": 6}, {"max_orders_per_minute": 6}),
]
PASSED = [
    (BUY, {}, {"symbols": frozenset({"HPG"})}),
    (replace(BUY, quantity=5_000), {}, {"max_order_quantity": 5_000}),
    (BUY, {}, {"max_order_value": 2_700_000}),
    (replace(BUY, limit_price=27_500), {}, GAP),
    (replace(SELL, limit_price=26_500), {}, GAP),
    (MARKET, {"worst_price": 27_540, "shown": 100}, GAP),
    (replace(MARKET, order_type=OrderType.LO, limit_price=27_000), {"shown": 0}, GAP),
    (BUY, {"orders_today": 59}, {"max_orders_per_day": 60}),
    (BUY, {"open_orders": 9}, {"max_open_orders": 10}),
    (BUY, {"open_orders_here": 2}, {"max_open_orders_per_symbol": 3}),
    (BUY, {"last_second": 1, "last_minute": 5}, {"max_orders_per_minute": 6}),
]
