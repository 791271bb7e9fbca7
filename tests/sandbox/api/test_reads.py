"""The reads: payload keys as the document has them, and the numbers behind them."""

from datetime import timedelta

from bot.domain.account import SubAccount
from bot.domain.instrument import Exchange, Phase
from bot.domain.order import OrderType
from bot.protocol.accounts import (
    decode_available_trade,
    decode_portfolio,
    decode_sub_accounts,
    decode_summary,
    decode_user,
)
from bot.protocol.day_order_book import decode_todays_orders
from bot.protocol.endpoints import ENDPOINTS
from bot.protocol.envelope import Answer, Payload, open_envelope
from bot.protocol.quotes import decode_depth, decode_market_phase, decode_quote
from tests.sandbox.client import ACCOUNT, DEFAULTS, EXTENDED, Bench, bench, ready, scenario


async def read(b: Bench, name: str, target: str) -> Payload:
    """Read as the bot's own client would."""
    answer = await b.call("GET", target)
    headers = {key.lower(): value for key, value in answer.headers.items()}
    seen = Answer(answer.status_code, headers, answer.content, 0)
    return open_envelope(ENDPOINTS[name], seen)


async def test_the_bootstrap_names_user_and_accounts_with_their_leading_zeros() -> None:
    b = bench(scenario(accounts=[{"id": ACCOUNT}, {"id": "0009000016", "suffix": ".6"}]))

    user = decode_user(await read(b, "user", "/users/v1/users/me"))
    path = f"/users/v1/users/{user.user_id}/sub-accounts"
    accounts = decode_sub_accounts(await read(b, "sub_accounts", path))

    assert accounts[0] == SubAccount(ACCOUNT, EXTENDED, "Normal", "NGUYEN VAN DEMO")
    assert accounts[1].extended_id == "120C900001.6"


async def test_a_quote_is_the_board_and_its_symbol_has_no_case() -> None:
    b = await ready()
    await b.place()

    quote = decode_quote(await read(b, "stock_quote", "/market/quotes/stocks/hpg"))

    assert (quote.symbol, quote.exchange, quote.last, quote.volume) == (
        "HPG",
        Exchange.HOSE,
        27_000,
        100,
    )
    assert (quote.ceiling, quote.floor, quote.updated_at) == (28_850, 25_150, b.clock.now())


async def test_depth_shows_our_own_order_among_the_others() -> None:
    b = await ready()
    await b.place(limit_price=26_950)

    depth = decode_depth(await read(b, "stock_depth", "/market/quotes/stocks/HPG/order-book"))

    assert [(level.price, level.volume) for level in depth.bids] == [
        (26_950, 1_100),
        (26_900, 2_000),
    ]
    assert depth.ask == 27_000


async def test_the_phase_lists_what_the_brokers_table_lists() -> None:
    b = bench()

    phase = decode_market_phase(
        await read(b, "market_phase", "/trading/market/session?exchange=HOSE")
    )

    assert phase.phase is Phase.PROGRESS
    assert phase.available == frozenset({OrderType.LO, OrderType.MP, OrderType.ATC})


async def test_a_buy_and_a_sale_move_cash_shares_fee_and_tax() -> None:
    b = await ready()
    await b.place(quantity=300)
    await b.place(side="SELL", quantity=200, limit_price=26_950)

    portfolio = decode_portfolio(
        await read(b, "portfolio", f"/trading/v2/sub-accounts/{ACCOUNT}/portfolio")
    )
    summary = decode_summary(await read(b, "summary", f"/trading/accounts/{ACCOUNT}/summary"))

    (held,) = portfolio.rows
    assert (held.total, held.available, held.receiving_t0) == (1_100, 800, 300)
    assert summary.cash == 100_000_000 - 8_100_000 - 12_150
    sale = 200 * 26_950
    assert summary.receiving == summary.receiving_t2 == sale - 8_085 - sale // 1_000
    rows = decode_todays_orders(
        await read(b, "todays_orders", f"/trading/v1/accounts/{ACCOUNT}/order-book"),
        account=SubAccount(ACCOUNT, EXTENDED, "Normal"),
        requested_at=b.clock.now(),
    ).reports
    assert [(row.order_id, row.executed_quantity) for row in rows] == [
        ("ORD10000001", 300),
        ("ORD10000002", 200),
    ]
    assert rows[0].placed_at == b.clock.now()


async def test_buying_power_has_room_for_the_fee() -> None:
    b = await ready()
    target = f"/trading/v2/accounts/{ACCOUNT}/available-trade"
    query = "?orderSide=BUY&symbol=HPG&quotePrice=27000"

    trade = decode_available_trade(await read(b, "available_trade", target + query))

    assert trade.sellable == 1_000
    assert trade.buying_power + round(trade.buying_power * 0.0015) <= 100_000_000
    assert trade.buying_power > 99_850_000


async def test_available_trade_refuses_what_it_cannot_answer() -> None:
    b = bench()
    target = f"/trading/v2/accounts/{ACCOUNT}/available-trade"

    statuses = [
        (await b.call("GET", f"{target}?{query}")).status_code
        for query in (
            "symbol=HPG&quotePrice=27000",
            "orderSide=BUY&symbol=HPG&quotePrice=27.5",
            "orderSide=BUY&symbol=HPG",
            "orderSide=BUY&symbol=NOPE&quotePrice=1",
        )
    ]

    assert statuses == [400, 400, 400, 404]


async def test_a_portfolio_is_a_snapshot_only_while_all_is_closed() -> None:
    target = f"/trading/v2/sub-accounts/{ACCOUNT}/portfolio"

    lunch, night = bench(scenario(start="12:00")), bench(scenario(start="20:00"))

    assert not (await lunch.get(target))["is_snapshot"]
    assert (await night.get(target))["is_snapshot"]


async def test_bought_shares_settle_on_the_second_trading_day() -> None:
    b = await ready(scenario(symbols=DEFAULTS["symbols"][:1]))
    await b.place(quantity=300)
    target = f"/trading/v2/sub-accounts/{ACCOUNT}/portfolio"

    b.clock.advance_to(b.clock.now() + timedelta(days=4, hours=3))
    early = (await b.get(target))["portfolio"][0]
    b.clock.advance_to(b.clock.now() + timedelta(hours=1))
    settled = (await b.get(target))["portfolio"][0]

    assert early["available"] == 1_000
    assert settled["available"] == 1_300
    assert await b.get(f"/trading/v1/accounts/{ACCOUNT}/order-book") == []
