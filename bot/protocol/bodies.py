"""The bodies of order writes: made by the client, read by the sandbox.

The client is exact and the server strict: numbers are JSON integers. Both price keys are always
sent, one of them null. Source: broker open API 0.2.0-preview.3, order execution. That a body
with both prices is 400 is our choice.
"""

from typing import Annotated, Any, Final, TypeVar

from pydantic import Field, Strict, ValidationError

from bot.domain.account import SubAccount
from bot.domain.order import MARKET_TYPES, ORDER_TYPES, Intent, OrderType, Side
from bot.protocol.errors import MalformedRequest
from bot.protocol.fields import Wire, said_of
from bot.protocol.shaped import validated
from bot.protocol.strict_json import INTEGER_MAX, NotJson, compact, parse
from bot.protocol.values.border import AmendRequest, PlaceRequest

LIMIT: Final = "LIMIT"
MARKET: Final = "MARKET"
STOCK_TYPES: Final = frozenset({"STOCK", "BOND", "FUND_CERTIFICATE", "WARRANT", "ETF"})
_TYPES: Final = frozenset({LIMIT, MARKET})
_SIDES: Final = frozenset(Side)
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


def encode_place(intent: Intent, account: SubAccount, *, stock_type: str = "STOCK") -> bytes:
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
        "stock_type": stock_type,
    }
    return compact(body).encode()


def encode_amend(*, limit_price: int | None, quantity: int | None) -> bytes:
    """Return the body that changes what is not None: new total quantity, new limit price."""
    assert limit_price is not None or quantity is not None, "an amendment changes something"
    wanted = {"quantity": quantity, "price": limit_price}
    return compact({key: value for key, value in wanted.items() if value is not None}).encode()


def encode_cancel(account: SubAccount) -> bytes:
    """Return the body that cancels an order of `account`."""
    return compact({"sub_account": account.extended_id}).encode()


def decode_place(body: bytes) -> PlaceRequest:
    """Return what a client wants placed. Raises MalformedRequest naming the field."""
    found = read_body(_Place, body)
    _one_of("side", found.side, _SIDES)
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
    """Return what a client wants changed: at least one of the two. Raises MalformedRequest."""
    found = read_body(_Amend, body)
    if found.quantity is None and found.price is None:
        raise MalformedRequest("neither quantity nor price")
    return AmendRequest(found.quantity, found.price)


def decode_cancel(body: bytes) -> str:
    """Return the extended sub-account that a cancel names. Raises MalformedRequest."""
    return read_body(_Cancel, body).sub_account


def read_body(model: type[B], body: bytes) -> B:
    """Return a request body as `model`. Raises MalformedRequest."""
    try:
        return validated(model, parse(body))
    except NotJson as error:
        raise MalformedRequest(str(error)) from error
    except ValidationError as error:
        raise MalformedRequest(said_of(error)) from None
