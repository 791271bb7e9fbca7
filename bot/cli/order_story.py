"""The lines of `bot order ID --timeline`: everything that happened to one order, in words. Pure."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from bot.cli.tell_decisions import CHECKS_SHOWN
from bot.cli.wording import folded, millis_of
from bot.journal.values import TimelineRow

_INDENT: Final = " " * 8
_TEXT_AT: Final = 33
"""Where the text stands after `+0.000   09:16:00.102  decided   `."""
_STATUS: Final = ("status", "order_status")
_EXECUTED: Final = ("execqtty", "execute_quantity")
_PRICE: Final = ("execprice", "execute_price")
_REASON: Final = ("feedbackmsg", "rejected_reason")
"""Names of one thing in a row of the day book and in an order result. Source: broker open API
0.2.0-preview.3, day order book and order execution."""


def story(events: Sequence[TimelineRow], *, limit: int) -> Iterator[str]:
    """Each thing that happened in a line, folded where it is wider than `limit`."""
    for each in events:
        yield from folded(_line(each), indent=_TEXT_AT, limit=limit)


def raw_story(events: Sequence[TimelineRow]) -> Iterator[str]:
    """The same, whole, each with the JSON or text that belongs to it."""
    for each in events:
        yield _line(each)
        yield from (f"{_INDENT}{line}" for line in _unfolded(each.detail or ""))


def _line(each: TimelineRow) -> str:
    at = f"{_offset(each.offset_s):<8} {millis_of(each.at)}"
    more = _MORE.get(each.kind)
    detail = more(_parsed(each.detail)) if more and each.detail else ""
    return f"{at}  {each.kind:<9} {each.text}{f' · {detail}' if detail else ''}"


def _offset(seconds: float) -> str:
    return f"+{seconds:.3f}" if seconds < 10 else f"+{seconds:.1f}"


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
    executed = _first(row, _EXECUTED)
    parts = (
        _first(row, _STATUS),
        f"executed {executed} @ {_first(row, _PRICE)}" if executed not in {"", "0"} else "",
        _first(row, ("code",)),
        _first(row, _REASON),
        _first(row, ("fidelity",)),
    )
    return ", ".join(part for part in parts if part)


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
