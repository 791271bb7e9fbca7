"""Every order and intent, filed under the engine's queries: updated at each move, never searched.

A `Watched` object notifies its index of every assignment that may change where it is filed, so none
can move without the index knowing. The cost of an event then depends on what it touches: not on
ended orders, and on open ones only if all of them are needed.

Groups keep the order in which their members first appeared, as a scan would.
"""

from collections import Counter
from collections.abc import Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import count, islice
from types import MappingProxyType
from typing import Final, Generic, TypeVar

from bot.domain.errors import require
from bot.domain.order import Intent, OrderState, OrderType, SendState, Side
from bot.domain.recovery import LATE_ROWS
from bot.domain.rulebook import Rulebook
from bot.engine.tracked import AmendStage, TrackedAmend, TrackedIntent, TrackedOrder, Watched

_HARMLESS: Final = frozenset({SendState.DENIED, SendState.EXPIRED_LOCAL, SendState.NOT_SENT})
_NO_ORDER: Final = frozenset(
    {
        SendState.REFUSED,
        SendState.NOT_PLACED,
        SendState.NOT_SENT,
        SendState.HELD,
        SendState.EXPIRED_LOCAL,
        SendState.EOD_ABSENT,
    }
)
"""States of an intent without an order that works, as far as is known; one of them may have been
sent. One that was refused may have a row of its own, which says nothing of another copy.
"""
STALE_MAX: Final = 100
"""How many outdated instants a heap may hold beyond the number of valid ones."""

T = TypeVar("T", bound=Watched)
K = TypeVar("K", bound=Hashable)
Look = tuple[str, date, str, Side, int]
Fingerprint = tuple[Look, OrderType, int | None]


class Groups(Generic[K, T]):
    """Members by key, each in at most one group."""

    def __init__(self) -> None:
        self._groups: dict[K, dict[int, T]] = {}
        self._keys: dict[int, K] = {}

    def put(self, thing: T, key: K | None) -> None:
        """Put a member into the group of its key, removing it from the earlier one; None: into
        none.
        """
        number = thing.number
        before = self._keys.get(number)
        if before == key:
            return
        if before is not None:
            del self._keys[number], self._groups[before][number]
            if not self._groups[before]:
                del self._groups[before]
        if key is not None:
            group = self._groups.setdefault(key, {})
            is_last = not group or next(reversed(group)) < number
            self._keys[number], group[number] = key, thing
            if not is_last:
                self._groups[key] = dict(sorted(group.items()))

    def __bool__(self) -> bool:
        return bool(self._groups)

    def of(self, key: K) -> Sequence[T]:
        """Return the members of a group, by first appearance."""
        group = self._groups.get(key)
        return list(group.values()) if group else ()

    def all(self) -> Mapping[K, Sequence[T]]:
        """Return every group, in no particular order."""
        return {key: self.of(key) for key in self._groups}


class Sums:
    """Amounts by account, at most one per member."""

    def __init__(self) -> None:
        self._parts: dict[int, tuple[str, int]] = {}
        self._sums: Counter[str] = Counter()

    def put(self, thing: Watched, part: tuple[str, int] | None) -> None:
        """Count a member with this account and amount, replacing the earlier ones; None: not at
        all.
        """
        before = self._parts.get(thing.number)
        if before == part:
            return
        if before is not None:
            self._sums[before[0]] -= before[1]
            del self._parts[thing.number]
        if part is not None:
            self._sums[part[0]] += part[1]
            self._parts[thing.number] = part

    def of(self, account: str) -> int:
        """Return the sum of an account."""
        return self._sums[account]


class Deadlines(Generic[T]):
    """When members are due. One stays due until another instant is set."""

    def __init__(self) -> None:
        self._due: dict[int, tuple[datetime, T]] = {}
        self._ripe: dict[int, T] = {}
        self._heap: list[tuple[datetime, int]] = []

    def put(self, thing: T, at: datetime | None) -> None:
        """Set when a member is due, replacing the earlier instant; None: never."""
        number = thing.number
        before = self._due.get(number)
        if (before and before[0]) == at:
            return
        self._ripe.pop(number, None)
        if at is None:
            del self._due[number]
            return
        self._due[number] = at, thing
        heappush(self._heap, (at, number))
        if len(self._heap) > 2 * len(self._due) + STALE_MAX:
            ahead = self._due.keys() - self._ripe.keys()
            self._heap = [(self._due[each][0], each) for each in ahead]
            heapify(self._heap)

    def __bool__(self) -> bool:
        return bool(self._due)

    def ripe(self, now: datetime) -> Sequence[T]:
        """Return what is due by now, by first appearance."""
        heap = self._heap
        while heap and heap[0][0] <= now:
            at, number = heappop(heap)
            due = self._due.get(number)
            if due is not None and due[0] == at:
                self._ripe[number] = due[1]
        return [thing for _, thing in sorted(self._ripe.items())] if self._ripe else ()

    def next_after(self, now: datetime) -> datetime | None:
        """Return the first instant after `now` at which something is due."""
        self.ripe(now)
        while self._heap:
            at, number = self._heap[0]
            due = self._due.get(number)
            if due is not None and due[0] == at:
                return at
            heappop(self._heap)
        return None


class SeenIds:
    """Ids in the order in which they were first seen."""

    def __init__(self, ids: Iterable[str] = ()) -> None:
        self._places = {order_id: place for place, order_id in enumerate(ids)}

    def add(self, order_id: str) -> None:
        """Record an id; if it is seen again it keeps its place."""
        self._places.setdefault(order_id, len(self._places))

    def until_now(self, also: Container[str] = frozenset()) -> "KnownIds":
        """Return those seen so far, whatever is seen later but in `also`."""
        return KnownIds(self._places, len(self._places), also)


@dataclass(frozen=True, slots=True)
class KnownIds:
    """The first `count` of the seen ids, and those of `also`: nothing is copied for each order."""

    places: dict[str, int]
    count: int
    also: Container[str] = frozenset()

    def __contains__(self, order_id: object) -> bool:
        place = self.places.get(str(order_id))
        return (place is not None and place < self.count) or order_id in self.also

    def after(self, count: int) -> tuple[str, ...]:
        """Return those after the first `count`, without a look at the first."""
        newest = islice(reversed(self.places), len(self.places) - self.count, None)
        return tuple(islice(newest, max(0, self.count - count)))[::-1]


class Index:
    """All orders and intents of the day, and those of earlier days that are still unresolved.

    `orders` and `intents` are for reading; `track_order` and `track_intent` add to them, and the
    groups answer queries. `reserved` is the money for own buys with a price, fees included, and
    `reserved_elsewhere` for external ones; those `at_market` cost what the quote says at that time.
    `working` counts this bot's orders that work, or may work; `bought` is the cost of all open buys
    with a price, without fees, including external ones. `external` has the orders that others
    placed in an account, open or not.
    """

    def __init__(self, rulebook: Rulebook) -> None:
        self._rulebook = rulebook
        self._numbers = count(1)
        self._orders: dict[str, TrackedOrder] = {}
        self._intents: dict[str, TrackedIntent] = {}
        self.orders: Mapping[str, TrackedOrder] = MappingProxyType(self._orders)
        self.intents: Mapping[str, TrackedIntent] = MappingProxyType(self._intents)
        self.open = Groups[bool, TrackedOrder]()
        self.open_in = Groups[str, TrackedOrder]()
        self.external = Groups[str, TrackedOrder]()
        self.pending = Groups[bool, TrackedIntent]()
        self.pending_in = Groups[str, TrackedIntent]()
        self.held = Groups[bool, TrackedIntent]()
        self.not_placed = Groups[Look, TrackedIntent]()
        self.reserved = Sums()
        self.reserved_elsewhere = Sums()
        self.working = Sums()
        self.bought = Sums()
        self.orders_at_market = Groups[str, TrackedOrder]()
        self.intents_at_market = Groups[str, TrackedIntent]()
        self.amending = Groups[bool, TrackedAmend]()
        self.order_polls = Deadlines[TrackedOrder]()
        self.intent_polls = Deadlines[TrackedIntent]()
        self.expiries = Deadlines[TrackedOrder]()
        self.looks = Deadlines[TrackedOrder]()
        self._alike = Groups[Fingerprint, TrackedIntent]()

    # -------------------------------------------------------------------------- what comes and goes

    def track_order(self, order: TrackedOrder) -> None:
        """Add an order, replacing the one with the same id, if any."""
        before = self._orders.get(order.row.order_id)
        if before is not None:
            self._drop_order(before)
        order.number = before.number if before else next(self._numbers)
        self._orders[order.row.order_id] = order
        order.watch = partial(self._file_order, order)
        self._file_order(order, "row")

    def track_intent(self, tracked: TrackedIntent) -> None:
        """Add an intent with a new id."""
        intent = tracked.intent
        require(intent.intent_id not in self._intents, "I2", f"{intent.intent_id} is there already")
        tracked.number = next(self._numbers)
        self._intents[intent.intent_id] = tracked
        self._alike.put(tracked, fingerprint_of(intent))
        tracked.watch = partial(self._file_intent, tracked)
        self._file_intent(tracked, "state")

    def track_amend(self, amend: TrackedAmend) -> None:
        """Track an amendment until it is over."""
        amend.number = next(self._numbers)
        amend.watch = partial(self._file_amend, amend)
        self._file_amend(amend, "stage")

    def forget_order(self, order_id: str) -> None:
        """Forget an order, if it was known."""
        if (order := self._orders.pop(order_id, None)) is not None:
            self._drop_order(order)

    def forget_ended(self, before: date) -> None:
        """Forget the orders and intents of earlier days, except what is open or pending, and lost
        places of late: a row of one may still turn up.
        """
        for key, order in [*self._orders.items()]:
            if not order.is_open and order.row.trading_date < before:
                self.forget_order(key)
        for key, tracked in [*self._intents.items()]:
            day, is_lost = tracked.intent.trading_date, tracked.state is SendState.EOD_ABSENT
            kept_from = before - LATE_ROWS if is_lost else before
            if not tracked.reserves_in_full and day < kept_from:
                self.forget_intent(key)

    def forget_intent(self, intent_id: str) -> None:
        """Forget an intent, pending or not."""
        tracked = self._intents.pop(intent_id)
        tracked.watch = None
        for group in (self.held, self.pending, self.pending_in, self.not_placed, self._alike):
            group.put(tracked, None)
        for sums in (self.reserved, self.working, self.bought):
            sums.put(tracked, None)
        self.intents_at_market.put(tracked, None)
        self.intent_polls.put(tracked, None)

    def _drop_order(self, order: TrackedOrder) -> None:
        order.watch = None
        for group in (self.open, self.open_in, self.external, self.orders_at_market):
            group.put(order, None)
        for sums in (self.reserved, self.reserved_elsewhere, self.working, self.bought):
            sums.put(order, None)
        for deadlines in (self.order_polls, self.expiries, self.looks):
            deadlines.put(order, None)

    # ------------------------------------------------------------------------------ at each move

    def _file_order(self, order: TrackedOrder, moved: str) -> None:
        """File an order according to the field that has moved."""
        row, is_open = order.row, order.is_open
        self.looks.put(order, order.look.due if order.look else None)
        if moved == "look":
            return
        poll = order.poll if is_open else None
        self.order_polls.put(order, poll.due if poll else None)
        if moved == "poll":
            return
        self.open.put(order, is_open or None)
        self.open_in.put(order, row.symbol if is_open else None)
        self.external.put(order, None if order.is_own else row.account)
        self.expiries.put(order, order.expires_at if is_open else None)
        is_buy = is_open and row.side is Side.BUY
        price, bought, part = order.prices[-1] if is_buy else None, None, None
        if price is not None:
            amount = order.open_quantity * price
            bought = row.account, amount
            part = row.account, amount + self._rulebook.fee(amount)
        self.reserved.put(order, part if order.is_own else None)
        self.reserved_elsewhere.put(order, None if order.is_own else part)
        self.bought.put(order, bought)
        is_counted = is_open and order.is_own
        self.working.put(order, (row.account, 1) if is_counted else None)
        self.orders_at_market.put(order, row.account if is_buy and price is None else None)

    def _file_intent(self, tracked: TrackedIntent, moved: str) -> None:
        """File an intent according to the field that has moved."""
        intent, poll = tracked.intent, tracked.poll if tracked.order_id is None else None
        self.intent_polls.put(tracked, poll.due if poll else None)
        if moved in {"poll", "order_id"}:
            return
        self.not_placed.put(tracked, look_of(intent) if tracked.state in _NO_ORDER else None)
        is_pending = tracked.reserves_in_full
        self.pending.put(tracked, is_pending or None)
        self.pending_in.put(tracked, intent.symbol if is_pending else None)
        self.held.put(tracked, tracked.state is SendState.HELD or None)
        if is_pending:
            self._alike.put(tracked, fingerprint_of(intent))
        is_paid_for = is_pending and intent.side is Side.BUY
        price, bought, part = intent.limit_price if is_paid_for else None, None, None
        if price is not None:
            amount = intent.quantity * price
            bought = intent.account, amount
            part = intent.account, amount + self._rulebook.fee(amount)
        self.reserved.put(tracked, part)
        self.bought.put(tracked, bought)
        self.working.put(tracked, (intent.account, 1) if is_pending else None)
        at_market = intent.account if is_paid_for and price is None else None
        self.intents_at_market.put(tracked, at_market)

    def _file_amend(self, amend: TrackedAmend, _moved: str) -> None:
        self.amending.put(amend, amend.stage is not AmendStage.OVER or None)

    # -------------------------------------------------------------------------------- what is asked

    def twin_of(self, intent: Intent, oldest: datetime) -> str | None:
        """Return the first equal intent that is open, unresolved or younger than `oldest`. A
        completely filled close does not count for the next one: a large position is closed in
        several orders, and each reduces what may be sold.

        `oldest` never goes back and ended orders do not reopen, so whatever does not count now is
        dropped from here on, unless its intent is sent after all. Nor does any count that it
        follows: each was refused for want of a token.
        """
        followed = set(self._followed(intent))
        for tracked in self._alike.of(fingerprint_of(intent)):
            other = tracked.intent
            if other.intent_id in followed:
                continue
            order = self._orders.get(tracked.order_id or "")
            is_live = tracked.reserves_in_full or (order is not None and order.is_open)
            if tracked.state not in _HARMLESS and (is_live or other.created_at > oldest):
                is_filled = order is not None and order.row.state is OrderState.FILLED
                if is_filled and not is_live and intent.closes_position and other.closes_position:
                    continue
                return other.intent_id
            self._alike.put(tracked, None)
        return None

    def _followed(self, intent: Intent) -> Iterator[str]:
        """Yield what an intent follows, back to the first: each is earlier than the one before."""
        name = intent.follows
        while name is not None:
            yield name
            tracked = self._intents.get(name)
            name = tracked.intent.follows if tracked is not None else None


def look_of(intent: Intent) -> Look:
    """Return the fields of an intent that a row of the day order book shows."""
    return intent.account, intent.trading_date, intent.symbol, intent.side, intent.quantity


def fingerprint_of(intent: Intent) -> Fingerprint:
    """Return the values of which `Intent.fingerprint` is the digest."""
    return look_of(intent), intent.order_type, intent.limit_price
