"""Cleans up after a run: cancels orders that are still open, names what it cannot undo.

A server may give a changed order another id, show its row late, lose the answer to a place, or take
what it should refuse: then the run does not know what to cancel, so the day order book is compared
with its earlier contents.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from bot.conformance.facts import Facts, payload, rows
from bot.conformance.finding import Finding, judged
from bot.conformance.raw_client import RawClient
from bot.protocol.status import is_final

LOOKS_MAX: Final = 8
PAUSE: Final = timedelta(seconds=4)
"""Between two reads of the day order book: a row that is half a minute late is still found."""
DAY_ORDERS: Final = "/trading/v1/accounts/{account}/order-book"
ORDERS: Final = "/trading/oa/sub-accounts/{account}/orders"
_NO_BOOK: Final[list[Any]] = []
"""Stands for a day order book that is missing in its answer."""

Row = Mapping[str, Any]


@dataclass(slots=True)
class Sent:
    """The orders of a run: the ids of those taken, and bodies whose fate is not known."""

    ids: list[str] = field(default_factory=list)
    lost: list[Mapping[str, Any]] = field(default_factory=list)


class Cleanup:
    """The day order book before the run; `clear` cancels what the run has left in it."""

    def __init__(self, client: RawClient, facts: Facts, sent: Sent) -> None:
        self._client = client
        self._facts = facts
        self._sent = sent
        self._before: frozenset[str] = frozenset()
        self._seen: frozenset[str] = frozenset()
        self._left: Sequence[Row] = ()
        self._traded: Sequence[Row] = ()
        self._doubtful: Sequence[Row] = ()

    async def remember(self) -> bool:
        """Regard the present orders as somebody else's; return whether they are known."""
        for look in range(LOOKS_MAX):
            if look:
                await self._client.pause(PAUSE)
            if (book := await self._book()) is not None:
                self._before = frozenset(str(row.get("orderid")) for row in book)
                return True
        return False

    async def clear(self) -> Finding:
        """Cancel our remaining orders until none is left.

        The row of every order that was taken must have been seen; while the fate of one is not
        known, a row with an unknown id may still appear.
        """
        is_seen = False
        for look in range(LOOKS_MAX):
            if look:
                await self._client.pause(PAUSE)
            is_seen = await self._look()
            if self._left:
                for row in self._left:
                    target = f"{self._facts.target(ORDERS)}/{row.get('orderid')}"
                    body = {"sub_account": self._facts["extended"]}
                    await self._client.ask("DELETE", target, body)
                is_seen = await self._look()
            if is_seen and not self._left and not self._sent.lost:
                break
        return self._finding(is_clear=is_seen and not self._left)

    def given_up(self) -> Finding:
        """Say what may be left if there is no time, or no quota, to clean up."""
        return self._finding(is_clear=False)

    async def _look(self) -> bool:
        """Sort the rows of the book; return whether it shows everything that was taken."""
        book = await self._book()
        if book is None:
            return False
        ours = [row for row in book if self._is_ours(row)]
        self._left = [row for row in ours if _is_open(row)]
        self._traded = [row for row in ours if _executed(row)]
        self._doubtful = [
            row
            for row in book
            if self._sent.lost
            and self._is_new(row)
            and row not in ours
            and (_is_open(row) or _executed(row))
        ]
        self._seen = frozenset(id_ for row in book for id_ in _ids(row))
        return self._seen.issuperset(self._sent.ids)

    def _is_ours(self, row: Row) -> bool:
        """Whether this run has sent it: by id or root id, else a new buy of our stock at one of the
        run's two prices, or what may have become of a lost order.
        """
        if not {*_ids(row)}.isdisjoint(self._sent.ids):
            return True
        if not self._is_new(row):
            return False
        prices = {self._facts["floor"], self._facts["next_price"]}
        is_placed = row.get("side") == "BUY" and str(row.get("price")) in prices
        return is_placed or any(_may_be(row, body) for body in self._sent.lost)

    def _is_new(self, row: Row) -> bool:
        is_of_stock = row.get("symbol") == self._facts["stock"]
        return is_of_stock and str(row.get("orderid")) not in self._before

    async def _book(self) -> Sequence[Row] | None:
        """Return its rows; None if the answer does not show it."""
        reply = await self._client.get(self._facts.target(DAY_ORDERS))
        is_whole = reply.is_success and payload(reply, _NO_BOOK) is not _NO_BOOK
        return rows(reply) if is_whole else None

    def _finding(self, *, is_clear: bool) -> Finding:
        stock, parts = self._facts["stock"], list[str]()
        if not is_clear:
            ids = [str(row.get("orderid")) for row in self._left]
            ids = ids or [id_ for id_ in self._sent.ids if id_ not in self._seen] or self._sent.ids
            names = ", ".join(ids) or f"an order of {stock} whose answer was lost"
            parts.append(f"{names} may still work: cancel it in the broker's app")
        for row in self._traded:
            verb = "sold" if row.get("side") == "SELL" else "bought"
            worth = f"{_number(row, 'execamt'):,} VND"
            parts.append(
                f"{row.get('orderid')} {verb} {_executed(row):,} {stock} for {worth}, "
                "which cannot be undone: keep it, or trade it back in the broker's app"
            )
        if self._doubtful:
            ids = [str(row.get("orderid")) for row in self._doubtful]
            text = "is new and unlike what this run sent: left alone; cancel it if it is not yours"
            parts.append(f"{', '.join(ids)} {text}")
        what, found = "the run leaves no order behind", "; ".join(parts) or "nothing"
        return judged("4.2 left", what, is_met=not parts, found=found)


def _ids(row: Row) -> tuple[str, str]:
    return str(row.get("orderid")), str(row.get("rootorderid"))


def _may_be(row: Row, body: Mapping[str, Any]) -> bool:
    """Whether a lost order may be this row: a broker may round its price or cut its quantity, not
    both.
    """
    if body.get("side") in {"BUY", "SELL"} and body["side"] != row.get("side"):
        return False
    is_as_many = body.get("quantity") == row.get("qtty")
    return is_as_many or body.get("limit_price") == row.get("price")


def _is_open(row: Row) -> bool:
    return not is_final(str(row.get("status"))) and str(row.get("remainqtty")) != "0"


def _executed(row: Row) -> int:
    return _number(row, "execqtty")


def _number(row: Row, name: str) -> int:
    try:
        return int(row.get(name) or 0)
    except (TypeError, ValueError):
        return 0
