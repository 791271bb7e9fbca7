"""An order that gets a new id with an amendment is one order still, and keeps its first id here.

The rows of a chain name its first id (`rootorderid`: broker open API 0.2.0-preview.3, order book;
whether an amendment keeps the id is its open question 4.2). State and journal know an order by the
id that it was first given; what goes to the broker names the one that it has there now.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from bot.domain.message import (
    AmendAnswered,
    AmendOrder,
    CancelAnswered,
    CancelOrder,
    Command,
    Event,
    OrderRead,
    ReadOrder,
)
from bot.domain.order import OrderReport
from bot.engine.tracked import TrackedOrder


@dataclass(slots=True)
class Chains:
    """Later ids by first id and the other way round; an order that kept its id is in neither."""

    _first: dict[str, str] = field(default_factory=dict)
    _current: dict[str, str] = field(default_factory=dict)

    def first(self, order_id: str) -> str:
        """Return the id by which an order is known here."""
        return self._first.get(order_id, order_id)

    def renew(self, first: str, current: str) -> None:
        """The broker knows an order by another id from now on."""
        self._first[current] = first
        self._current[first] = current

    def is_former(self, order_id: str) -> bool:
        """Tell whether the order of this id has another one by now."""
        first = self.first(order_id)
        return self._current.get(first, first) != order_id

    def addressed(self, command: Command) -> Command:
        """Return the command with the id that the broker knows."""
        if isinstance(command, ReadOrder | CancelOrder | AmendOrder):
            current = self._current.get(command.order_id)
            return command if current is None else replace(command, order_id=current)
        return command

    def received(self, event: Event) -> Event:
        """Return the event with the id that is known here."""
        if isinstance(event, OrderRead | CancelAnswered | AmendAnswered):
            first = self._first.get(event.order_id)
            return event if first is None else replace(event, order_id=first)
        return event


def learn(
    chains: Chains, known: Mapping[str, TrackedOrder], reports: Iterable[OrderReport]
) -> None:
    """Find the new ids of known orders among the rows of a day order book; of several, the open."""
    for report in sorted(_renamed(chains, known, reports), key=lambda row: row.remaining_quantity):
        chains.renew(chains.first(report.root_order_id), report.order_id)


def _renamed(
    chains: Chains, known: Mapping[str, TrackedOrder], reports: Iterable[OrderReport]
) -> Iterator[OrderReport]:
    for report in reports:
        if report.root_order_id in {"", report.order_id} or chains.first(report.order_id) in known:
            continue
        order = known.get(chains.first(report.root_order_id))
        if order is not None and _is_alike(order, report):
            yield report


def _is_alike(order: TrackedOrder, report: OrderReport) -> bool:
    """An amendment changes neither symbol nor side; ids of another day mean nothing today."""
    row = order.row
    return (row.symbol, row.side, row.trading_date) == (
        report.symbol,
        report.side,
        report.trading_date,
    )
