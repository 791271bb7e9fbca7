"""What one end writes, the other reads as the same value: decode(open(seal(encode(x)))) == x."""

from datetime import UTC, date, datetime, timedelta
from string import ascii_uppercase, digits
from typing import Any, get_type_hints

from hypothesis import given
from hypothesis import strategies as st

from bot.domain.account import SubAccount
from bot.domain.instrument import EXCHANGE_TZ, Exchange, Phase
from bot.domain.order import OrderReport, OrderResult, OrderState, OrderType, Side
from bot.domain.order_status import settled
from bot.domain.quote import Depth, DepthLevel, Quote
from bot.protocol.accounts import (
    decode_available_trade,
    decode_portfolio,
    decode_sub_accounts,
    decode_summary,
    decode_user,
    encode_available_trade,
    encode_portfolio,
    encode_sub_accounts,
    encode_summary,
    encode_user,
)
from bot.protocol.day_order_book import (
    RowDetail,
    decode_order_row,
    decode_todays_orders,
    encode_order_row,
    encode_todays_orders,
)
from bot.protocol.endpoints.endpoint import Endpoint, build_target
from bot.protocol.endpoints.trading import (
    AVAILABLE_TRADE,
    MARKET_PHASE,
    ORDER_DETAIL,
    PLACE_ORDER,
    PORTFOLIO,
    REQUEST_OTP,
    STOCK_DEPTH,
    STOCK_QUOTE,
    SUB_ACCOUNTS,
    SUMMARY,
    TODAYS_ORDERS,
    USER,
    VERIFY_OTP,
)
from bot.protocol.envelope import Payload, open_envelope
from bot.protocol.orders import decode_order_results, encode_order_results
from bot.protocol.quotes import (
    decode_depth,
    decode_market_phase,
    decode_quote,
    encode_depth,
    encode_market_phase,
    encode_quote,
)
from bot.protocol.secret import Secret
from bot.protocol.signing import SigningKey, body_sha256, sign
from bot.protocol.status import STATUSES, state_of
from bot.protocol.two_factor import (
    decode_otp_ticket,
    decode_two_factor_token,
    encode_otp_ticket,
    encode_two_factor_token,
)
from bot.protocol.values.border import (
    AccountSummary,
    AvailableTrade,
    MarketPhase,
    OtpTicket,
    Portfolio,
    PortfolioRow,
    TwoFactorToken,
    User,
)
from tests.protocol.samples import sealed, without_raw

counts = st.integers(0, 10**12)
positives = st.integers(1, 10**9)
money = st.integers(-(10**15), 10**15)
prices = st.none() | positives
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
names = st.text(f"{ascii_uppercase}{digits}", min_size=1, max_size=10)
instants = st.integers(10**15, 3 * 10**15).map(
    lambda us: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)
)
seconds = instants.map(lambda instant: instant.replace(microsecond=0))
days = st.dates(date(2000, 1, 1), date(2090, 1, 1))
sides = st.sampled_from(Side)
order_ids = st.integers(0, 999_999).map("ORD{:06}".format)
extended_ids = st.builds(
    "{:03}C{:06}.{}".format, st.integers(0, 999), st.integers(0, 999_999), st.integers(1, 9)
)
accounts = st.builds(
    SubAccount,
    id=st.integers(0, 10**10 - 1).map("{:010}".format),
    extended_id=extended_ids,
    type=st.sampled_from(["Normal", "Margin", "normal"]),
    name=texts,
)
quotes = st.builds(
    Quote,
    symbol=names,
    exchange=st.sampled_from(Exchange),
    last=positives,
    reference=prices,
    ceiling=prices,
    floor=prices,
    open=prices,
    high=prices,
    low=prices,
    volume=counts,
    updated_at=st.none() | instants,
)
levels = st.lists(
    st.builds(DepthLevel, price=positives, volume=counts), max_size=3, unique_by=lambda at: at.price
)
depths = st.builds(
    Depth,
    symbol=names,
    bids=levels.map(lambda found: tuple(sorted(found, key=lambda at: -at.price))),
    asks=levels.map(lambda found: tuple(sorted(found, key=lambda at: at.price))),
    updated_at=st.none() | instants,
)
phases = st.builds(
    lambda exchange, phase, available: MarketPhase(exchange, phase, available, phase.value),
    st.sampled_from(Exchange),
    st.sampled_from(Phase),
    st.frozensets(st.sampled_from(OrderType)),
)
portfolio_rows = st.builds(
    PortfolioRow,
    symbol=names,
    sub_account_id=texts,
    depository_number=texts,
    securities_type=names,
    is_sellable=st.booleans(),
    **{
        name: st.integers(0, 10**8)
        for name, kind in get_type_hints(PortfolioRow).items()
        if kind is int
    },
)
portfolios = st.builds(
    Portfolio,
    is_snapshot=st.booleans(),
    rows=st.lists(portfolio_rows, max_size=3, unique_by=lambda row: row.symbol).map(tuple),
)
statuses = st.sampled_from([*STATUSES, "NEWS"])


@st.composite
def order_results(draw: st.DrawFn) -> OrderResult:
    quantity, status = draw(positives), draw(statuses)
    is_filled = state_of(status) is OrderState.FILLED
    executed = quantity if is_filled else draw(st.integers(0, quantity))
    return OrderResult(
        order_id=draw(order_ids),
        account=draw(extended_ids),
        transaction_date=draw(days),
        symbol=draw(names),
        side=draw(sides),
        quantity=quantity,
        limit_price=draw(prices),
        market_price=draw(st.none() | st.sampled_from(["MP", "ATC"])),
        executed_quantity=executed,
        average_price=draw(counts),
        executed_amount=draw(positives),
        status=status,
        state=settled(
            state_of(status),
            quantity=quantity,
            executed=executed,
            cancelled=0,
            remaining=quantity - executed,
        ),
        order_type=draw(st.sampled_from(OrderType)).value,
        fee=draw(counts),
        tax=draw(counts),
        code=draw(st.none() | st.sampled_from(["-400116", "FAILED"])),
        reason=draw(st.none() | texts.filter(bool)),
        lot=draw(st.none() | st.sampled_from(["EVEN", "ODD"])),
        raw="",
    )


@st.composite
def order_reports(draw: st.DrawFn, account: SubAccount) -> OrderReport:
    placed_at, status = draw(seconds), draw(statuses)
    return OrderReport(
        order_id=draw(order_ids),
        root_order_id=draw(order_ids),
        account=account.extended_id,
        trading_date=placed_at.astimezone(EXCHANGE_TZ).date(),
        symbol=draw(names),
        side=draw(sides),
        quantity=draw(positives),
        order_type=draw(st.sampled_from(OrderType)).value,
        price=draw(prices),
        executed_quantity=draw(counts),
        average_price=draw(counts),
        executed_amount=draw(positives),
        remaining_quantity=draw(st.integers(0, 10**9)),
        cancelled_quantity=draw(counts),
        status=status,
        state=state_of(status),
        may_cancel=draw(st.none() | st.booleans()),
        may_amend=draw(st.none() | st.booleans()),
        placed_at=placed_at,
        message=draw(texts),
        requested_at=placed_at + timedelta(seconds=1),
        raw="",
    )


def over_the_wire(endpoint: Endpoint, written: object) -> Payload:
    return open_envelope(endpoint, sealed(endpoint, written))


@given(st.builds(User, user_id=counts))
def test_a_user_comes_back(user):
    assert decode_user(over_the_wire(USER, encode_user(user))) == user


@given(st.lists(accounts, max_size=3).map(tuple))
def test_sub_accounts_come_back(found):
    written = encode_sub_accounts(found)

    assert decode_sub_accounts(over_the_wire(SUB_ACCOUNTS, written)) == found


@given(quotes)
def test_a_quote_comes_back(quote):
    written = encode_quote(quote)

    assert decode_quote(over_the_wire(STOCK_QUOTE, written)) == quote


@given(depths)
def test_a_depth_comes_back(depth):
    written = encode_depth(depth)

    assert decode_depth(over_the_wire(STOCK_DEPTH, written)) == depth


@given(phases)
def test_a_market_phase_comes_back(phase):
    written = encode_market_phase(phase)

    assert decode_market_phase(over_the_wire(MARKET_PHASE, written)) == phase


available_trades = st.builds(
    AvailableTrade,
    **{**dict.fromkeys(AvailableTrade.__dataclass_fields__, money), "sellable": counts},
)


@given(available_trades)
def test_available_trade_comes_back(trade):
    written = encode_available_trade(trade)

    assert decode_available_trade(over_the_wire(AVAILABLE_TRADE, written)) == trade


@given(portfolios)
def test_a_portfolio_comes_back(portfolio):
    written = encode_portfolio(portfolio)

    assert decode_portfolio(over_the_wire(PORTFOLIO, written)) == portfolio


@given(st.builds(AccountSummary, **dict.fromkeys(AccountSummary.__dataclass_fields__, money)))
def test_a_summary_comes_back(summary):
    written = encode_summary(summary)

    assert decode_summary(over_the_wire(SUMMARY, written)) == summary


@given(st.lists(order_results(), max_size=3))
def test_order_results_come_back(results):
    written = encode_order_results(results)

    found = decode_order_results(over_the_wire(PLACE_ORDER, written))

    assert [without_raw(result) for result in found] == results


@given(accounts, st.data())
def test_the_rows_of_the_day_book_come_back(account, data):
    report = data.draw(order_reports(account))
    detail = RowDetail(sub_account_id=account.id)
    asked: dict[str, Any] = {"account": account, "requested_at": report.requested_at}
    row = encode_order_row(report, detail)
    book = encode_todays_orders([(report, detail)])

    one = decode_order_row(over_the_wire(ORDER_DETAIL, row), **asked)
    (listed,) = decode_todays_orders(over_the_wire(TODAYS_ORDERS, book), **asked).reports

    assert one == listed
    assert without_raw(one) == report


@given(st.builds(OtpTicket, ticket_id=names, masked_destination=texts))
def test_a_ticket_comes_back(ticket):
    written = encode_otp_ticket(ticket)

    assert decode_otp_ticket(over_the_wire(REQUEST_OTP, written)) == ticket


@given(st.builds(TwoFactorToken, token=names.map(Secret), expires_at=seconds))
def test_a_token_comes_back(token):
    written = encode_two_factor_token(token)

    assert decode_two_factor_token(over_the_wire(VERIFY_OTP, written)) == token


@given(texts, texts.filter(lambda text: text not in {"", ".", ".."}), st.binary(max_size=50))
def test_a_signature_is_the_one_of_its_bytes_alone(secret, symbol, body):
    target = build_target(STOCK_QUOTE, {"symbol": symbol}, [("a", symbol)])
    values: dict[str, Any] = {"timestamp_ms": 1, "method": "GET", "target": target}
    signature = sign(secret, **values, body_sha256=body_sha256(body))

    assert target.isascii()
    assert SigningKey(secret).has_signed(signature, **values, body_sha256=body_sha256(body))
    assert not SigningKey(secret).has_signed(
        signature, **values, body_sha256=body_sha256(body + b"x")
    )
