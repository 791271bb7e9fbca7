from dataclasses import replace
from decimal import Decimal

import pytest

from bot.domain.account import Holding, SubAccount
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
)
from bot.protocol.envelope import Payload
from bot.protocol.errors import MalformedAnswer
from bot.protocol.values.border import AccountSummary, AvailableTrade, Portfolio, PortfolioRow, User
from tests.protocol.samples import ACCOUNT, payload

ROW = PortfolioRow(
    symbol="FPT",
    total=1_000,
    available=700,
    receiving_t0=100,
    receiving_t1=200,
    cost_price=68_000,
    reference_price=72_000,
    close_price=72_500,
)

PORTFOLIO_KEYS = {
    "sub_account_id",
    "symbol",
    "custodycd",
    "securities_type",
    "total",
    "available",
    "blocked",
    "mortgage",
    "vsd_mortgage",
    "restrict",
    "receiving_right",
    "receiving_t0",
    "receiving_t1",
    "receiving_t2",
    "sending_t0",
    "sending_t1",
    "sending_t2",
    "matching_amount",
    "withdraw",
    "cost_price",
    "basic_price",
    "close_price",
    "cost_price_amount",
    "basic_price_amount",
    "pnl_amount",
    "pnl_rate",
    "total_pnl",
    "is_sellable",
    "has_newest_news",
    "trade",
}
SUMMARY_KEYS = {
    "balance",
    "ci_balance",
    "td_balance",
    "interest_balance",
    "ca_receiving",
    "receiving_t1",
    "receiving_t2",
    "receiving_t3",
    "receiving_amt",
    "securities_amt",
    "total_debt_amt",
    "debt_amt",
    "secure_amt",
    "trf_buy_amt",
    "margin_amt",
    "t0_debt_amt",
    "advanced_amt",
    "advance_max_amt_fee",
    "df_debt_amt",
    "td_debt_amt",
    "cidepo_fee",
    "cidepo_fee_acr",
    "sms_fee_amt",
    "ibroker_fee_amt",
    "net_asset_value",
    "mrcr_limit",
    "mrcr_limit_max",
    "margin_rate",
    "mri_rate",
    "mrm_rate",
    "hold_balance",
    "emk_amt",
    "td_int_amt",
    "add_vnd",
    "add_vnd_1",
    "core_bank",
    "bankacct_no",
    "bank_name",
    "baldefovd",
}


def test_available_trade_is_buying_power_and_sellable_shares():
    found = decode_available_trade(payload({"pp0": "1000000", "trade": 300, "ppse": None}))

    assert found == AvailableTrade(buying_power=1_000_000, sellable=300)


@pytest.mark.parametrize("missing", ["pp0", "trade"])
def test_neither_buying_power_nor_sellable_shares_are_guessed(missing):
    with pytest.raises(MalformedAnswer, match=missing):
        decode_available_trade(payload({"pp0": 1, "trade": 1, missing: None}))


def test_available_trade_is_written_with_every_field():
    written = encode_available_trade(AvailableTrade(buying_power=5, sellable=6))

    assert written == {
        "pp0": 5,
        "trade": 6,
        "ppse": 0,
        "maxqtty": 0,
        "balance": 0,
        "cash_pending_send": 0,
        "mortgage": 0,
        "marginrate": 0,
        "mrratioloan": None,
    }


def test_a_row_of_the_portfolio_is_a_holding():
    assert ROW.holding == Holding("FPT", 1_000, 700, 300, 68_000)


def test_profit_is_at_the_close_price():
    written = encode_portfolio(Portfolio((ROW,)))["portfolio"][0]  # type: ignore[index]

    assert set(written) == PORTFOLIO_KEYS
    assert (written["pnl_amount"], written["pnl_rate"]) == (4_500_000, 6.62)


def test_an_average_cost_is_rounded_half_up():
    row = {"symbol": "fpt", "total": 3, "available": 3, "cost_price": Decimal("68000.5")}

    found = decode_portfolio(payload({"portfolio": [row], "is_snapshot": True}))

    assert found == Portfolio((PortfolioRow("FPT", 3, 3, cost_price=68_001),), is_snapshot=True)
    assert found.holdings["FPT"].cost_price == 68_001


@pytest.mark.parametrize(
    "rows",
    [
        None,
        {},
        [None],
        [{"symbol": "FPT", "total": 1}],
        [{"symbol": "FPT", "total": "1.5", "available": 1}],
        [{"symbol": "FPT", "total": 1, "available": 1}] * 2,
    ],
)
def test_a_portfolio_that_cannot_be_read_whole_is_malformed(rows):
    with pytest.raises(MalformedAnswer, match="portfolio"):
        decode_portfolio(payload({"portfolio": rows}))


def test_a_portfolio_that_a_success_gives_as_null_is_empty():
    def sent(value: object, code: str | None = "0") -> Payload:
        return replace(payload(value), error_code=code)

    empty = decode_portfolio(sent({"portfolio": None, "is_snapshot": True}))

    assert empty == Portfolio((), is_snapshot=True)
    for left_out in (sent({}), sent({"portfolio": None}, None), sent({"portfolio": None}, "")):
        with pytest.raises(MalformedAnswer, match="portfolio"):
            decode_portfolio(left_out)


@pytest.mark.parametrize(
    "name",
    ["total", "available", "receiving_right", "receiving_t0", "receiving_t1", "receiving_t2"],
)
def test_fewer_than_no_shares_are_malformed(name):
    row = {"symbol": "FPT", "total": 1, "available": 1, name: -100}

    with pytest.raises(MalformedAnswer, match=f"portfolio.0.{name}"):
        decode_portfolio(payload({"portfolio": [row]}))


def test_fewer_than_no_sellable_shares_are_malformed():
    with pytest.raises(MalformedAnswer, match="trade"):
        decode_available_trade(payload({"pp0": -5, "trade": -1}))


@pytest.mark.parametrize("name", ["ci_balance", "balance", "td_balance", "secure_amt"])
def test_a_fraction_of_the_money_that_orders_go_by_is_malformed(name):
    with pytest.raises(MalformedAnswer, match=name):
        decode_summary(payload({"ci_balance": 1, "balance": 1, name: Decimal("1.5")}))


def test_a_whole_fraction_and_debt_are_money():
    wire = {"ci_balance": Decimal("-5.0"), "balance": "7.00", "secure_amt": None}

    found = decode_summary(payload(wire))

    assert (found.cash, found.balance, found.secured) == (-5, 7, None)


def test_a_summary_is_read_from_numbers_and_texts():
    wire = {"ci_balance": "10", "balance": 30, "net_asset_value": 50.0, "baldefovd": "9.5"}

    found = decode_summary(payload(wire | {"net_asset_value": Decimal("50.0")}))

    assert found == AccountSummary(cash=10, balance=30, net_asset_value=50, withdrawable=10)


def test_withdrawable_cash_is_written_as_a_text():
    written = encode_summary(AccountSummary(cash=10, balance=30, net_asset_value=50))

    assert set(written) == SUMMARY_KEYS
    assert written["baldefovd"] == "0"


def test_money_that_the_broker_leaves_out_is_not_known_and_not_guessed():
    assert decode_summary(payload({})) == AccountSummary(None, None, None)
    assert decode_summary(payload({"ci_balance": 1})) == AccountSummary(1, None, None)


def test_cash_that_is_left_out_is_the_balance_without_the_deposits():
    found = decode_summary(payload({"balance": 30, "td_balance": 20, "net_asset_value": 50}))

    assert (found.cash, found.balance) == (10, 30)


def test_the_user_is_read_from_a_number_or_a_numeric_text():
    assert decode_user(payload({"user_id": 7, "more": [1]})) == User(7)
    assert decode_user(payload({"user_id": "7"})) == User(7)


@pytest.mark.parametrize("user_id", [None, True, 1.5, "x", [], {}, -1])
def test_a_user_id_of_another_kind_is_malformed(user_id):
    with pytest.raises(MalformedAnswer, match=r"some_call: .*user_id"):
        decode_user(payload({"user_id": user_id}))


def test_a_sub_account_has_every_field_of_the_document():
    assert encode_sub_accounts([ACCOUNT], customer_id="0001234500") == [
        {
            "id": "0001234567",
            "cust_id": "0001234500",
            "name": "NGUYEN VAN A",
            "depository_number": "120C000008",
            "product_type_name": ".1",
            "sub_account_ext": "120C000008.1",
            "type": "Normal",
        }
    ]


def test_two_sub_accounts_of_one_type_are_both_kept():
    entries = [
        {"id": "0001", "sub_account_ext": "120C000001.1", "type": "Normal", "name": None},
        {"id": "0002", "sub_account_ext": "120C000001.4", "type": "normal"},
    ]

    assert decode_sub_accounts(payload(entries)) == (
        SubAccount("0001", "120C000001.1", "Normal"),
        SubAccount("0002", "120C000001.4", "normal"),
    )


@pytest.mark.parametrize("missing", ["id", "sub_account_ext", "type"])
def test_a_required_field_is_required(missing):
    entry = {"id": "0001", "sub_account_ext": "120C000001.1", "type": "Normal"}

    with pytest.raises(MalformedAnswer, match=missing):
        decode_sub_accounts(payload([{**entry, missing: None}]))


def test_an_id_that_lost_its_leading_zeros_is_malformed():
    entry = {"id": 1234567, "sub_account_ext": "120C000001.1", "type": "Normal"}

    with pytest.raises(MalformedAnswer, match=r"id: .*not a text"):
        decode_sub_accounts(payload([entry]))
