"""One good value of everything that the protocol reads and writes, for tests to vary."""

from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any, TypeVar

from bot.domain.account import SubAccount
from bot.domain.instrument import Exchange
from bot.domain.order import Intent, OrderReport, OrderResult, OrderState, OrderType, Side
from bot.protocol.endpoints.endpoint import Endpoint
from bot.protocol.envelope import Answer, Payload, seal, seal_error

T = TypeVar("T", OrderReport, OrderResult)

TODAY = date(2026, 8, 21)
NOW = datetime(2026, 8, 21, 2, 20, 15, tzinfo=UTC)
ACCOUNT = SubAccount("0001234567", "120C000008.1", "Normal", "NGUYEN VAN A")

INTENT = Intent(
    intent_id="L-0001",
    signal_id="S-1",
    strategy="demo",
    account="120C000008.1",
    trading_date=TODAY,
    symbol="HPG",
    exchange=Exchange.HOSE,
    side=Side.BUY,
    quantity=300,
    order_type=OrderType.LO,
    limit_price=25_500,
    why="because",
    created_at=NOW,
    ttl_at=NOW,
)

# The two examples below were made for the description of the broker open API 0.2.0-preview.3.
RESULT_JSON: dict[str, Any] = {
    "order_id": "ORD700001",
    "account_id": "120C000008.1",
    "transaction_date": "2026-08-21",
    "symbol": "HPG",
    "order_side": "BUY",
    "order_quantity": 300,
    "limit_price": 25500,
    "market_price": None,
    "execute_quantity": 0,
    "execute_price": 0,
    "order_status": "SENT",
    "fee_amount": 0,
    "tax_amount": 0,
    "execute_amount": 0,
    "order_type": "LO",
    "code": None,
    "rejected_reason": None,
    "lot": "EVEN",
}

ROW_JSON: dict[str, Any] = {
    "orderid": "ORD700001",
    "rootorderid": "ORD700001",
    "odorderid": "0007",
    "txdate": "2026-08-21",
    "txtime": "09:20:11",
    "odtimestamp": "2026-08-21T09:20:11",
    "symbol": "HPG",
    "side": "BUY",
    "side_": "BUY",
    "side_code": "NB",
    "price": 25500,
    "limitprice": 25500,
    "pricetype": "LO",
    "qtty": 300,
    "quoteqtty": 0,
    "execqtty": 100,
    "execprice": 25500,
    "execamt": 2550000,
    "remainqtty": 200,
    "remainamt": 5100000,
    "cancelqtty": 0,
    "adjustqtty": 0,
    "status": "SENT",
    "status_": "SENT",
    "status_code": "02",
    "allowcancel": "Y",
    "allowamend": "Y",
    "feedbackmsg": "",
    "hosesession": "PROGRESS",
    "matchtype_code": "",
    "matchtype_": "",
    "timetype": "0",
    "timetypevalue": "",
    "isdisposal": "N",
    "via": "Web",
    "via_": "Web",
    "via_code": "WEB",
    "tlname": "",
    "username": "",
    "custodycd": "120C000008",
    "custid": "0001234500",
    "afacctno": "0001234567",
    "afacctno_ext": "120C000008.1",
    "producttypename": "STOCK",
    "strategy_id": None,
}

RESULT = OrderResult(
    order_id="ORD700001",
    account="120C000008.1",
    transaction_date=TODAY,
    symbol="HPG",
    side=Side.BUY,
    quantity=300,
    limit_price=25_500,
    market_price=None,
    executed_quantity=0,
    average_price=0,
    executed_amount=0,
    status="SENT",
    state=OrderState.ACCEPTED,
    order_type="LO",
    fee=0,
    tax=0,
    code=None,
    reason=None,
    lot="EVEN",
    raw="",
)

REPORT = OrderReport(
    order_id="ORD700001",
    root_order_id="ORD700001",
    account="120C000008.1",
    trading_date=TODAY,
    symbol="HPG",
    side=Side.BUY,
    quantity=300,
    order_type="LO",
    price=25_500,
    executed_quantity=100,
    average_price=25_500,
    executed_amount=2_550_000,
    remaining_quantity=200,
    cancelled_quantity=0,
    status="SENT",
    state=OrderState.ACCEPTED,
    may_cancel=True,
    may_amend=True,
    placed_at=datetime(2026, 8, 21, 2, 20, 11, tzinfo=UTC),
    message="",
    requested_at=NOW,
    raw="",
)


def sealed(endpoint: Endpoint, payload: object) -> Answer:
    """The answer of a success, as the sandbox sends it."""
    return Answer(200, {}, seal(endpoint, payload))


def refused(http_status: int, error_code: str, message: str = "no", **headers: str) -> Answer:
    """An answer with the API's own error body; `x_y` names the header `x-y`."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(http_status, named, seal_error(error_code, message))


def payload(value: object) -> Payload:
    """An opened payload of some call."""
    return Payload("some_call", value, b"raw body")


def without_raw(value: T) -> T:
    """The value with its raw text left out of the comparison."""
    return replace(value, raw="")
