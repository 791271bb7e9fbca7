"""What a run leaves behind: an order of it that still works is cancelled, or at least named.

A server may give a changed order another id, show its row late, or lose the answer to a place: then
the story does not know what to cancel. So the day order book is compared with what it held before.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from bot.conformance.facts import Facts, payload, rows
from bot.conformance.finding import Finding, judged
from bot.conformance.talk import Talker
from bot.protocol.status import is_final

LOOKS_MAX: Final = 8
PAUSE: Final = timedelta(seconds=4)
"""Between two looks at the day order book: a row that is half a minute late is still found."""
_BOOK: Final = "/trading/v1/accounts/{account}/order-book"
_ORDERS: Final = "/trading/oa/sub-accounts/{account}/orders"

Row = Mapping[str, Any]


class Sweep:
    """The day order book as it was before the run; `clear` cancels what the run has left in it."""

    def __init__(self, talker: Talker, facts: Facts) -> None:
        self._talker = talker
        self._facts = facts
        self._before: frozenset[str] = frozenset()
        self._left: Sequence[Row] = ()

    async def remember(self) -> None:
        """Take what is there for somebody else's."""
        self._before = frozenset(_id(row) for row in await self._book() or ())

    async def clear(self, order_id: str, *, is_lost: bool) -> Finding:
        """Cancel what is left of ours until nothing is.

        `order_id` is that of the place, whose row must have been seen; `is_lost` says that the
        place was not answered, so that a row may come without our knowing its id.
        """
        is_seen = False
        for look in range(LOOKS_MAX):
            if look:
                await self._talker.pause(PAUSE)
            is_seen = await self._look(order_id)
            if self._left:
                for row in self._left:
                    await self._cancel(row)
                is_seen = await self._look(order_id)
            if is_seen and not self._left and not is_lost:
                break
        return self._finding(order_id, is_clear=is_seen and not self._left)

    def given_up(self, order_id: str) -> Finding:
        """Say what may be left when there is no time, or no quota, to clear up."""
        return self._finding(order_id, is_clear=False)

    async def _look(self, order_id: str) -> bool:
        """See what of ours is open; return whether the book shows what was placed."""
        book = await self._book()
        if book is None:
            return False
        self._left = [row for row in book if self._is_ours(row, order_id) and _is_open(row)]
        return not order_id or any(order_id in {_id(row), _root(row)} for row in book)

    async def _book(self) -> Sequence[Row] | None:
        reply = await self._talker.get(self._facts.target(_BOOK, {}))
        is_whole = reply.status == 200 and isinstance(payload(reply, []), list)
        return rows(reply) if is_whole else None

    def _is_ours(self, row: Row, order_id: str) -> bool:
        """By id or root; else a new buy of our stock at one of the two prices of the story."""
        if order_id and order_id in {_id(row), _root(row)}:
            return True
        prices = {self._facts[name] for name in ("floor", "next_price")}
        is_alike = (row.get("symbol"), row.get("side")) == (self._facts["stock"], "BUY")
        return is_alike and _id(row) not in self._before and str(row.get("price")) in prices

    def _finding(self, order_id: str, *, is_clear: bool) -> Finding:
        floor, stock = self._facts["floor"], self._facts["stock"]
        unnamed = order_id or f"an order to buy {stock} at {floor} or one step above"
        ids = ", ".join(_id(row) for row in self._left) or unnamed
        found = "nothing" if is_clear else f"{ids} may still work: cancel it in the broker's app"
        return judged("4.2 left", "the run leaves no order behind", is_met=is_clear, found=found)

    async def _cancel(self, row: Row) -> None:
        target = f"{self._facts.target(_ORDERS, {})}/{_id(row)}"
        await self._talker.ask("DELETE", target, {"sub_account": self._facts["extended"]})


def _id(row: Row) -> str:
    return str(row.get("orderid"))


def _root(row: Row) -> str:
    return str(row.get("rootorderid"))


def _is_open(row: Row) -> bool:
    return not is_final(str(row.get("status"))) and str(row.get("remainqtty")) != "0"
