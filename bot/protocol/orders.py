"""Order writes, from both ends: the body that the client sends, and the `result[]` of the answer.

The client is exact and the server strict: numbers in a body are JSON integers, and both price keys
are always sent, one of them null. Answering a body with both prices with 400 is our choice. An
answer may hold a rejection inside HTTP 200, no element, or several, so nothing indexes blindly.
Prices and quantities must be whole; the average execution price is floored; amounts, fee and tax
are rounded half up. Source: broker open API 0.2.0-preview.3, order execution.

The broker's messages and the element itself are kept redacted. An element in the common form is
parsed directly (`read_result`); any other goes through the model.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Annotated, Any, Final, TypeVar

from pydantic import Field, Strict, ValidationError

from bot.domain.account import SubAccount
from bot.domain.order import (
    MARKET_TYPES,
    ORDER_TYPES,
    Intent,
    OrderResult,
    OrderType,
    RowFigures,
    Side,
)
from bot.domain.order_status import settled
from bot.protocol.day_order_book import decode_order_row
from bot.protocol.envelope import SUCCESS_CODE, Payload, is_no_error
from bot.protocol.errors import MalformedAnswer, MalformedRequest
from bot.protocol.fields import (
    FIDELITY,
    ID_MAX,
    Code,
    Floored,
    Id,
    OrderDay,
    Positive,
    PriceOrNone,
    Symbol,
    Text,
    Vnd,
    Whole,
    Wire,
    Word,
    average_of,
    said_of,
    texts_or_none,
    wholes_or_none,
)
from bot.protocol.secret import redact
from bot.protocol.shaped import decoded, validated
from bot.protocol.status import state_of
from bot.protocol.strict_json import INTEGER_MAX, NotJson, compact, parse
from bot.protocol.values.border import AmendRequest, PlaceRequest

_TEXTS: Final = (
    *("order_id", "account_id", "transaction_date", "rejected_reason", "code"),
    *("symbol", "order_side", "market_price", "order_status", "order_type", "lot"),
)
_WHOLES: Final = (
    *("order_quantity", "limit_price", "execute_quantity", "execute_price"),
    *("fee_amount", "tax_amount", "execute_amount"),
)
_NAMES: Final = frozenset({*_TEXTS, *_WHOLES, FIDELITY})
_NOBODY: Final = SubAccount("", "", "")
_NEVER: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SIDES: Final = dict(Side.__members__)


class _OrderResult(Wire):
    """`id` is optional: whether a rejected order has one is not documented."""

    order_id: Id = ""
    account_id: Id
    transaction_date: OrderDay
    symbol: Symbol
    order_side: Word
    order_quantity: Positive
    limit_price: PriceOrNone = None
    market_price: Word = ""
    execute_quantity: Whole = 0
    execute_price: Floored | None = None
    order_status: Word
    fee_amount: Vnd = 0
    tax_amount: Vnd = 0
    execute_amount: Vnd = 0
    order_type: Word
    code: Code = ""
    rejected_reason: Text = ""
    lot: Word = ""


def decode_order_results(payload: Payload) -> tuple[OrderResult, ...]:
    """Return every element. `code` is None when it means no error (null, empty or "0")."""
    if not isinstance(payload.value, list):
        raise MalformedAnswer(payload.call, "not an array", payload.raw)
    results = []
    for value in payload.value:
        found = read_result(value)
        results.append(found or validate_result(Payload(payload.call, value, payload.raw)))
    return tuple(results)


def read_result(value: object) -> OrderResult | None:
    """Return an element in the common form, None for any other element."""
    if type(value) is not dict or not value.keys() <= _NAMES:
        return None
    texts, wholes = texts_or_none(value, _TEXTS), wholes_or_none(value, _WHOLES)
    if texts is None or wholes is None:
        return None
    order_id, account, day, reason, code, *words = texts
    symbol, side, market_price, status, order_type, lot = [word.strip().upper() for word in words]
    quantity, price, executed, average, fee, tax, amount = wholes
    ours = _SIDES.get(side)
    if not (account and symbol and ours and status and order_type and quantity):
        return None
    if quantity < 0 or (price or 0) < 0 or max(len(order_id), len(account)) > ID_MAX:
        return None
    try:
        transaction_date = date.fromisoformat(day)
    except ValueError:
        return None
    executed, amount = _sound(executed or 0, amount or 0, quantity), amount or 0
    return OrderResult(
        order_id=order_id,
        account=account,
        transaction_date=transaction_date,
        symbol=symbol,
        side=ours,
        quantity=quantity,
        limit_price=price or None,
        market_price=market_price or None,
        executed_quantity=executed,
        average_price=average_of(average, amount, executed),
        executed_amount=amount,
        status=status,
        state=settled(
            state_of(status),
            quantity=quantity,
            executed=executed,
            remaining=quantity - executed,
            cancelled=0,  # an answer does not contain a cancelled part
        ),
        order_type=order_type,
        fee=fee or 0,
        tax=tax or 0,
        code=None if code in {"", SUCCESS_CODE} else redact(code),
        reason=redact(reason) if reason else None,
        lot=lot or None,
        raw=redact(compact(value)),
    )


def validate_result(element: Payload) -> OrderResult:
    """Return any element, parsed by its model. Raises MalformedAnswer."""
    found = decoded(_OrderResult, element)
    if found.order_side not in Side.__members__:
        raise MalformedAnswer(element.call, "order_side: neither BUY nor SELL", element.raw)
    executed = _sound(found.execute_quantity, found.execute_amount, found.order_quantity)
    return OrderResult(
        order_id=found.order_id,
        account=found.account_id,
        transaction_date=found.transaction_date,
        symbol=found.symbol,
        side=Side(found.order_side),
        quantity=found.order_quantity,
        limit_price=found.limit_price,
        market_price=found.market_price or None,
        executed_quantity=executed,
        average_price=average_of(found.execute_price, found.execute_amount, executed),
        executed_amount=found.execute_amount,
        status=found.order_status,
        state=settled(
            state_of(found.order_status),
            quantity=found.order_quantity,
            executed=executed,
            remaining=found.order_quantity - executed,
            cancelled=0,
        ),
        order_type=found.order_type,
        fee=found.fee_amount,
        tax=found.tax_amount,
        code=None if is_no_error(found.code) else redact(found.code),
        reason=redact(found.rejected_reason) or None,
        lot=found.lot or None,
        raw=redact(compact(element.value)),
    )


def figures_in(raw: str) -> RowFigures | None:
    """Return the figures of a row of the day order book, or of an answer's element, that was kept
    as text; None if it is neither. Neither account nor request time are among them.
    """
    try:
        kept = Payload("a journalled row", parse(raw.encode()))
        if isinstance(kept.value, dict) and "order_id" in kept.value:
            first = read_result(kept.value) or validate_result(kept)
            executed, amount = first.executed_quantity, first.executed_amount
            return first.status, first.quantity, first.limit_price, executed, 0, amount
        return decode_order_row(kept, account=_NOBODY, requested_at=_NEVER).figures
    except (NotJson, MalformedAnswer):
        return None


def _sound(executed: int, amount: int, quantity: int) -> int:
    """Return the executed shares, or none if their amount is missing: such fills would cost
    nothing.

    The order's row has both values.
    """
    return executed if amount or not 0 < executed <= quantity else 0


def encode_order_results(results: Sequence[OrderResult]) -> list[dict[str, object]]:
    """Return the `result` of an order write."""
    return [encode_order_result(result) for result in results]


def encode_order_result(result: OrderResult) -> dict[str, object]:
    """Return one element, with every field of the document."""
    return {
        "order_id": result.order_id,
        "account_id": result.account,
        "transaction_date": result.transaction_date.isoformat(),
        "symbol": result.symbol,
        "order_side": result.side,
        "order_quantity": result.quantity,
        "limit_price": result.limit_price,
        "market_price": result.market_price,
        "execute_quantity": result.executed_quantity,
        "execute_price": result.average_price,
        "order_status": result.status,
        "fee_amount": result.fee,
        "tax_amount": result.tax,
        "execute_amount": result.executed_amount,
        "order_type": result.order_type,
        "code": result.code,
        "rejected_reason": result.reason,
        "lot": result.lot,
    }


LIMIT: Final = "LIMIT"
MARKET: Final = "MARKET"
STOCK_TYPES: Final = frozenset({"STOCK", "BOND", "FUND_CERTIFICATE", "WARRANT", "ETF"})
_TYPES: Final = frozenset({LIMIT, MARKET})
_MARKET_CODES: Final = frozenset(kind.value for kind in MARKET_TYPES)

_Count = Annotated[int, Strict(), Field(ge=1, le=INTEGER_MAX)]
_Word = Annotated[str, Strict(), Field(min_length=1, max_length=64)]
B = TypeVar("B", bound=Wire)


class _Place(Wire):
    side: _Word
    symbol: _Word
    quantity: _Count
    type: _Word
    sub_account: _Word | None = None
    limit_price: _Count | None = None
    market_price: _Word | None = None
    stock_type: _Word = "STOCK"


class _Amend(Wire):
    quantity: _Count | None = None
    price: _Count | None = None


class _Cancel(Wire):
    sub_account: _Word


def encode_place(intent: Intent, account: SubAccount) -> bytes:
    """Return the body that places `intent`; the account is named by its extended id."""
    is_limit = ORDER_TYPES[intent.order_type].has_price
    assert is_limit == (intent.limit_price is not None), "a price fits the order type"
    body: dict[str, Any] = {
        "sub_account": account.extended_id,
        "side": intent.side,
        "symbol": intent.symbol,
        "quantity": intent.quantity,
        "type": LIMIT if is_limit else MARKET,
        "limit_price": intent.limit_price,
        "market_price": None if is_limit else intent.order_type,
        "stock_type": "STOCK",
    }
    return compact(body).encode()


def encode_amend(*, limit_price: int | None, quantity: int | None) -> bytes:
    """Return the body that changes what is not None: the new total quantity, the new
    limit price.
    """
    assert limit_price is not None or quantity is not None, "an amendment changes something"
    wanted = {"quantity": quantity, "price": limit_price}
    return compact({key: value for key, value in wanted.items() if value is not None}).encode()


def encode_cancel(account: SubAccount) -> bytes:
    """Return the body that cancels an order of `account`."""
    return compact({"sub_account": account.extended_id}).encode()


def decode_place(body: bytes) -> PlaceRequest:
    """Return the order that a client wants placed. Raises MalformedRequest naming the field."""
    found = read_body(_Place, body)
    _one_of("side", found.side, frozenset(_SIDES))
    _one_of("type", found.type, _TYPES)
    _one_of("stock_type", found.stock_type, STOCK_TYPES)
    wanted, unwanted = ("limit_price", "market_price")[:: 1 if found.type == LIMIT else -1]
    if getattr(found, wanted) is None:
        raise MalformedRequest(f"a {found.type} order needs it", wanted)
    if getattr(found, unwanted) is not None:
        raise MalformedRequest(f"a {found.type} order has none", unwanted)
    if found.market_price is not None:
        _one_of("market_price", found.market_price, _MARKET_CODES)
    return PlaceRequest(
        sub_account=found.sub_account,
        side=Side(found.side),
        symbol=found.symbol.upper(),
        quantity=found.quantity,
        order_type=OrderType(found.market_price) if found.market_price else OrderType.LO,
        limit_price=found.limit_price,
        stock_type=found.stock_type,
    )


def _one_of(field: str, word: str, known: frozenset[Any]) -> None:
    if word not in known:
        raise MalformedRequest("not one of " + ", ".join(sorted(known)), field)


def decode_amend(body: bytes) -> AmendRequest:
    """Return the changes that a client wants, at least one. Raises MalformedRequest."""
    found = read_body(_Amend, body)
    if found.quantity is None and found.price is None:
        raise MalformedRequest("neither quantity nor price")
    return AmendRequest(found.quantity, found.price)


def decode_cancel(body: bytes) -> str:
    """Return the extended sub-account in a cancel's body. Raises MalformedRequest."""
    return read_body(_Cancel, body).sub_account


def read_body(model: type[B], body: bytes) -> B:
    """Parse a request body as `model`. Raises MalformedRequest."""
    try:
        return validated(model, parse(body))
    except NotJson as error:
        raise MalformedRequest(str(error)) from error
    except ValidationError as error:
        raise MalformedRequest(said_of(error)) from None
