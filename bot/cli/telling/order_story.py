"""The lines of `bot order ID --timeline`: what happened to one order, in words. Pure.

A trader sees one line per event; `--raw` shows every row as in the journal, including state
machines, requests and answers.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from bot.cli.telling.orders import CHECKS_SHOWN, VERDICT
from bot.cli.telling.wording import folded, rejection_words
from bot.domain.local_time import millis_of
from bot.domain.order import OrderState, SendState, type_word
from bot.domain.scripted import split
from bot.journal.reading.values import OrderRow, TimelineRow

Words = tuple[str, str]
"""A word for the event, and the rest of the line."""

_INDENT: Final = " " * 8
_TEXT_AT: Final = 33
"""The column at which the text begins, after `+0.000 09:16:00.102 decided `."""
_STATUS: Final = ("status", "order_status")
_EXECUTED: Final = ("execqtty", "execute_quantity")
_PRICE: Final = ("execprice", "execute_price")
_REASON: Final = ("feedbackmsg", "rejected_reason")
"""The field's names in a row of the day order book and in an order result. Source: broker open API
0.2.0-preview.3, day order book and order execution.
"""
_ORDER_ID: Final = ("orderid", "order_id")
_LIMIT_ORDER: Final = re.compile(r"\bLO\b")
_PART: Final = " · "
"""Separates the parts of a row's text."""
_ARROW: Final = " → "
_AMEND: Final = "amend "
_FIRST_CHECKS: Final = {"AMEND_ENABLED": "change", "ROW_READ": "change", "OPEN_ORDER": "cancel"}
"""By its first check, what was asked. Of a change that is that changes are on, or that the order's
row came in time; a cancel has no other check.
"""
_WRITES: Final = {"POST": "the order", "PUT": "a change", "DELETE": "a cancel"}
_SENDING: Final[Mapping[SendState, Words]] = {
    **dict.fromkeys((SendState.DENIED, SendState.READY, SendState.SENDING), ("", "")),
    **dict.fromkeys((SendState.ACKED, SendState.REFUSED, SendState.HELD), ("", "")),
    SendState.EXPIRED_LOCAL: ("ended", "not sent"),
    SendState.NOT_SENT: ("ended", "not sent"),
    SendState.UNKNOWN: ("unknown", "not sent again; the day order book will tell"),
    SendState.FRESH: ("unknown", "it did not arrive, as far as we know"),
    SendState.REACHED: ("unknown", "it may have arrived"),
    SendState.AMBIGUOUS: ("unknown", "more than one order could be ours"),
    SendState.MATCHED: ("settled", ""),
    SendState.NOT_PLACED: ("settled", "never placed"),
    SendState.EOD_ABSENT: ("settled", "never placed: the day ended without it"),
}
_MOVED: Final[Mapping[OrderState, str]] = {
    **dict.fromkeys(OrderState, ""),
    OrderState.CANCELLED: "cancelled",
    OrderState.EXPIRED: "lapsed at the close",
    OrderState.REJECTED: "rejected by the broker",
}


def story(events: Sequence[TimelineRow], order: OrderRow, *, limit: int) -> Iterator[str]:
    """Each event on a line, folded if it is wider than `limit`."""
    answer, ids = "", {order.order_id}
    asks = {row.seq: _asked(row) for row in events if row.kind == "checked"}
    for row in events:
        words = _renamed(row, ids) or _words(row, order, answer)
        if words is not None and row.word == "BLOCKED" and row.kind == "decided":
            # its code is the refusing check's, where an accepted one has AMEND or CANCEL
            words = _refused(row, words, asks.get(row.seq, ""))
        if row.kind == "answered":
            answer = row.text
        if words is not None:
            yield from folded(_line(row, words), indent=_TEXT_AT, limit=limit)


def raw_story(events: Sequence[TimelineRow]) -> Iterator[str]:
    """Every row in full, each with its JSON or text."""
    for row in events:
        parsed, detail = _parsed(row.detail), ""
        if row.detail and row.kind == "checked":
            detail = _checks(parsed)
        elif isinstance(parsed, Mapping) and row.kind in {"polled", "result"}:
            parts = (_first(parsed, _STATUS), _executed(parsed), _first(parsed, ("code",)))
            why = (_first(parsed, _REASON), _first(parsed, ("fidelity",)))
            detail = ", ".join(filter(None, (*parts, *why)))
        yield _line(row, (row.kind, f"{row.text}{_PART}{detail}" if detail else row.text))
        lines = (row.detail or "").splitlines()
        if parsed is not None:
            lines = json.dumps(parsed, indent=1, ensure_ascii=False).splitlines()
        yield from (f"{_INDENT}{line}" for line in lines)


def _line(row: TimelineRow, words: Words) -> str:
    offset = f"+{row.offset_s:.3f}" if row.offset_s < 10 else f"+{row.offset_s:.1f}"
    return f"{offset:<8} {millis_of(row.at)}  {words[0]:<9} {words[1]}"


def _renamed(row: TimelineRow, ids: set[str | None]) -> Words | None:
    """Follow an amendment that gave the order another id, which its rows have from then on."""
    parsed = _parsed(row.detail) if row.kind == "polled" else None
    own = _first(parsed, _ORDER_ID) if isinstance(parsed, Mapping) else ""
    if not own or own in ids:
        return None
    ids.add(own)
    return "renamed", f"continues at the broker as {own}"


def _words(row: TimelineRow, order: OrderRow, answer: str) -> Words | None:
    """Describe a row; None if another row says the same, as the last `answer` may."""
    match row.kind:
        case "decided":
            return _decided(row)
        case "checked":
            numbers = _checks(_parsed(row.detail))
            result, has_passed, _ = row.text.partition(", check ")[0].partition(" of ")
            head = f"{result} checks ok" if has_passed else result
            return "checked", f"{head}: {numbers}" if numbers else head
        case "recorded":
            _, is_following, before = row.text.partition(f"{_PART}follows ")
            return ("follows", f"{before}, which waited for 2FA") if is_following else None
        case "sent":
            return "sent", f"{_WRITES[row.word or 'POST']} to the broker"
        case "answered":
            return _answered(row, order)
        case "result" | "polled":  # how a paper broker came to a fill; a real one's is in the fill
            parsed = _parsed(row.detail)
            found = parsed if isinstance(parsed, Mapping) else {}
            stamp, executed = _first(found, ("fidelity",)), _executed(found)
            return ("matched", f"{executed}, {stamp}") if stamp and executed else None
        case "sending":
            if row.text.startswith("HELD → REFUSED"):
                successor = row.text.rpartition(" as ")[2]  # earlier versions did not name it
                which = f"as {successor}" if successor.startswith("L-") else "as a new order"
                return "settled", f"sent {which} once there was a token"
            return _sending(row, answer)
        case "moved":
            return _moved(row, order, answer)
        case "note":
            return "alert", row.text.partition(_PART)[2]
        case "2fa" if row.word in {"needed", "proved"}:
            return None  # the answer says that a token is needed
    return row.kind, row.text


def _sending(row: TimelineRow, answer: str) -> Words | None:
    """`unknown it may have arrived: the nonce had been used`, without repeating an answer."""
    word, words = _SENDING[SendState(row.word or "")]
    reason, _, proof = row.text.partition(_PART)[2].partition(f"{_PART}proof ")
    note, _ = split(reason)
    if not word or (note and note in answer and row.word == "NOT_SENT"):
        return None
    known = "" if note in answer or note == words else note
    return word, ": ".join(filter(None, (words, known, proof)))


def _moved(row: TimelineRow, order: OrderRow, answer: str) -> Words | None:
    """The result of a change, and how the order ended if neither a fill nor the answer says so; for
    an order that this bot did not place, every move, as nothing else is known.
    """
    state, *parts = row.text.split(_PART)
    if order.local_id is None:
        return "moved" if _ARROW in state else "seen", _PART.join((state, *parts))
    change = next((part for part in parts if part.startswith(_AMEND)), "")
    if change and row.word != "PENDING_REPLACE":
        done, _, why = change.removeprefix(_AMEND).partition(" (")
        return "changed", done if why.removesuffix(")") in answer else f"{done} ({why}"
    ended = _MOVED[OrderState(row.word or "")] if row.order_id is not None else ""
    if not ended or (row.word == "REJECTED" and order.send_state == "REFUSED"):
        return None
    if row.word == "CANCELLED":
        ended = order.note or f"{order.cancelled_quantity:,} cancelled unfilled"
    elif row.word == "EXPIRED":
        filled = f"{order.executed_quantity:,} filled, " if order.executed_quantity else ""
        ended = f"{filled}{(order.quantity or 0) - order.executed_quantity:,} {ended}"
    return "ended", ended


def _decided(row: TimelineRow) -> Words | None:
    """`BUY 500 HPG LIMIT 27,050: bids 4.6x asks`, `cancel: expire 3m`."""
    head, *parts = row.text.split(_PART)
    text = ": ".join(_LIMIT_ORDER.sub(type_word("LO"), part, count=1) for part in parts)
    if head == "PASSED CANCEL":
        text = f"cancel: {parts[-1]}"
    elif head == "PASSED AMEND":
        text = f"change to {text}"
    return {
        "PASSED": ("decided", text),
        "BLOCKED": ("decided", text),
        "SKIPPED": ("skipped", text),
        "WATCHED": ("watched", f"not sent, the strategy only watches: {text}"),
        "HELD": ("held", "waits for 2FA"),
        "EXPIRED": None,
        "FAILED": ("failed", text),
    }[row.word or "FAILED"]


def _asked(row: TimelineRow) -> str:
    """What was asked of an order, by its first check: a change, cancel or verdict; else nothing."""
    parsed = _parsed(row.detail)
    first = parsed[0] if isinstance(parsed, list) and parsed else None
    code = str(first.get("code")) if isinstance(first, Mapping) else ""
    return "verdict" if code.startswith(VERDICT) else _FIRST_CHECKS.get(code, "")


def _refused(row: TimelineRow, words: Words, asked: str) -> Words:
    """`change to BUY 500 HPG LIMIT 27,050: by hand`, `verdict refused: I have looked`."""
    if asked == "change":
        return words[0], f"change to {words[1]}"
    why = row.text.split(_PART, 2)[2].replace(_PART, ": ") if asked else ""
    return (words[0], f"{asked} refused: {why}") if asked else words


def _answered(row: TimelineRow, order: OrderRow) -> Words:
    """`accepted as ORD10000003 (41 ms)`."""
    _, *parts, took = row.text.split(_PART)
    found = [part for part in parts if not part.startswith("HTTP ")]
    why = ": ".join(found) or "no reason given"
    if row.word == "REFUSED" and len(found) > 1:
        own, scripted = split(_PART.join(found[1:]))
        why = f'{rejection_words(found[0], own)}, "{own}" {scripted}'.rstrip()
    is_named_place = row.order_id is None and order.order_id
    words = {
        "ACCEPTED": f"accepted as {order.order_id}" if is_named_place else "accepted",
        "REFUSED": f"refused: {why}",
        "NOT_SENT": f"not sent: {why}",
        "UNKNOWN": f"no trusted answer: {why}",
    }
    return "answered", f"{words[row.word or 'UNKNOWN']} ({took})"


def _checks(parsed: object) -> str:
    """The numbers of the check that refused, else of those worth showing."""
    listed = parsed if isinstance(parsed, list) else []
    checks = [check for check in listed if isinstance(check, Mapping)]
    refused = [str(check.get("text")) for check in checks if not check.get("passed")]
    worth = [str(check.get("text")) for check in checks if check.get("code") in CHECKS_SHOWN]
    return ", ".join(refused or worth)


def _executed(row: Mapping[object, object]) -> str:
    executed = _first(row, _EXECUTED)
    return f"executed {executed} @ {_first(row, _PRICE)}" if executed not in {"", "0"} else ""


def _first(row: Mapping[object, object], names: Sequence[str]) -> str:
    found = next((row[name] for name in names if row.get(name) not in {None, ""}), "")
    return f"{found:,}" if isinstance(found, int) else str(found)


def _parsed(detail: str | None) -> object:
    try:
        parsed: object = json.loads(detail or "")
    except ValueError:
        return None
    return parsed
