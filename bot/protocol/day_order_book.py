"""The rows of the broker's day order book, which the code calls today's orders.

The document requires no field of a row, but the bot needs id, symbol, side, quantity and the
executed part. A row without these, or with nonsense in another field, is set aside rather than
ignored: the reader of the book gets its reason, and the id and symbol that it does name. Times are
Vietnam local without an offset. Impossible quantities are passed on: the code that counts fills
halts on them. Source: broker open API 0.2.0-preview.3, order-book row and 5.2.

A row in the common form is parsed directly (`read_row`); any other goes through the model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import ROUND_FLOOR, Decimal
from functools import lru_cache
from typing import Final

from bot.domain.account import SubAccount
from bot.domain.instrument import EXCHANGE_TZ, Phase
from bot.domain.local_time import local_date
from bot.domain.order import OrderReport, Side, TodaysOrders, UnreadRow
from bot.domain.order_status import shown_state
from bot.protocol.envelope import ROWS_MAX, Payload
from bot.protocol.errors import MalformedAnswer
from bot.protocol.fields import (
    FIDELITY,
    ID_MAX,
    YEARS,
    Code,
    Flag,
    Floored,
    Id,
    NamedId,
    PriceOrNone,
    Symbol,
    Text,
    Vnd,
    Whole,
    Wire,
    Word,
    average_of,
    local_instant,
    texts_or_none,
    wholes_or_none,
)
from bot.protocol.secret import redact
from bot.protocol.shaped import decoded
from bot.protocol.status import REJECTED_STATUSES, STATUS_OF_CODE, state_of, status_code_of
from bot.protocol.strict_json import INTEGER_MAX, compact

_TEXTS: Final = (
    *("orderid", "symbol", "rootorderid", "txdate", "txtime", "odtimestamp", "side", "side_code"),
    *("pricetype", "status", "status_code", "allowcancel", "allowamend", "feedbackmsg"),
    *("afacctno", "afacctno_ext"),
)
_WHOLES: Final = (
    *("qtty", "price", "limitprice", "execqtty", "execamt", "remainqtty", "cancelqtty"),
)
_UNREAD: Final = (
    *("odorderid", "side_", "quoteqtty", "remainamt", "adjustqtty", "status_", "hosesession"),
    *("matchtype_code", "matchtype_", "timetype", "timetypevalue", "isdisposal", "via", "via_"),
    *("via_code", "tlname", "username", "custodycd", "custid", "producttypename", "strategy_id"),
)
_NAMES: Final = frozenset({*_TEXTS, *_WHOLES, "execprice", *_UNREAD, FIDELITY})
_YES: Final = frozenset({"y", "1", "true"})
_REMEMBERED_MAX: Final = 4_096
"""Longest row, in characters, whose redacted form is cached; a broker's row has about
a thousand.
"""

_SIDE_OF_WORD: Final[Mapping[str, Side]] = {
    "BUY": Side.BUY,
    "SELL": Side.SELL,
    "NB": Side.BUY,
    "NS": Side.SELL,
    "AB": Side.BUY,
    "AS": Side.SELL,
    "CB": Side.BUY,
    "CS": Side.SELL,
}
"""`side`, and the raw `side_code` where `side` is missing: N new, A amend, C cancel."""

_CANCELS: Final = frozenset({"CB", "CS"})
_NO_SHARES: Final = (None, "", "0", 0)

_CODE_OF_SIDE: Final[Mapping[Side, str]] = {Side.BUY: "NB", Side.SELL: "NS"}
_LETTER: Final[Mapping[bool | None, str]] = {True: "Y", False: "N", None: ""}


class _Row(Wire):
    orderid: NamedId
    symbol: Symbol
    qtty: Whole
    rootorderid: Id = ""
    txdate: Text = ""
    txtime: Text = ""
    odtimestamp: Text = ""
    side: Word = ""
    side_code: Word = ""
    price: PriceOrNone = None
    limitprice: PriceOrNone = None
    pricetype: Word = ""
    execqtty: Whole | None = None
    execprice: Floored | None = None
    execamt: Vnd | None = None
    remainqtty: Whole | None = None
    cancelqtty: Whole = 0
    status: Word = ""
    status_code: Code = ""
    allowcancel: Flag = None
    allowamend: Flag = None
    feedbackmsg: Text = ""
    afacctno: Id = ""
    afacctno_ext: Id = ""


def decode_todays_orders(
    payload: Payload, *, account: SubAccount, requested_at: datetime
) -> TodaysOrders:
    """Return the day order book of `account`, requested at `requested_at` (market time).

    A row that is no order but the request to cancel another one is left out. One to amend can't be
    told from an amended order under its new id, and is a row like any other.
    """
    rows = payload.value
    if not isinstance(rows, list):
        raise MalformedAnswer(payload.call, "not an array", payload.raw)
    if len(rows) > ROWS_MAX:
        wanted = f"wanted at most {ROWS_MAX:,} rows, found {len(rows):,}"
        raise MalformedAnswer(payload.call, wanted, payload.raw)
    reports, set_aside = [], []
    for row in rows:
        if _is_request_to_cancel(row):
            continue
        alone = Payload(payload.call, row)
        try:
            reports.append(decode_order_row(alone, account=account, requested_at=requested_at))
        except MalformedAnswer as error:
            names = row if isinstance(row, dict) else {}
            order_id, symbol = names.get("orderid"), names.get("symbol")
            set_aside.append(
                UnreadRow(
                    order_id=order_id if _is_id(order_id) else None,
                    symbol=symbol.strip().upper() or None if isinstance(symbol, str) else None,
                    reason=error.reason,
                    raw=_redacted(compact(row)),
                )
            )
    return TodaysOrders(tuple(reports), tuple(set_aside))


def _is_request_to_cancel(row: object) -> bool:
    """Return whether a row names another one as its root and cancels it. What has executed shares
    is an order, whatever its code says.
    """
    if not isinstance(row, dict) or row.get("execqtty") not in _NO_SHARES:
        return False
    code, root = row.get("side_code"), row.get("rootorderid")
    is_cancel = isinstance(code, str) and code.strip().upper() in _CANCELS
    return is_cancel and root not in (None, "", row.get("orderid"))


def decode_order_row(
    payload: Payload, *, account: SubAccount, requested_at: datetime
) -> OrderReport:
    """Return one row. Its account is the requested one, unless the row names another."""
    found = read_row(payload.value, account=account, requested_at=requested_at)
    return found or validate_row(payload, account=account, requested_at=requested_at)


def read_row(value: object, *, account: SubAccount, requested_at: datetime) -> OrderReport | None:
    """Return a row in the common form, None for any other row."""
    if type(value) is not dict or not value.keys() <= _NAMES:
        return None
    texts, wholes = texts_or_none(value, _TEXTS), wholes_or_none(value, _WHOLES)
    if texts is None or wholes is None:
        return None
    order_id, symbol, root, day, time, stamp, side_word, side_code, *words = texts
    order_type, status, code, cancel, amend, message, afacctno, extended = words
    quantity, price, limit, executed, amount, remaining, cancelled = wholes
    average, symbol, cancelled = value.get("execprice"), symbol.strip().upper(), cancelled or 0
    if type(average) is Decimal:
        average = int(average.to_integral_value(ROUND_FLOOR))
    status = status.strip().upper() or STATUS_OF_CODE.get(code, "")
    side = _SIDE_OF_WORD.get(side_word.strip().upper()) or _SIDE_OF_WORD.get(
        side_code.strip().upper()
    )
    if executed is None and quantity is not None:
        is_clear = (remaining or 0) + cancelled == quantity or status in REJECTED_STATUSES
        executed = 0 if is_clear else None
    if (
        not (order_id.strip() and symbol and side)
        or max(map(len, (order_id, root, afacctno, extended))) > ID_MAX
        or quantity is None
        or executed is None
        or (0 < executed <= quantity and not amount)
        or (price or 0) < 0
        or (limit or 0) < 0
        or not (average is None or (type(average) is int and abs(average) <= INTEGER_MAX))
    ):
        return None
    placed_on, amount = _day_or_none(day), amount or 0
    return OrderReport(
        order_id=order_id,
        root_order_id=root or order_id,
        account=account.extended_id if afacctno in {"", account.id} else extended or afacctno,
        trading_date=placed_on or _day_or_none(stamp[:10]) or local_date(requested_at),
        symbol=symbol,
        side=side,
        quantity=quantity,
        order_type=order_type.strip().upper(),
        price=price or limit or None,
        executed_quantity=executed,
        average_price=average_of(average, amount, executed),
        executed_amount=amount,
        remaining_quantity=quantity - executed - cancelled if remaining is None else remaining,
        cancelled_quantity=cancelled,
        status=status,
        state=state_of(status),
        may_cancel=cancel.strip().lower() in _YES if cancel else None,
        may_amend=amend.strip().lower() in _YES if amend else None,
        placed_at=local_instant(placed_on, time, stamp),
        message=redact(message) if message else "",
        requested_at=requested_at,
        raw=_redacted(compact(value)),
    )


def validate_row(payload: Payload, *, account: SubAccount, requested_at: datetime) -> OrderReport:
    """Return any row, parsed by its model. Raises MalformedAnswer."""
    row = decoded(_Row, payload)
    status = row.status or STATUS_OF_CODE.get(row.status_code, "")
    side = _SIDE_OF_WORD.get(row.side) or _SIDE_OF_WORD.get(row.side_code)
    if side is None:
        raise MalformedAnswer(payload.call, "side: neither BUY nor SELL", payload.raw)
    executed, amount = _executed(row, status, payload)
    remaining = row.remainqtty
    if remaining is None:
        remaining = row.qtty - executed - row.cancelqtty
    # Compare `afacctno`: `afacctno_ext` comes in two forms.
    is_ours = row.afacctno in {"", account.id}
    return OrderReport(
        order_id=row.orderid,
        root_order_id=row.rootorderid or row.orderid,
        account=account.extended_id if is_ours else row.afacctno_ext or row.afacctno,
        # The list covers the current day only: a row without a date belongs to the request's day.
        trading_date=_day_or_none(row.txdate)
        or _day_or_none(row.odtimestamp[:10])
        or local_date(requested_at),
        symbol=row.symbol,
        side=side,
        quantity=row.qtty,
        order_type=row.pricetype,
        price=row.price or row.limitprice,
        executed_quantity=executed,
        average_price=average_of(row.execprice, amount, executed),
        executed_amount=amount,
        remaining_quantity=remaining,
        cancelled_quantity=row.cancelqtty,
        status=status,
        state=state_of(status),
        may_cancel=row.allowcancel,
        may_amend=row.allowamend,
        placed_at=local_instant(_day_or_none(row.txdate), row.txtime, row.odtimestamp),
        message=redact(row.feedbackmsg),
        requested_at=requested_at,
        raw=_redacted(compact(payload.value)),
    )


def _is_id(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip()) and len(value) <= ID_MAX


def _redacted(row: str) -> str:
    """Redact a row; cached, as the book is read again and again and most rows do not change."""
    return _remembered(row) if len(row) <= _REMEMBERED_MAX else redact(row)


_remembered: Final = lru_cache(maxsize=ROWS_MAX)(redact)


def _executed(row: _Row, status: str, payload: Payload) -> tuple[int, int]:
    """Return executed shares and their amount. A missing value is not zero.

    Without `execqtty`, nothing was executed only if the remaining quantity is the whole order or
    the order was rejected. Executed shares without an amount would become fills that cost nothing.
    """
    executed = row.execqtty
    if executed is None:
        rest = (row.remainqtty or 0) + row.cancelqtty
        if rest != row.qtty and status not in REJECTED_STATUSES:
            reason = "execqtty: left out, and no other field says how many shares were executed"
            raise MalformedAnswer(payload.call, reason, payload.raw)
        executed = 0
    if 0 < executed <= row.qtty and not row.execamt:
        reason = f"execamt: wanted what {executed:,} executed shares came to; found nothing"
        raise MalformedAnswer(payload.call, reason, payload.raw)
    return executed, row.execamt or 0


def _day_or_none(text: str) -> date | None:
    try:
        found = date.fromisoformat(text)
    except ValueError:
        return None
    return found if found.year in YEARS else None


@dataclass(frozen=True, slots=True)
class RowDetail:
    """Fields of a row beyond the report: who owns the order and how it came in."""

    sub_account_id: str = ""
    customer_id: str = ""
    core_number: str = ""
    phase: Phase | None = None
    via: str = "Web"
    adjusted_quantity: int = 0


def encode_todays_orders(rows: Sequence[tuple[OrderReport, RowDetail]]) -> list[dict[str, object]]:
    """Return the `result` of the day order book."""
    return [encode_order_row(report, detail) for report, detail in rows]


def encode_order_row(report: OrderReport, detail: RowDetail) -> dict[str, object]:
    """Return one row with every key of the document. `status_code` is derived from
    the quantities.
    """
    local = report.placed_at.astimezone(EXCHANGE_TZ) if report.placed_at else None
    return {
        "orderid": report.order_id,
        "rootorderid": report.root_order_id,
        "odorderid": detail.core_number,
        "txdate": report.trading_date.isoformat(),
        "txtime": local.strftime("%H:%M:%S") if local else "",
        "odtimestamp": local.strftime("%Y-%m-%dT%H:%M:%S") if local else "",
        "symbol": report.symbol,
        "side": report.side,
        "side_": report.side,
        "side_code": _CODE_OF_SIDE[report.side],
        "price": report.price or 0,
        "limitprice": report.price or 0,
        "pricetype": report.order_type,
        "qtty": report.quantity,
        "quoteqtty": 0,
        "execqtty": report.executed_quantity,
        "execprice": report.average_price,
        "execamt": report.executed_amount,
        "remainqtty": report.remaining_quantity,
        "remainamt": report.remaining_quantity * (report.price or 0),
        "cancelqtty": report.cancelled_quantity,
        "adjustqtty": detail.adjusted_quantity,
        "status": report.status,
        "status_": report.status,
        "status_code": status_code_of(shown_state(report)),
        "allowcancel": _LETTER[report.may_cancel],
        "allowamend": _LETTER[report.may_amend],
        "feedbackmsg": report.message,
        "hosesession": detail.phase or "",
        "matchtype_code": "",
        "matchtype_": "",
        "timetype": "0",
        "timetypevalue": "",
        "isdisposal": "N",
        "via": detail.via,
        "via_": detail.via,
        "via_code": detail.via.upper(),
        "tlname": "",
        "username": "",
        "custodycd": report.account.rpartition(".")[0],
        "custid": detail.customer_id,
        "afacctno": detail.sub_account_id,
        "afacctno_ext": report.account,
        "producttypename": "STOCK",
        "strategy_id": None,
    }
