"""The owner of the key, their sub-accounts, and the cash and shares of each.

The values name their wire fields (`values/border.py`), so that reading and writing cannot drift
apart; this module adds the document's other rules. All amounts are VND. Source: broker open API
0.2.0-preview.3, bootstrap and account data.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from bot.domain.account import SubAccount
from bot.protocol import words
from bot.protocol.envelope import Payload
from bot.protocol.errors import MalformedAnswer
from bot.protocol.fields import Named, Text, Wire, elements, with_lists
from bot.protocol.shaped import decoded, encoded
from bot.protocol.values.border import AccountSummary, AvailableTrade, Portfolio, User

_SUMMARY_TEXTS: Final = ("core_bank", "bankacct_no", "bank_name")


class _SubAccount(Wire):
    """`id` is a text: as a number it would have lost its leading zeros."""

    id: Named
    sub_account_ext: Named
    type: Named
    name: Text = ""


def decode_user(payload: Payload) -> User:
    return decoded(User, payload)


def encode_user(user: User) -> dict[str, object]:
    """Return the `data` of users/me."""
    written: dict[str, object] = encoded(User, user)
    return written


def decode_sub_accounts(payload: Payload) -> tuple[SubAccount, ...]:
    """Return the sub-accounts in the broker's order. Two may share a `type`, so never index
    by it.
    """
    return tuple(
        SubAccount(entry.id, entry.sub_account_ext, entry.type, entry.name)
        for entry in (decoded(_SubAccount, element) for element in elements(payload))
    )


def encode_sub_accounts(
    accounts: Sequence[SubAccount], *, customer_id: str = ""
) -> list[dict[str, object]]:
    """Return the `result` of the sub-account list."""
    split = ((account, account.extended_id.rpartition(".")) for account in accounts)
    return [
        {
            "id": account.id,
            "cust_id": customer_id,
            "name": account.name,
            "depository_number": depository_number,
            "product_type_name": dot + product,
            "sub_account_ext": account.extended_id,
            "type": account.type,
        }
        for account, (depository_number, dot, product) in split
    ]


def decode_available_trade(payload: Payload) -> AvailableTrade:
    """Return buying power and sellable shares at the price asked for; both are required."""
    return decoded(AvailableTrade, payload)


def encode_available_trade(trade: AvailableTrade) -> dict[str, object]:
    """Return the `result` of available-trade. It has no margin: rates are 0 and null."""
    return {**encoded(AvailableTrade, trade), "marginrate": 0, "mrratioloan": None}


def decode_portfolio(payload: Payload) -> Portfolio:
    """Return the holdings. A symbol listed twice is malformed, as one row would be overlooked."""
    portfolio = decoded(Portfolio, with_lists(payload, ("portfolio",)))
    if len({row.symbol for row in portfolio.rows}) != len(portfolio.rows):
        raise MalformedAnswer(payload.call, "portfolio: a symbol is given twice", payload.raw)
    return portfolio


def encode_portfolio(portfolio: Portfolio) -> dict[str, object]:
    """Return the `data` of the portfolio; profit and loss are at the close price."""
    written: dict[str, Any] = encoded(Portfolio, portfolio)
    for row, fields in zip(portfolio.rows, written["portfolio"], strict=True):
        at_cost = row.total * row.cost_price
        profit = row.total * row.close_price - at_cost
        fields |= {
            "cost_price_amount": at_cost,
            "basic_price_amount": row.total * row.reference_price,
            "pnl_amount": profit,
            "pnl_rate": round(profit * 100 / at_cost, 2) if at_cost else 0,
            "total_pnl": profit,
            "has_newest_news": False,
            "trade": row.available,
        }
    return {"is_snapshot": portfolio.is_snapshot, **written}


def decode_summary(payload: Payload) -> AccountSummary:
    """Return the money of the sub-account. Missing cash is taken as the balance less deposits."""
    summary = decoded(AccountSummary, payload)
    if summary.cash is None and summary.balance is not None:
        return replace(summary, cash=summary.balance - summary.term_deposit)
    return summary


def encode_summary(summary: AccountSummary) -> dict[str, object]:
    """Return the `result` of the summary; fields that the value lacks are 0 or empty.

    `baldefovd` is a text on this call.
    """
    return {
        **encoded(AccountSummary, summary),
        **dict.fromkeys(words.SUMMARY_ZEROS, 0),
        **dict.fromkeys(_SUMMARY_TEXTS, ""),
        "baldefovd": str(summary.withdrawable),
    }
