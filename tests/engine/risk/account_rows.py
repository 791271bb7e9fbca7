"""Each limit of an account at its border: what is refused, and what just passes.

A row: the code, the request, what is used, the limit.
"""

from dataclasses import replace
from datetime import timedelta

from bot.domain.instrument import Phase
from bot.domain.order import OrderType, Side
from bot.domain.plan import AccountLimits
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
    nav=50_000_000,
    age=timedelta(seconds=5),
)
AGE = {"max_account_age": timedelta(seconds=120)}
GAP = {"max_price_gap_ppm": 20_000}
REFERENCE = {"max_reference_gap_ppm": 20_000}
CLOSE = replace(SELL, closes_position=True)

REFUSED = [
    ("UNIVERSE", BUY, {}, {"symbols": frozenset({"FPT"})}),
    ("MAX_ORDER_QUANTITY", replace(BUY, quantity=5_100), {}, {"max_order_quantity": 5_000}),
    ("MAX_ORDER_QUANTITY", replace(SELL, quantity=5_100), {}, {"max_order_quantity": 5_000}),
    ("MAX_ORDER_VALUE", replace(SELL, quantity=200), {}, {"max_order_value": 2_700_000}),
    ("REFERENCE_GAP", replace(BUY, limit_price=27_550), {}, REFERENCE),
    ("REFERENCE_GAP", replace(SELL, limit_price=26_450), {}, REFERENCE),
    ("REFERENCE_GAP", MARKET, {"worst_price": 27_550}, REFERENCE),
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
    ("ORDER_RATE", BUY, {"last_minute": 6}, {"max_orders_per_minute": 6}),
    ("EXIT_RATE", SELL, {"sales_of_second": 1}, {"max_orders_per_second": 1}),
    ("EXIT_RATE", SELL, {"sales_of_minute": 6}, {"max_orders_per_minute": 6}),
    ("DAY_LOSS", BUY, {"loss": 2_000_000, "loss_limit": 2_000_000}, {}),
    ("DAY_LOSS", BUY, {"loss": -1, "loss_limit": 2_000_000, "is_reduced": True}, {}),
    ("FLIPS", BUY, {"flips": 4}, {"max_flips_per_symbol": 3}),
    ("ACCOUNT_AGE", BUY, {"age": timedelta(seconds=121)}, AGE),
    ("ACCOUNT_AGE", BUY, {"age": None}, AGE),
    ("LAST_ENTRY", BUY, {"ends_in": Phase.BREAK}, {"last_entry": timedelta(seconds=60)}),
    ("POSITION_VALUE", BUY, {"position_value": 7_300_001}, {"max_position_value": 10_000_000}),
    ("POSITION_VALUE", BUY, {"position_value": 7_300_001}, {"max_position_nav_ppm": 200_000}),
    ("POSITION_VALUE", BUY, {"nav": None}, {"max_position_nav_ppm": 200_000}),
    ("GROSS", BUY, {"gross": 37_300_001}, {"max_gross_nav_ppm": 800_000}),
    ("GROSS", BUY, {"nav": None}, {"max_gross_nav_ppm": 800_000}),
    ("MIN_CASH", BUY, {}, {"min_cash": 10**12 - 2_704_049}),
]
IN_AUCTION = [
    ("AUCTION_SHARE", BUY, {"shown": 1_999}, {"max_auction_share_ppm": 50_000}),
    ("AUCTION_SHARE", replace(SELL, quantity=200), {"shown": 0}, {"max_auction_share_ppm": 50_000}),
]
"""Refused in an auction alone."""
EXITS = [
    ({"loss": 9_000_000, "loss_limit": 2_000_000, "is_reduced": True}, {}),
    ({"flips": 9}, {"max_flips_per_symbol": 3}),
    ({"age": None}, AGE),
    ({"ends_in": Phase.BREAK}, {"last_entry": timedelta(seconds=60)}),
    ({"position_value": 10**9}, {"max_position_value": 1}),
    ({"gross": 10**9, "nav": None}, {"max_gross_nav_ppm": 1}),
    ({}, {"min_cash": 10**13}),
    ({}, {"symbols": frozenset()}),
    ({"orders_today": 60}, {"max_orders_per_day": 60}),
    ({"last_second": 9}, {"max_orders_per_second": 1}),
    ({"last_minute": 99}, {"max_orders_per_minute": 6}),
    ({}, {"max_order_value": 1}),
    ({}, {"max_order_quantity": 1}),
]
"""What keeps an entry back lets a sale out."""
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
    (CLOSE, {"open_orders": 10, "open_orders_here": 3}, {"max_open_orders": 10}),
    (SELL, {"sales_of_second": 0, "sales_of_minute": 5}, {"max_orders_per_minute": 6}),
    (replace(BUY, limit_price=27_500), {}, REFERENCE),
    (MARKET, {"worst_price": 27_540, "shown": 100}, REFERENCE),
    (BUY, {"last_second": 1, "last_minute": 5}, {"max_orders_per_minute": 6}),
    (BUY, {"last_second": 0}, {"max_orders_per_second": 1}),
    (BUY, {"loss": 1_999_999, "loss_limit": 2_000_000}, {}),
    (BUY, {"loss": 0, "loss_limit": 0}, {}),
    (BUY, {"flips": 3}, {"max_flips_per_symbol": 3}),
    (BUY, {"age": timedelta(seconds=120)}, AGE),
    (BUY, {}, {"last_entry": timedelta(seconds=60)}),
    (BUY, {"position_value": 7_300_000}, {"max_position_value": 10_000_000}),
    (BUY, {"position_value": 7_300_000}, {"max_position_nav_ppm": 200_000}),
    (BUY, {"gross": 37_300_000}, {"max_gross_nav_ppm": 800_000}),
    (BUY, {}, {"min_cash": 10**12 - 2_704_050}),
]
