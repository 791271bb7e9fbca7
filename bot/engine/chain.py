"""The ids of one order that amendments have given it, and what their rows show of the whole order.

The row of an earlier id ends as cancelled, with what was matched until then; the newest one
continues counting from there, or from zero. So no single row shows the whole order: `whole`
combines the rows of its ids, once each former one has ended or has been waited for long enough.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from bot.domain.order import OrderReport, OrderState
from bot.domain.order_status import shown_state

FORMER_ENDS_WITHIN: Final = timedelta(seconds=20)
"""How long a former id that still works, or whose row cannot be read, delays the newest one's."""
LOWER_ROWS: Final = 2
"""So many rows in turn, after one that did not, show that the count under a new id has begun at
zero: one may be false.
"""


@dataclass(slots=True)
class Chain:
    """The ids of one order, oldest first, with the newest row of each.

    `total` is the quantity of the whole order when the newest id was assigned; `matched` what was
    known as matched before that, in shares and VND; `former` is both of each former id, and its
    `lower`, when the next one came. `gone`: ids without a row at the broker.
    `revived`: since when a former id that had ended is shown at work again. `lower`: how many
    rows in turn have shown less under the newest id than was matched before it.
    """

    ids: list[str]
    total: int
    since: datetime
    matched: tuple[int, int] = (0, 0)
    rows: dict[str, OrderReport] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    revived: dict[str, datetime] = field(default_factory=dict)
    lower: int = 0
    former: dict[str, tuple[int, tuple[int, int], int]] = field(default_factory=dict)

    @property
    def is_from_zero(self) -> bool:
        """True if the count under the newest id has certainly begun at zero."""
        return self.lower >= LOWER_ROWS

    @property
    def current(self) -> str:
        """The id used in commands: the newest, unless it has ended and an older one works, or it
        was refused: then the order went on under the one before it.
        """
        newest = self.ids[-1]
        if (row := self.rows.get(newest)) is not None and row.remaining_quantity == 0:
            live = (each for each in reversed(self.ids) if self._is_live(each))
            taken = (each for each in reversed(self.ids) if not self._is_refused(each))
            return next(live, None) or next(taken, newest)
        return newest

    @property
    def is_newest_refused(self) -> bool:
        """True if the amendment came to nothing: then the id before it may work again."""
        return self._is_refused(self.ids[-1])

    def _is_refused(self, order_id: str) -> bool:
        row = self.rows.get(order_id)
        return row is not None and row.state is OrderState.REJECTED

    def _is_live(self, order_id: str) -> bool:
        row = self.rows.get(order_id)
        return row is not None and row.remaining_quantity > 0

    @property
    def unread(self) -> tuple[str, ...]:
        """The former ids whose last row has not been seen."""
        known = (*self.gone, self.current)
        return tuple(
            each
            for each in self.ids
            if each not in known and (each not in self.rows or self._is_live(each))
        )

    @property
    def also_open(self) -> int:
        """Shares that may trade under other ids than the current one."""
        current = self.current
        live = (each for each in self.ids if each != current and self._is_live(each))
        return sum(self.rows[each].remaining_quantity for each in live)

    def whole(self, now: datetime) -> OrderReport | None:
        """Return the order as shown by the rows of all its ids; None while a necessary one is
        missing, or is of before a refusal that may have undone what it shows.

        A continued count is never below the previous one, and its quantity is the whole order's.
        One that restarts at zero shows only what was open, so what the former ids matched has to be
        added.
        """
        current = self.current
        row = self.rows.get(current)
        if row is None or self._may_be_undone(row):
            return None
        others = [self.rows[each] for each in self.ids if each in self.rows and each != current]
        total, matched, lower = self._basis_of(current)
        before = max((matched[0], *(each.executed_quantity for each in others)))
        is_below = row.executed_quantity < before or lower >= LOWER_ROWS
        if not is_below and row.quantity == total:
            return row
        if self.unread and now < self.since + FORMER_ENDS_WITHIN:
            return None
        executed = max(matched[0], sum(each.executed_quantity for each in others))
        amount = max(matched[1], sum(each.executed_amount for each in others))
        if not is_below and row.quantity + executed != total:
            return row  # neither fits; the caller has to judge its quantity
        quantity, amount = executed + row.executed_quantity, amount + row.executed_amount
        return replace(
            row,
            quantity=executed + row.quantity,
            executed_quantity=quantity,
            executed_amount=amount,
            average_price=amount // quantity if quantity else 0,
        )

    def _may_be_undone(self, row: OrderReport) -> bool:
        """Return whether a row of an earlier id shows the end that a change gave it, and that
        change was refused after the row was asked for: it may work again.
        """
        newest = self.rows.get(self.ids[-1])
        has_ended = not row.remaining_quantity and shown_state(row) is not OrderState.FILLED
        return has_ended and newest is not None and row.requested_at < newest.requested_at

    def _basis_of(self, order_id: str) -> tuple[int, tuple[int, int], int]:
        """Return the total, what was matched before, and `lower`, by which the row of an id counts:
        of one that goes on as the newest was refused, those of before that one.
        """
        if order_id == self.ids[-1]:
            return self.total, self.matched, self.lower
        unknown = self.total, self.matched, 0
        return self.former.get(order_id, unknown) if self.is_newest_refused else unknown

    def learn_start(self, newest: OrderReport, *, is_first: bool) -> None:
        """Learn from a new row of the newest id whether its count has begun at zero: later its
        figures may fit both. Its first row says so by itself, as nothing speaks against it.
        """
        if self.is_from_zero:
            return
        others = (self.rows[each] for each in self.ids[:-1] if each in self.rows)
        known = [one for one in others if one.requested_at <= newest.requested_at]
        before = max((self.matched[0], *(one.executed_quantity for one in known)))
        more = LOWER_ROWS if is_first else 1
        self.lower = self.lower + more if newest.executed_quantity < before else 0
