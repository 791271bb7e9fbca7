"""Classifies the answer to an order write, purely, with one table per verb.

In every cell REFUSED and NOT_SENT are returned only when certain; everything else is UNKNOWN, which
the day order book settles. A cancel or an amendment is always settled by a row, so its outcome here
is preliminary. Source of the codes: broker open API 0.2.0-preview.3, OTP exchange and errors; the
tables are ours.
"""

import re
from collections.abc import Container
from dataclasses import dataclass, replace
from datetime import UTC, date
from email.utils import parsedate_to_datetime
from typing import Final

from bot.domain.account import SubAccount
from bot.domain.order import ORDER_TYPES, Intent, OrderResult, is_echo
from bot.domain.outcome import Accepted, NotSent, Outcome, Refused, Resolution, Unknown
from bot.protocol.accounts import decode_user
from bot.protocol.endpoints.endpoint import Endpoint
from bot.protocol.endpoints.trading import AMEND_ORDER, CANCEL_ORDER, PLACE_ORDER, USER
from bot.protocol.envelope import (
    SUCCESS_CODE,
    Answer,
    NoAnswer,
    is_from_cache,
    open_envelope,
    rate_limit_reset,
    read_error_body,
)
from bot.protocol.errors import ProtocolError
from bot.protocol.orders import decode_order_results
from bot.protocol.secret import redact
from bot.protocol.status import REJECTED_STATUSES

NONCE_REUSED: Final = "AUTH_NONCE_REUSED"
PARTLY_AMENDED: Final = "-701111"
"""The code of a modify that changed only the unmatched part: applied, not refused."""

_CERTAIN_STATUSES: Final = frozenset({400, 401, 403, 404, 405, 409, 422, 429})
"""With the API's own error body, these statuses mean that nothing was executed."""

_ORDER_ID: Final = re.compile(r"ORD[0-9]+", re.ASCII)
_RETRY_S_MAX: Final = 3_600.0


@dataclass(frozen=True, slots=True)
class BurnVerdict:
    """What one use of an unknown POST's nonce showed; if inconclusive, try again."""

    resolution: Resolution
    is_conclusive: bool
    detail: str


# -------------------------------------------------------------------------------------- place


def classify_place(
    intent: Intent,
    answer: Answer | NoAnswer,
    *,
    today: date,
    known_ids: Container[str],
    account: SubAccount,
) -> Outcome:
    """Return what is known about the intent's single POST.

    `known_ids` are the order ids of the day order book before the send, and those of our other
    orders since: an answer that names one of them is about another order. A rejected order need not
    have an id: what fills its place (0, N/A) is left out, as the next rejection may have it too.
    `today` is the trading date in market time.
    """

    result = _result_or_outcome(PLACE_ORDER, answer)
    if not isinstance(result, OrderResult):
        return result
    if differs := _first_difference(intent, result, today=today, account=account):
        return Unknown(f"the answer's {differs} is not what was sent", 200)
    if result.order_id in known_ids:
        return Unknown("the answer names an order that was known before", 200)
    has_id = _ORDER_ID.fullmatch(result.order_id) is not None
    if result.status in REJECTED_STATUSES:
        return _rejection(result if has_id else replace(result, order_id=""))
    if result.code is not None:
        said = f"code {result.code} under the status {redact(result.status)}"
        return Unknown(said, 200)
    if not has_id:
        return Unknown("the answer's order id has an unknown form", 200)
    return Accepted(result)


def _first_difference(
    intent: Intent, result: OrderResult, *, today: date, account: SubAccount
) -> str | None:
    """Return the name of the first field that does not echo what was sent.

    `market_price` comes back as sent or is omitted.
    """
    if result.account != account.extended_id:
        return "account"
    if result.symbol != intent.symbol:
        return "symbol"
    if result.side is not intent.side:
        return "side"
    if result.quantity != intent.quantity:
        return "quantity"
    if result.limit_price != intent.limit_price:
        return "price"
    if not is_echo(intent.exchange, intent.order_type, result.order_type):
        return "order type"
    if (echoed := result.market_price) is not None and (
        ORDER_TYPES[intent.order_type].has_price
        or not is_echo(intent.exchange, intent.order_type, echoed)
    ):
        return "market price"
    return None if result.transaction_date == today else "date"


def _rejection(result: OrderResult) -> Refused:
    code = result.code or result.status
    return Refused(code, result.reason or result.status, 200, result)


# --------------------------------------------------------------------------- cancel and amend


def classify_cancel(order_id: str, answer: Answer | NoAnswer) -> Outcome:
    """Return what is known about a DELETE: a code inside a 200 means that the order
    is unchanged.
    """
    return _classify_change(CANCEL_ORDER, order_id, answer, {None})


def classify_amend(order_id: str, answer: Answer | NoAnswer) -> Outcome:
    """Return what is known about a PUT: as for a DELETE, but -701111 means done for the open part.

    A result under another id is UNKNOWN: a broker that gives an amended order a new id shows it in
    the day order book, with the old one as its root.
    """
    return _classify_change(AMEND_ORDER, order_id, answer, {None, PARTLY_AMENDED})


def _classify_change(
    endpoint: Endpoint, order_id: str, answer: Answer | NoAnswer, done_codes: set[str | None]
) -> Outcome:
    result = _result_or_outcome(endpoint, answer)
    if not isinstance(result, OrderResult):
        return result
    if result.order_id != order_id:
        return Unknown("the answer is about another order", 200, result)
    if result.status in REJECTED_STATUSES or result.code not in done_codes:
        return _rejection(result)
    return Accepted(result)


# ----------------------------------------------------------------------------------- shared


def _result_or_outcome(endpoint: Endpoint, answer: Answer | NoAnswer) -> OrderResult | Outcome:
    """Return the one result of a 200, else what the answer (or its absence) means for any verb."""
    if isinstance(answer, NoAnswer):
        reason = redact(answer.reason)
        return Unknown(reason) if answer.is_sent else NotSent(reason)
    if answer.http_status != 200:
        return _judge_status(answer)
    try:
        results = decode_order_results(open_envelope(endpoint, answer))
    except ProtocolError as error:
        return Unknown(str(error), answer.http_status)
    if len(results) != 1:
        return Unknown(f"{len(results)} results where one was expected", 200)
    return results[0]


def _judge_status(answer: Answer) -> Outcome:
    """Judge an answer other than 200. Without the API's own error body nothing is certain."""
    status, error = answer.http_status, read_error_body(answer.body)
    if status not in _CERTAIN_STATUSES:
        return Unknown(f"HTTP {status}", status)
    if error is None:
        return Unknown(f"HTTP {status} without an error body", status)
    if status == 401 and error.error_code == NONCE_REUSED:
        return Unknown("a copy of the request got there first", status)
    return Refused(
        code=redact(error.error_code),
        reason=redact(error.message) or f"HTTP {status}",
        http_status=status,
        retry_after_s=_retry_after_s(answer) if status == 429 else None,
        is_of_old_token=answer.is_of_old_token,
    )


def _retry_after_s(answer: Answer) -> float | None:
    """Seconds from the answer's own `Date` to its `X-RateLimit-Reset`: no clock is needed."""
    reset = rate_limit_reset(answer)
    try:
        sent_at = parsedate_to_datetime(answer.headers["date"])
        sent_at = sent_at.astimezone(UTC) if sent_at.tzinfo else sent_at.replace(tzinfo=UTC)
    except (KeyError, ValueError, OverflowError):
        return None
    if reset is None:
        return None
    return min(max((reset - sent_at).total_seconds(), 0.0), _RETRY_S_MAX)


# --------------------------------------------------------------------------------------- burn


def classify_burn(answer: Answer | NoAnswer) -> BurnVerdict:
    """Return what a harmless read, signed with the nonce of an unknown POST, proved.

    FRESH needs the whole proof: 200, error_code exactly "0", and a user in the answer. A 401
    AUTH_NONCE_REUSED is REACHED: the POST, or an earlier burn, used the nonce. What a cache answers
    was never asked with this nonce. The caller must still check that the answer came within 270
    seconds of signing.
    """
    if isinstance(answer, NoAnswer):
        return _inconclusive(redact(answer.reason))
    if is_from_cache(answer.headers):
        return _inconclusive("the answer comes from a cache")
    error = read_error_body(answer.body)
    if answer.http_status == 401 and error is not None and error.error_code == NONCE_REUSED:
        return BurnVerdict(Resolution.REACHED, True, "the nonce had been used")
    try:
        payload = open_envelope(USER, answer)
        decode_user(payload)
    except ProtocolError as refusal:
        return _inconclusive(str(refusal))
    if payload.error_code != SUCCESS_CODE:
        return _inconclusive("a 200 without error_code 0")
    return BurnVerdict(Resolution.FRESH, True, "the nonce was unused: the order can never arrive")


def _inconclusive(detail: str) -> BurnVerdict:
    return BurnVerdict(Resolution.REACHED, False, detail)
