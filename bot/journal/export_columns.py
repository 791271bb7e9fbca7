"""The columns of an export and what each means: a contract with whoever reads the files."""

from collections.abc import Mapping
from typing import Final

_LISTED: Final[Mapping[str, str]] = {
    "orders": (
        "time id local_id order_id trading_date strategy account side symbol exchange quantity "
        "order_type price executed_quantity executed_amount average_price cancelled_quantity "
        "status state send_state fee tax code reason why"
    ),
    "fills": (
        "time fill_id trading_date order_id intent_id strategy account symbol side quantity price "
        "amount fee tax position realised broker_status"
    ),
    "events": "time kind local_id order_id strategy symbol text detail",
    "decisions": (
        "time strategy symbol verdict code why local_id order_id side quantity order_type price "
        "numbers saw checks"
    ),
}
COLUMNS: Final = {what: tuple(listed.split()) for what, listed in _LISTED.items()}

MEANINGS: Final[Mapping[str, str]] = {
    "account": "the last characters of the sub-account's id; the journal has it whole",
    "amount": "exact money of the fill",
    "average_price": "money per share of what was executed, rounded down",
    "broker_status": "the broker's own word",
    "cancelled_quantity": "shares cancelled",
    "checks": "every check made, as JSON",
    "code": "the broker's, or the check's, code",
    "detail": "raw text or JSON behind the event; secrets are masked",
    "exchange": "where it trades",
    "executed_amount": "exact money executed",
    "executed_quantity": "shares executed",
    "fee": "trading fee",
    "fill_id": "number of the fill",
    "id": "the broker's id of the order, else the local one",
    "intent_id": "local id of the order",
    "kind": "what kind of event",
    "local_id": "local id of the order",
    "numbers": "the figures of the decision, as JSON",
    "order_id": "the broker's id of the order",
    "order_type": "LO is a limit order; else the broker's market price code",
    "position": "the strategy's shares of the symbol after the fill",
    "price": "price per share: of an order its limit, of a fill the average rounded down",
    "quantity": "shares",
    "realised": "result of a sale against the average cost, before fee and tax",
    "reason": "the broker's, or our, reason",
    "saw": "the quote or depth at the moment of the decision, as JSON",
    "send_state": "what is known about the sending",
    "side": "BUY or SELL",
    "state": "our reading of the status",
    "status": "the broker's own word, or BLOCKED (never sent), or UNKNOWN (nobody knows)",
    "strategy": "the strategy's name; empty for an order that is not the bot's",
    "symbol": "what is traded",
    "tax": "tax on a sale",
    "text": "what happened",
    "time": "when, local to the exchange",
    "trading_date": "the trading day",
    "verdict": "what became of the wish",
    "why": "the reason that the strategy gave",
}
