"""Orders whose broker id an amendment has changed; here they keep their first id.

The rows of a chain name its first id (`rootorderid`: broker open API 0.2.0-preview.3, order book;
whether an amendment keeps the id is its open question 4.2). `chain.py` says what they show of the
whole order.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from bot.domain.entry import OrderUpdated
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
from bot.domain.order import OrderReport, OrderState
from bot.domain.order_status import shown_state
from bot.domain.recovery import StoredChanges
from bot.engine.chain import Chain
from bot.engine.tracked import TrackedOrder

REVIVED_AFTER: Final = timedelta(seconds=40)
"""For so long every read has to show a former id that had ended at work again before it counts as
such: until then they may be old rows, from a node that lags. If the newest id was refused it counts
at once: a halt must not miss an order that is open.
"""


@dataclass(slots=True)
class Chains:
    """The chains of today, by first id; commands to the broker use the current one."""

    _first: dict[str, str] = field(default_factory=dict)
    _of: dict[str, Chain] = field(default_factory=dict)

    def first(self, order_id: str) -> str:
        """Return the id by which an order is known here."""
        return self._first.get(order_id, order_id)

    def is_former(self, order_id: str) -> bool:
        """Return whether the order of this id has another one by now."""
        chain = self._of.get(self.first(order_id))
        return chain is not None and chain.current != order_id

    def unread(self, first: str, now: datetime) -> Sequence[str]:
        """Return the former ids of an order whose last row is needed and missing."""
        chain = self._of.get(first)
        if chain is None or (chain.whole(now) is not None and not chain.also_open):
            return ()
        return chain.unread

    def also_open(self, first: str) -> int:
        """Return the shares of an order that may trade under other ids than its current one."""
        chain = self._of.get(first)
        return chain.also_open if chain is not None else 0

    def current(self, first: str) -> str:
        """Return the id by which the broker knows an order now."""
        chain = self._of.get(first)
        return chain.current if chain is not None else first

    def ids(self, first: str) -> Sequence[str]:
        """Return every id of an order, oldest first."""
        chain = self._of.get(first)
        return tuple(chain.ids) if chain is not None else (first,)

    def rows(self, first: str, listed: Mapping[str, OrderReport]) -> Mapping[str, OrderReport]:
        """Return the rows of an order by id, oldest first: those of a list, else the last seen."""
        chain = self._of.get(first)
        known = {**(chain.rows if chain is not None else {}), **listed}
        return {each: known[each] for each in self.ids(first) if each in known}

    def later_ids(self) -> Mapping[str, tuple[str, ...]]:
        """Return the ids of each order after its first one, oldest first."""
        return {first: tuple(chain.ids[1:]) for first, chain in self._of.items()}

    def ended(
        self, first: str, reports: Mapping[str, OrderReport], now: datetime
    ) -> OrderReport | None:
        """Return how an order of an earlier day ended, according to the history of each of its ids;
        None if a necessary one is missing (a continued count needs no other).
        """
        chain = self._of.get(first)
        if chain is None:
            return reports.get(first)
        for order_id in chain.ids:
            if order_id in reports:
                self.keep(reports[order_id])
        current = chain.current
        if chain.ids[-1] not in reports or current not in reports:
            return None
        if current != chain.ids[-1] and chain.rows[current].remaining_quantity:
            return None
        whole = chain.whole(now)
        is_by_itself = whole is chain.rows[current]
        return whole if is_by_itself or not chain.unread else None

    def forget_all_but(self, kept: Container[str]) -> None:
        """Forget the others: an id is valid only on its order's own day."""
        self._of = {first: chain for first, chain in self._of.items() if first in kept}
        self._first = {later: first for later, first in self._first.items() if first in kept}

    def addressed(self, command: Command) -> Command:
        """Return the command with the id that the broker knows."""
        if self._of and isinstance(command, ReadOrder | CancelOrder | AmendOrder):
            chain = self._of.get(command.order_id)
            return command if chain is None else replace(command, order_id=chain.current)
        return command

    def received(self, event: Event) -> Event:
        """Return the event with the id that is known here."""
        if self._of and isinstance(event, OrderRead | CancelAnswered | AmendAnswered):
            first = self.first(event.order_id)
            chain = self._of.get(first)
            if chain is None:
                return event
            is_absent = isinstance(event, OrderRead) and not (event.report or event.is_unreadable)
            if is_absent and chain.current != event.order_id:
                chain.gone.add(event.order_id)
            return replace(event, order_id=first)
        return event

    def restore(
        self, row: OrderUpdated, ids: Iterable[str], stored: StoredChanges, now: datetime
    ) -> None:
        """Take over the later ids that an earlier run has seen; their rows are read again."""
        first, total = row.order_id, stored.total or row.quantity
        self._of[first] = chain = Chain([first, *ids], total, now, stored.matched)
        before = zip(chain.ids, [(0, 0), *stored.matched_before], strict=False)
        chain.former = {each: (row.quantity, matched, 0) for each, matched in before}
        self._first.update(dict.fromkeys(ids, first))

    def name_again(self, order: TrackedOrder, report: OrderReport, now: datetime) -> None:
        """A person says that this row is an order's, under another id than its answer gave; if that
        has later ids, all of them are.
        """
        is_of_several = report.order_id in self._of
        self._add(order, report, now)
        if not is_of_several:
            self.keep(report)

    def learn(
        self, known: Mapping[str, TrackedOrder], reports: Sequence[OrderReport], now: datetime
    ) -> list[OrderReport]:
        """Store the rows of the chains; return those of new ids, oldest first. An amendment changes
        neither symbol nor side; ids of another day do not count. Of several new ones the one that
        still works is newest, in whatever order they are listed; one that was given before a known
        one is older than that, however late it is listed. One may have counted as somebody else's
        until its order was known.
        """
        new: dict[str, OrderReport] = {}
        for report in reports:
            first = self.first(report.root_order_id)
            order = known.get(first)
            if not report.is_successor or order is None:
                continue
            row = order.row
            if not (order.is_own or order.is_open or row.executed_quantity):
                continue  # an external one that came to nothing: what follows it is another
            is_alike = (row.symbol, row.side, row.account, row.trading_date) == (
                report.symbol,
                report.side,
                report.account,
                report.trading_date,
            )
            counted = known.get(self.first(report.order_id))
            if is_alike and (counted is None or (order.is_own and not counted.is_own)):
                new[report.order_id] = report
        found = sorted(new.values(), key=_newness)
        listed = {each.order_id: each for each in reports}
        for report in found:
            order = known[self.first(report.root_order_id)]
            if not self._add_earlier(order.row.order_id, report, listed):
                self._add(order, report, now)
        if self._of:
            for report in sorted(reports, key=lambda one: self.is_former(one.order_id)):
                self.keep(report)  # the newest id's row says whether an older one may work again
        return found

    def _add_earlier(
        self, first: str, report: OrderReport, listed: Mapping[str, OrderReport]
    ) -> bool:
        """Add an id that another one had followed before its row was seen, so that nothing counts
        anew; return False if it is the newest.
        """
        chain = self._of.get(first)
        if chain is None or report.order_id in self._of:
            return False
        at, rows = len(chain.ids), {**chain.rows, **listed}
        while at > 1 and _is_earlier(report, chain.ids[at - 1], rows.get(chain.ids[at - 1])):
            at -= 1
        if at == len(chain.ids):
            return False
        chain.ids.insert(at, report.order_id)
        self._first[report.order_id] = first
        return True

    def _add(self, order: TrackedOrder, report: OrderReport, now: datetime) -> None:
        row, change = order.row, order.change
        first = row.order_id
        chain = self._of.setdefault(first, Chain([first], row.quantity, now))
        chain.former[chain.ids[-1]] = chain.total, chain.matched, chain.lower
        chain.total = row.quantity
        if change is not None:
            change.keeps_id = True  # from now on under this one
            chain.total = row.quantity if change.is_of_price else change.new
        elif report.quantity not in order.shown.totals:
            whole = report.quantity + row.executed_quantity
            chain.total = whole if whole in order.shown.totals else row.quantity
        chain.since, chain.matched = now, (row.executed_quantity, row.executed_amount)
        chain.lower = 0
        order.shown.rows = {}  # a new id's status follows none: held for a phase, it may wait again
        later = self._of.pop(report.order_id, None)  # known as somebody else's, it may have others
        ids = [report.order_id] if later is None else later.ids
        chain.ids += ids
        self._first.update(dict.fromkeys(ids, first))
        if later is not None:
            chain.rows.update(later.rows)
            chain.gone |= later.gone
            chain.matched = max(chain.matched, later.matched)

    def keep(self, report: OrderReport) -> None:
        """Store the row of an id of a chain, unless a newer one is stored, or it is an old one."""
        order_id, asked_at = report.order_id, report.requested_at
        chain = self._of.get(self.first(order_id))
        if chain is None or order_id not in chain.ids:
            return
        before = chain.rows.get(order_id)
        if before is not None and before.requested_at > asked_at:
            return
        is_revived = (
            before is not None and before.remaining_quantity == 0 < report.remaining_quantity
        )
        if is_revived and order_id != chain.ids[-1] and not chain.is_newest_refused:
            since = chain.revived.setdefault(order_id, asked_at)
            if asked_at - since < REVIVED_AFTER:
                return
        chain.revived.pop(order_id, None)
        chain.rows[order_id] = report
        chain.gone.discard(order_id)
        if order_id == chain.ids[-1] and (before is None or before.requested_at < asked_at):
            chain.learn_start(report, is_first=before is None)

    def whole(self, first: str, report: OrderReport | None, now: datetime) -> OrderReport | None:
        """Return what a row says about its whole order: the row itself if the id has never changed;
        None while the row of a former id is missing.
        """
        chain = self._of.get(first)
        return report if chain is None else chain.whole(now)


def _newness(report: OrderReport) -> tuple[bool, bool, bool, tuple[float, int, str]]:
    """Rank the rows of several ids of an order by what says that one is newer: it works, it was not
    refused (then the order went on under another), it was not changed into another (that ends as
    cancelled), its time, its id.
    """
    is_last = shown_state(report) is not OrderState.CANCELLED
    was_taken = report.state is not OrderState.REJECTED
    return report.remaining_quantity > 0, was_taken, is_last, _given(report)


def _given(report: OrderReport) -> tuple[float, int, str]:
    """Rank a row by when its id was given: its time, its id."""
    placed_s = report.placed_at.timestamp() if report.placed_at is not None else 0.0
    return placed_s, len(report.order_id), report.order_id


def _is_earlier(report: OrderReport, order_id: str, row: OrderReport | None) -> bool:
    """Return whether an id that is seen only now was given before a known one. Both what its row
    shows and when it was given have to say so, as the known one's row may be an old one; where that
    has none yet, the ids alone say it.
    """
    if row is None:
        return (len(report.order_id), report.order_id) < (len(order_id), order_id)
    return _newness(report) < _newness(row) and _given(report) < _given(row)
