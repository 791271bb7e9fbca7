"""Cleans up after a run: cancels orders that are still open, or at least names them.

A server may give a changed order another id, show its row late, or lose the answer to a place: then
the run does not know what to cancel, so the day order book is compared with its earlier contents.
"""

from collections.abc import Mapping, Sequence
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

Row = Mapping[str, Any]


class Cleanup:
    """The day order book before the run; `clear` cancels what the run has left in it."""

    def __init__(self, client: RawClient, facts: Facts) -> None:
        self._client = client
        self._facts = facts
        self._before: frozenset[str] = frozenset()
        self._left: Sequence[Row] = ()

    async def remember(self) -> None:
        """Regard the present orders as somebody else's."""
        self._before = frozenset(str(row.get("orderid")) for row in await self._book() or ())

    async def clear(self, order_id: str, *, is_lost: bool) -> Finding:
        """Cancel our remaining orders until none is left.

        `order_id` is the placed order, whose row must have been seen; `is_lost` says that the place
        was not answered, so that a row with an unknown id may appear.
        """
        is_seen = False
        for look in range(LOOKS_MAX):
            if look:
                await self._client.pause(PAUSE)
            is_seen = await self._look(order_id)
            if self._left:
                for row in self._left:
                    target = f"{self._facts.target(ORDERS)}/{row.get('orderid')}"
                    body = {"sub_account": self._facts["extended"]}
                    await self._client.ask("DELETE", target, body)
                is_seen = await self._look(order_id)
            if is_seen and not self._left and not is_lost:
                break
        return self._finding(order_id, is_clear=is_seen and not self._left)

    def given_up(self, order_id: str) -> Finding:
        """Say what may be left if there is no time, or no quota, to clean up."""
        return self._finding(order_id, is_clear=False)

    async def _look(self, order_id: str) -> bool:
        """Find our open orders; return whether the book shows what was placed.

        They are ours by id or root id; else a new buy of our stock at one of the run's two prices.
        """
        book = await self._book()
        if book is None:
            return False
        ours = (self._facts["stock"], "BUY")
        prices = {self._facts["floor"], self._facts["next_price"]}
        self._left = [
            row
            for row in book
            if not is_final(str(row.get("status")))
            and str(row.get("remainqtty")) != "0"
            and (
                (order_id and order_id in _ids(row))
                or (
                    (row.get("symbol"), row.get("side")) == ours
                    and str(row.get("orderid")) not in self._before
                    and str(row.get("price")) in prices
                )
            )
        ]
        return not order_id or any(order_id in _ids(row) for row in book)

    async def _book(self) -> Sequence[Row] | None:
        reply = await self._client.get(self._facts.target(DAY_ORDERS))
        is_whole = reply.status == 200 and isinstance(payload(reply, []), list)
        return rows(reply) if is_whole else None

    def _finding(self, order_id: str, *, is_clear: bool) -> Finding:
        floor, stock = self._facts["floor"], self._facts["stock"]
        unnamed = order_id or f"an order to buy {stock} at {floor} or one tick above"
        ids = ", ".join(str(row.get("orderid")) for row in self._left) or unnamed
        found = "nothing" if is_clear else f"{ids} may still work: cancel it in the broker's app"
        return judged("4.2 left", "the run leaves no order behind", is_met=is_clear, found=found)


def _ids(row: Row) -> tuple[str, str]:
    return str(row.get("orderid")), str(row.get("rootorderid"))
