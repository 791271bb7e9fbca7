"""The lines of `bot order ID --timeline`: what happened to one order, in words. Pure.

A trader reads one line for each thing that happened; with `--raw` every row is shown as the journal
has it, state machines, requests and answers too.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from bot.cli.telling.decisions import CHECKS_SHOWN
from bot.cli.telling.wording import folded, millis_of, rejection_words, type_of
from bot.domain.order import OrderState, SendState
from bot.domain.scripted import split
from bot.journal.values import OrderRow, TimelineRow

_INDENT: Final = " " * 8
_TEXT_AT: Final = 33
"""Where the text stands after `+0.000   09:16:00.102  decided   `."""
_STATUS: Final = ("status", "order_status")
_EXECUTED: Final = ("execqtty", "execute_quantity")
_PRICE: Final = ("execprice", "execute_price")
_REASON: Final = ("feedbackmsg", "rejected_reason")
"""Names of one thing in a row of the day order book and in an order result. Source: broker open API
0.2.0-preview.3, day order book and order execution."""
_LIMIT_ORDER: Final = re.compile(r"\bLO\b")
_PART: Final = " · "
"""What stands between the parts of a row's text."""

Told = tuple[str, str]
"""A word for what happened, and the rest of the line."""


def story(events: Sequence[TimelineRow], order: OrderRow, *, limit: int) -> Iterator[str]:
    """Each thing that happened in a line, folded where it is wider than `limit`."""
    for each in events:
        told = _TOLD.get(each.kind, _as_it_is)(each, order)
        if told is not None:
            yield from folded(_line(each, told), indent=_TEXT_AT, limit=limit)


def raw_story(events: Sequence[TimelineRow]) -> Iterator[str]:
    """Every row, whole, each with the JSON or text that belongs to it."""
    for each in events:
        more = _MORE.get(each.kind)
        detail = more(_parsed(each.detail)) if more and each.detail else ""
        yield _line(each, (each.kind, f"{each.text}{_PART}{detail}" if detail else each.text))
        yield from (f"{_INDENT}{line}" for line in _unfolded(each.detail or ""))


def _line(each: TimelineRow, told: Told) -> str:
    word, text = told
    return f"{_offset(each.offset_s):<8} {millis_of(each.at)}  {word:<9} {text}"


def _offset(seconds: float) -> str:
    return f"+{seconds:.3f}" if seconds < 10 else f"+{seconds:.1f}"


# ------------------------------------------------------------------------- one kind of row each


def _as_it_is(each: TimelineRow, _order: OrderRow) -> Told | None:
    return each.kind, each.text


def _decided(each: TimelineRow, _order: OrderRow) -> Told | None:
    """`BUY 500 HPG LIMIT 27,050: bids 4.6x asks`, `cancel: expire 3m`."""
    head, *parts = each.text.split(_PART)
    text = ": ".join(_LIMIT_ORDER.sub(type_of("LO"), part, count=1) for part in parts)
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
    }[each.word or "FAILED"]


def _checked(each: TimelineRow, _order: OrderRow) -> Told | None:
    """`16 checks ok: order 6.4M of 50M`, or what refused it."""
    numbers = _checks(_parsed(each.detail))
    result = each.text.partition(", check ")[0].partition(" of ")
    head = f"{result[0]} checks ok" if result[1] else result[0]
    return "checked", f"{head}: {numbers}" if numbers else head


def _recorded(each: TimelineRow, _order: OrderRow) -> Told | None:
    """Only an order that another one led to is news."""
    _, is_following, before = each.text.partition(f"{_PART}follows ")
    return ("follows", f"{before}, which waited for 2FA") if is_following else None


def _sent(each: TimelineRow, _order: OrderRow) -> Told | None:
    what = {"POST": "the order", "PUT": "a change", "DELETE": "a cancel"}[each.word or "POST"]
    return "sent", f"{what} to the broker"


def _answered(each: TimelineRow, order: OrderRow) -> Told | None:
    """`accepted as ORD10000003 (41 ms)`."""
    _, *parts, took = each.text.split(_PART)
    found = [part for part in parts if not part.startswith("HTTP ")]
    why = ": ".join(found) or "no reason given"
    if each.word == "REFUSED" and len(found) > 1:
        own, scripted = split(_PART.join(found[1:]))
        why = f'{rejection_words(found[0], own)}, "{own}" {scripted}'.rstrip()
    is_place = each.order_id is None
    accepted = f"accepted as {order.order_id}" if is_place and order.order_id else "accepted"
    words = {
        "ACCEPTED": accepted,
        "REFUSED": f"refused: {why}",
        "NOT_SENT": f"not sent: {why}",
        "UNKNOWN": f"no trusted answer: {why}",
    }
    return "answered", f"{words[each.word or 'UNKNOWN']} ({took})"


def _sending(each: TimelineRow, _order: OrderRow) -> Told | None:
    """What was found out about a lost answer, and why an order was not sent."""
    if each.text.startswith("HELD → REFUSED"):
        return "settled", "asked again as a new order, with a token"
    word, words = _SENDING[SendState(each.word or "")]
    _, _, note = each.text.partition(_PART)
    return (word, ": ".join(filter(None, (words, note)))) if word else None


def _moved(each: TimelineRow, order: OrderRow) -> Told | None:
    """How the order ended, where no fill tells it."""
    if each.order_id is None:
        return None
    words = _MOVED[OrderState(each.word or "")]
    if each.word == "REJECTED" and order.send_state == "REFUSED":
        return None  # the answer said so
    if words == "cancelled":
        return "ended", order.note or f"{order.cancelled_quantity:,} cancelled unfilled"
    return ("ended", words) if words else None


def _matched(each: TimelineRow, _order: OrderRow) -> Told | None:
    """How a paper broker came to a fill; a real one's rows are told by the fills."""
    row = _parsed(each.detail)
    stamp = _first(row, ("fidelity",)) if isinstance(row, Mapping) else ""
    executed = _executed(row) if isinstance(row, Mapping) else ""
    return ("matched", f"{executed}, {stamp}") if stamp and executed else None


def _two_factor(each: TimelineRow, _order: OrderRow) -> Told | None:
    """That a token is needed is in the answer; that it works is no news of this order."""
    return None if each.word in {"needed", "proved"} else ("2fa", each.text)


_SENDING: Final[Mapping[SendState, Told]] = {
    SendState.DENIED: ("", ""),
    SendState.READY: ("", ""),
    SendState.SENDING: ("", ""),
    SendState.ACKED: ("", ""),
    SendState.REFUSED: ("", ""),
    SendState.HELD: ("", ""),
    SendState.EXPIRED_LOCAL: ("expired", "not sent"),
    SendState.NOT_SENT: ("expired", "not sent"),
    SendState.UNKNOWN: ("unknown", "not sent again; the day order book will tell"),
    SendState.FRESH: ("unknown", "it did not arrive, as far as is known"),
    SendState.REACHED: ("unknown", "it may have arrived"),
    SendState.AMBIGUOUS: ("unknown", "more than one order could be it"),
    SendState.MATCHED: ("settled", "found at the broker"),
    SendState.NOT_PLACED: ("settled", "never placed"),
    SendState.EOD_ABSENT: ("settled", "never placed, the day ended without it"),
}
_MOVED: Final[Mapping[OrderState, str]] = {
    **dict.fromkeys(OrderState, ""),
    OrderState.CANCELLED: "cancelled",
    OrderState.EXPIRED: "lapsed at the close",
    OrderState.REJECTED: "rejected by the broker",
}
_TOLD: Final[Mapping[str, Callable[[TimelineRow, OrderRow], Told | None]]] = {
    "decided": _decided,
    "checked": _checked,
    "recorded": _recorded,
    "sent": _sent,
    "answered": _answered,
    "result": _matched,
    "polled": _matched,
    "sending": _sending,
    "moved": _moved,
    "2fa": _two_factor,
}
"""How a kind of row is told; every other as it is."""


# ---------------------------------------------------------------------------- what belongs to a row


def _checks(parsed: object) -> str:
    """The numbers of the check that refused, else of those worth knowing."""
    listed = parsed if isinstance(parsed, list) else []
    checks = [check for check in listed if isinstance(check, Mapping)]
    refused = [str(check.get("text")) for check in checks if not check.get("passed")]
    worth = [str(check.get("text")) for check in checks if check.get("code") in CHECKS_SHOWN]
    return ", ".join(refused or worth)


def _row(parsed: object) -> str:
    """Status, executed quantity and reason of a row as the broker sent it; a paper broker's says
    how it came about.
    """
    row = parsed if isinstance(parsed, Mapping) else {}
    parts = (
        _first(row, _STATUS),
        _executed(row),
        _first(row, ("code",)),
        _first(row, _REASON),
        _first(row, ("fidelity",)),
    )
    return ", ".join(part for part in parts if part)


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


def _unfolded(detail: str) -> list[str]:
    """JSON on several lines; anything else as it is."""
    parsed = _parsed(detail)
    if parsed is None:
        return detail.splitlines()
    return json.dumps(parsed, indent=1, ensure_ascii=False).splitlines()


_MORE: Final = {"checked": _checks, "polled": _row, "result": _row}
