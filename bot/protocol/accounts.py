"""Money and shares of a sub-account: available trade, portfolio, summary.

Source: broker open API 0.2.0-preview.3, account data. All amounts are VND. The field names of the
wire are tables here, so that reading and writing cannot drift apart.
"""

from collections.abc import Mapping
from typing import Final

from bot.protocol.envelope import Payload
from bot.protocol.errors import MalformedAnswer
from bot.protocol.fields import Rounded, Symbol, Text, Whole, Wire, read
from bot.protocol.values.border import AccountSummary, AvailableTrade, Portfolio, PortfolioRow

# ---------------------------------------------------------------------------- available trade

_TRADE_NAMES: Final[Mapping[str, str]] = {
    "buying_power": "pp0",
    "sellable": "trade",
    "leveraged_power": "ppse",
    "quantity_max": "maxqtty",
    "balance": "balance",
    "cash_pending": "cash_pending_send",
    "mortgage": "mortgage",
}


class _AvailableTrade(Wire):
    pp0: Whole
    trade: Whole
    ppse: Rounded = 0
    maxqtty: Rounded = 0
    balance: Rounded = 0
    cash_pending_send: Rounded = 0
    mortgage: Rounded = 0


def decode_available_trade(payload: Payload) -> AvailableTrade:
    """Return buying power and sellable shares at the price asked for; both must be there."""
    found = read(_AvailableTrade, payload)
    return AvailableTrade(**{ours: getattr(found, theirs) for ours, theirs in _TRADE_NAMES.items()})


def encode_available_trade(trade: AvailableTrade) -> dict[str, object]:
    """Return the `result` of available-trade. There is no margin in it: rates are 0 and null."""
    fields = {theirs: getattr(trade, ours) for ours, theirs in _TRADE_NAMES.items()}
    return {**fields, "marginrate": 0, "mrratioloan": None}


# ---------------------------------------------------------------------------------- portfolio

_ROW_NAMES: Final[Mapping[str, str]] = {
    "sub_account_id": "sub_account_id",
    "symbol": "symbol",
    "depository_number": "custodycd",
    "securities_type": "securities_type",
    "total": "total",
    "available": "available",
    "blocked": "blocked",
    "mortgage": "mortgage",
    "depository_mortgage": "vsd_mortgage",
    "restricted": "restrict",
    "receiving_right": "receiving_right",
    "receiving_t0": "receiving_t0",
    "receiving_t1": "receiving_t1",
    "receiving_t2": "receiving_t2",
    "sending_t0": "sending_t0",
    "sending_t1": "sending_t1",
    "sending_t2": "sending_t2",
    "in_sell_orders": "matching_amount",
    "withdraw": "withdraw",
    "cost_price": "cost_price",
    "reference_price": "basic_price",
    "close_price": "close_price",
    "is_sellable": "is_sellable",
}


class _PortfolioRow(Wire):
    symbol: Symbol
    total: Whole
    available: Whole
    sub_account_id: Text = ""
    custodycd: Text = ""
    securities_type: Text = "STOCK"
    blocked: Whole = 0
    mortgage: Whole = 0
    vsd_mortgage: Whole = 0
    restrict: Whole = 0
    receiving_right: Whole = 0
    receiving_t0: Whole = 0
    receiving_t1: Whole = 0
    receiving_t2: Whole = 0
    sending_t0: Whole = 0
    sending_t1: Whole = 0
    sending_t2: Whole = 0
    matching_amount: Whole = 0
    withdraw: Whole = 0
    cost_price: Rounded = 0
    basic_price: Rounded = 0
    close_price: Rounded = 0
    is_sellable: bool = True


class _Portfolio(Wire):
    portfolio: list[_PortfolioRow]
    is_snapshot: bool = False


def decode_portfolio(payload: Payload) -> Portfolio:
    """Return the holdings. A symbol given twice is malformed: one would be overlooked."""
    found = read(_Portfolio, payload)
    rows = tuple(
        PortfolioRow(**{ours: getattr(row, theirs) for ours, theirs in _ROW_NAMES.items()})
        for row in found.portfolio
    )
    if len({row.symbol for row in rows}) != len(rows):
        raise MalformedAnswer(payload.call, "portfolio: a symbol is given twice", payload.raw)
    return Portfolio(found.is_snapshot, rows)


def encode_portfolio(portfolio: Portfolio) -> dict[str, object]:
    """Return the `data` of the portfolio; profit and loss are at the close price."""
    return {
        "is_snapshot": portfolio.is_snapshot,
        "portfolio": [_encode_row(row) for row in portfolio.rows],
    }


def _encode_row(row: PortfolioRow) -> dict[str, object]:
    at_cost = row.total * row.cost_price
    profit = row.total * row.close_price - at_cost
    return {
        **{theirs: getattr(row, ours) for ours, theirs in _ROW_NAMES.items()},
        "cost_price_amount": at_cost,
        "basic_price_amount": row.total * row.reference_price,
        "pnl_amount": profit,
        "pnl_rate": round(profit * 100 / at_cost, 2) if at_cost else 0,
        "total_pnl": profit,
        "has_newest_news": False,
        "trade": row.available,
    }


# ------------------------------------------------------------------------------------ summary

_SUMMARY_NAMES: Final[Mapping[str, str]] = {
    "balance": "balance",
    "cash": "ci_balance",
    "term_deposit": "td_balance",
    "dividends_due": "ca_receiving",
    "receiving_t1": "receiving_t1",
    "receiving_t2": "receiving_t2",
    "receiving_t3": "receiving_t3",
    "receiving": "receiving_amt",
    "securities": "securities_amt",
    "debt": "total_debt_amt",
    "secured": "secure_amt",
    "net_asset_value": "net_asset_value",
    "held": "hold_balance",
    "withdrawable": "baldefovd",
}
_SUMMARY_ZEROS: Final = (
    "interest_balance",
    "debt_amt",
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
    "mrcr_limit",
    "mrcr_limit_max",
    "margin_rate",
    "mri_rate",
    "mrm_rate",
    "emk_amt",
    "td_int_amt",
    "add_vnd",
    "add_vnd_1",
)
_SUMMARY_TEXTS: Final = ("core_bank", "bankacct_no", "bank_name")


class _Summary(Wire):
    """`baldefovd` is a text on this call; amounts may carry the fraction of an interest."""

    ci_balance: Rounded | None = None
    balance: Rounded | None = None
    net_asset_value: Rounded | None = None
    td_balance: Rounded = 0
    ca_receiving: Rounded = 0
    receiving_t1: Rounded = 0
    receiving_t2: Rounded = 0
    receiving_t3: Rounded = 0
    receiving_amt: Rounded = 0
    securities_amt: Rounded = 0
    total_debt_amt: Rounded = 0
    secure_amt: Rounded = 0
    hold_balance: Rounded = 0
    baldefovd: Rounded = 0


def decode_summary(payload: Payload) -> AccountSummary:
    """Return the money of the sub-account. Cash that is left out is the balance less deposits."""
    found = read(_Summary, payload)
    fields = {ours: getattr(found, theirs) for ours, theirs in _SUMMARY_NAMES.items()}
    if found.ci_balance is None and found.balance is not None:
        fields["cash"] = found.balance - found.td_balance
    return AccountSummary(**fields)


def encode_summary(summary: AccountSummary) -> dict[str, object]:
    """Return the `result` of the summary; what the value does not hold is 0 or empty."""
    return {
        **{theirs: getattr(summary, ours) for ours, theirs in _SUMMARY_NAMES.items()},
        **dict.fromkeys(_SUMMARY_ZEROS, 0),
        **dict.fromkeys(_SUMMARY_TEXTS, ""),
        "baldefovd": str(summary.withdrawable),
    }
