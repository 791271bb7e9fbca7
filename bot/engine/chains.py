"""Orders whose id at the broker an amendment has changed: known here by the first one."""

from collections.abc import Iterable, Mapping
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
    """Ids that amendments have changed: later ones by the first, and the other way round.

    An order that gets a new id with an amendment is one order still, and keeps its first id here;
    what goes to the broker names the id that it has there now. The rows of a chain name its first
    id (`rootorderid`: broker open API 0.2.0-preview.3, order book; whether an amendment keeps the
    id is its open question 4.2).
    """

    _first: dict[str, str] = field(default_factory=dict)
    _current: dict[str, str] = field(default_factory=dict)

    def first(self, order_id: str) -> str:
        """Return the id by which an order is known here."""
        return self._first.get(order_id, order_id)

    def is_former(self, order_id: str) -> bool:
        """Tell whether the order of this id has another one by now."""
        first = self.first(order_id)
        return self._current.get(first, first) != order_id

    def addressed(self, command: Command) -> Command:
        """Return the command with the id that the broker knows."""
        if self._current and isinstance(command, ReadOrder | CancelOrder | AmendOrder):
            current = self._current.get(command.order_id)
            return command if current is None else replace(command, order_id=current)
        return command

    def received(self, event: Event) -> Event:
        """Return the event with the id that is known here."""
        if self._first and isinstance(event, OrderRead | CancelAnswered | AmendAnswered):
            first = self._first.get(event.order_id)
            return event if first is None else replace(event, order_id=first)
        return event

    def learn(self, known: Mapping[str, TrackedOrder], reports: Iterable[OrderReport]) -> None:
        """Find the new ids of known orders among the rows of a day order book; of several, the
        open one's. An amendment changes neither symbol nor side; ids of another day mean nothing.
        """
        renamed: list[tuple[OrderReport, str]] = []
        for report in reports:
            first = self.first(report.root_order_id)
            order = known.get(first)
            if report.root_order_id in {"", report.order_id} or order is None:
                continue
            row = order.row
            is_alike = (row.symbol, row.side, row.trading_date) == (
                report.symbol,
                report.side,
                report.trading_date,
            )
            if is_alike and self.first(report.order_id) not in known:
                renamed.append((report, first))
        for report, first in sorted(renamed, key=lambda one: one[0].remaining_quantity):
            self._first[report.order_id] = first
            self._current[first] = report.order_id
