"""The live loop: take events, store decisions, start their commands, always in this order.

take events ─► engine decides ─► its records are committed ─► they are shown ─► its commands start

Waiting events are taken one by one and stored in one transaction, a batch. An order that may be
sent at once is signed first, so that its attempt is in the transaction of its decision. Nothing is
shown or sent before it is in the journal. A strategy's "no signal" protects nothing, so it waits
for the next commit, at most `lazy_s`, to keep orders from queueing behind it; a commit that an
order waits for leaves it to the next one, unless it led up to that order. Many equal ones become
one row (`DecisionFolder`); each is shown.

While a batch is being committed, operators' requests are processed and take effect at once; their
records go into the next batch. While the journal is out of reach (`Commits`), answers and reads are
processed as well and only market data waits: reads and cancels start at once, a cancel with its
attempt in the emergency journal. Everything else is held back, and stored, shown and started in
order when the journal answers again. An exception while starting a command is a fault, and becomes
the next event; the other commands are still started.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from itertools import groupby
from typing import Final

from bot.clock import monotonic_s
from bot.domain.entry import Decision, Entry, Verdict
from bot.domain.errors import InvariantBroken
from bot.domain.message import (
    AmendAnswered,
    AmendOrder,
    CancelOrder,
    Command,
    DropToken,
    Event,
    FaultFound,
    PlaceAnswered,
    PlaceOrder,
    ReadAccount,
    ReadOrder,
    ReadOrderToCancel,
    ReadTodaysOrders,
    Record,
    TodaysOrdersRead,
)
from bot.domain.order import Intent
from bot.domain.outcome import NotSent
from bot.engine.engine import Engine
from bot.engine.settings import Guard
from bot.journal.errors import OutcomeUnknown, Unreachable
from bot.journal.reading.folding import DecisionFolder
from bot.journal.writing.sends import Send
from bot.runtime.activity import RightOfWay, TimeSlice
from bot.runtime.commits import Commits, Committed
from bot.runtime.inbox import JUST_OPERATORS, Inbox, Urgency
from bot.runtime.worlds.environment import Mark

JOURNAL_RETRY_S: Final = 2.0
EVENTS_MAX: Final = 100
"""Events in a batch, so that its first order does not wait for a whole morning's quotes."""
LAZY_MAX: Final = 1_000
"""With more records than this they no longer wait, however unimportant."""
HELD_MAX: Final = 20_000
"""With this much held back for the journal, reads stay queued; operators' requests do not."""
WITHOUT_JOURNAL: Final = (
    *(CancelOrder, ReadOrder, ReadOrderToCancel, ReadTodaysOrders, ReadAccount),
    DropToken,
)
"""What may start while the journal is out of reach: it risks no money."""
_WRITES: Final = PlaceOrder, CancelOrder, AmendOrder
_LAZY: Final = frozenset({"NO_SIGNAL", "WARMING"})

Show = Callable[[Entry], None]
CarryOut = Callable[[Command], object]
Decided = list[tuple[datetime, Command]]
"""Commands from the engine, with the time of their event."""


class LiveLoop:
    """Feeds the engine and carries out its commands.

    `sign` adds an order's attempt to the sends if it may be sent with its decision, and `committed`
    gets the result. `go_ahead` gets the records of what does not wait for the journal.
    """

    def __init__(
        self,
        *,
        engine: Engine,
        commits: Commits,
        inbox: Inbox,
        time_slice: TimeSlice,
        way: RightOfWay,
        lazy_s: float,
        sign: Callable[[Intent, list[Send]], None],
        committed: Callable[[Send, Committed | None], None],
        carry_out: CarryOut,
        guard: Guard,
        mark: Mark,
        show: Sequence[Show],
        go_ahead: Show,
    ) -> None:
        self._engine = engine
        self._commits = commits
        self._fold = DecisionFolder()
        self._inbox = inbox
        self._slice = time_slice
        self._way = way
        self._lazy_s = lazy_s
        self._sign = sign
        self._committed = committed
        self._carry_out = carry_out
        self._guard = guard
        self._mark = mark
        self._show = show
        self._go_ahead = go_ahead
        self.wake_at: Callable[[datetime | None], object] = lambda _: None
        """Called with the engine's next deadline after each event."""
        self._decided: Decided = []
        """What the next commit will store."""
        self._held: Decided = []
        """Earlier decisions held back because the journal is out of reach."""
        self._storing: Decided = []
        """What is being committed."""
        self._taken = 0
        """Events decided since the last commit began."""
        self.finished = 0
        """Events handled, with their rows in the journal and their commands started."""
        self._at: datetime | None = None
        self._is_due = False
        self._is_leaving = False
        """A write has been started that has not had its turn yet."""
        self._lazy_until = 0.0
        self._is_storing = False
        inbox.on_urgent = self._hear
        commits.on_cut = self._on_cut

    @property
    def unwritten(self) -> Sequence[Entry]:
        """What was decided and is not known to be stored."""
        waiting = [*self._storing, *self._held, *self._decided]
        records = [command.entry for _, command in waiting if isinstance(command, Record)]
        return [*records, *self._fold.waiting]

    @property
    def waiting(self) -> int:
        """How many events wait to be processed or stored."""
        decided = len(self._decided) + len(self._held) + len(self._storing)
        return sum(self._inbox.waiting.values()) + self._taken + decided

    async def run(self, stopped: asyncio.Event) -> None:
        """Handle events until `stopped` is set (by the StopRunning command)."""
        while not stopped.is_set():
            # An event processed during a commit that led to nothing is not finished before the next
            # commit.
            is_left = self._taken and not self._decided
            is_busy = self._is_due or self._engine.is_behind or self._commits.is_cut or is_left
            if not (is_busy or self._inbox.holds(self._least())):
                waits = [self._lazy_until - monotonic_s()] if self._decided else []
                waits += [held_s] if (held_s := self._way.held_s()) else []
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(waits, default=None)):
                        await self._inbox.arrival(self._least())
                self._slice.begin()
            await self.step()
            if self._is_leaving:
                self._is_leaving = False
                await self._slice.let_begin()
            await self._slice.give_way()

    async def finish(self) -> None:
        """Process what still waits, most urgent first, and store it all."""
        self._way = RightOfWay(0)  # the market no longer waits for orders
        while self._inbox.has_more or self._engine.is_behind:
            await self.step()
        self._lazy_s = self._lazy_until = 0.0  # nothing waits any longer
        await self._carry()
        if not self._commits.is_cut and (rest := self._fold.rest()):
            self._storing = [(each.at, Record(each)) for each in rest]
            await self._store(rest, ())
            self._storing = []

    async def halt_for(self, failure: BaseException, at: datetime) -> None:
        """The run has ended by a failure. If that is a broken invariant, halt, tell of it, and keep
        both beside the journal, so that the next start begins halted.
        """

        def again() -> None:
            raise failure

        if isinstance(failure, InvariantBroken) and (fault := self._guard(again)) is not None:
            commands = self._engine.handle(FaultFound(at, "the journal", fault))
            self._let_survive([(at, each) for each in commands])
            await self._commits.kept()

    async def keep_rest(self) -> None:
        """After a failure, look at the answers that have come, and keep beside the journal what
        must survive of all that it does not have. Nothing more is started.
        """
        for event in self._inbox.take_answers():
            self._guard(partial(self._look_at, event))
            self._inbox.done()
        left = [*self._storing, *self._held, *self._decided]
        if self._commits.is_cut:  # all but these were kept then
            left = self._decided
        for _, together in groupby(left, key=lambda each: each[0]):  # a line that is refused costs
            self._let_survive([*together])  # no other event's answer
        await self._commits.kept()

    async def step(self) -> None:
        """Decide on what waits, and carry it out unless it may wait for the next commit."""
        self._decide(self._least())
        is_late = len(self._decided) >= LAZY_MAX or monotonic_s() >= self._lazy_until
        if self._is_due or is_late or not self._decided or self._commits.is_cut:
            await self._carry()

    def _decide(self, least: Urgency) -> None:
        """Have the engine process what waits, for as long as it is our turn."""
        for _ in range(EVENTS_MAX):
            is_behind = self._engine.is_behind
            event = self._inbox.take(Urgency.OPERATOR if is_behind else least)
            if event is not None:
                self._at, self._taken = event.at, self._taken + 1
                commands = self._engine.handle(event)
            elif is_behind and least is not Urgency.OPERATOR:
                commands = self._engine.go_on()
            else:
                break
            assert self._at is not None, "hooks are due by an event"
            if commands and not self._decided:
                self._lazy_until = monotonic_s() + self._lazy_s
            for command in map(self._marked, commands):
                self._decided.append((self._at, command))
                self._is_due = self._is_due or not _is_lazy(command)
            if self._slice.is_over():
                break
        self.wake_at(self._engine.next_due())

    def _look_at(self, event: Event) -> None:
        """Have the engine process an event for its records alone."""
        self._decided += [(event.at, self._marked(each)) for each in self._engine.handle(event)]

    def _marked(self, command: Command) -> Command:
        return Record(self._mark(command.entry)) if isinstance(command, Record) else command

    def _least(self) -> Urgency:
        """Return what is taken: everything, but no market data while the journal is out of reach,
        or, for a moment, while an order is on its way.
        """
        if not self._commits.is_cut:
            return Urgency.READ if self._way.held_s() else Urgency.MARKET
        kind = TodaysOrdersRead if len(self._held) < HELD_MAX else PlaceAnswered
        self._inbox.heard = self._inbox.up_to(kind)
        return self._inbox.heard[-1]

    def _hear(self) -> None:
        """Something has arrived that need not wait for the commit under way."""
        if not self._is_storing:
            return
        is_cut = self._commits.is_cut
        least = self._least() if is_cut else Urgency.OPERATOR
        self._decide(least)
        if is_cut:
            self._hold()
        if self._inbox.holds(least):
            asyncio.get_running_loop().call_soon(self._hear)

    def _on_cut(self) -> None:
        """The journal is out of reach: what it delays may go ahead, and everything except market
        data is processed.
        """
        self._storing = self._ahead(self._storing)
        self._hold()
        self._least()
        asyncio.get_running_loop().call_soon(self._hear)

    def _hold(self) -> None:
        """Hold back what was decided until the journal answers, except what goes ahead."""
        self._held += self._ahead(self._decided)
        self._decided, self._is_due = [], False

    def _ahead(self, decided: Decided) -> Decided:
        """Store what must survive, start what needs no journal, and return the rest."""
        self._let_survive(decided)
        for at, command in decided:
            if isinstance(command, WITHOUT_JOURNAL):
                self._start(at, command)
        return [each for each in decided if not isinstance(each[1], WITHOUT_JOURNAL)]

    def _let_survive(self, decided: Decided) -> None:
        """Keep what must survive beside the journal, and tell of it."""
        records = [command.entry for _, command in decided if isinstance(command, Record)]
        self._commits.keep(records)
        for entry in records:
            self._go_ahead(entry)

    def _start(self, at: datetime, command: Command) -> None:
        self._is_leaving = self._is_leaving or isinstance(command, _WRITES)
        fault = self._guard(partial(self._carry_out, command))
        if fault is not None:
            self._inbox.post(FaultFound(at, type(command).__name__, fault))

    async def _carry(self) -> None:
        """Store everything decided, then show it and start its commands, in order."""
        is_cut = self._commits.is_cut
        if is_cut:
            self._hold()
        now, self._decided = ([], self._decided) if is_cut else self._parted()
        decided = self._storing = [*self._held, *now]
        self._held, self._is_due = [], False
        left = min(self._taken, len(self._decided), 1)  # what waits belongs to an unfinished event
        taken, self._taken = self._taken - left, left
        entries = self._fold.take([it.entry for _, it in decided if isinstance(it, Record)])
        if entries or is_cut:
            orders = [it.intent for _, it in decided if isinstance(it, PlaceOrder)]
            sends: list[Send] = []
            for intent in () if is_cut else orders:
                # A fault in this recurs when the order is placed, and is handled there.
                self._guard(partial(self._sign, intent, sends))
            self._is_storing = True
            try:
                await self._store(entries, sends)
            finally:
                self._is_storing = False
            self._slice.begin()
        decided, self._storing = self._storing, []
        was_cut = self._commits.is_cut
        has_more = bool(self._held or self._decided or self._commits.beside)
        if was_cut and not has_more:
            self._inbox.heard = JUST_OPERATORS
            self._commits.find()
            self._decide(Urgency.OPERATOR)  # the gate opens for what is started now
        waiting: Decided = []
        for at, command in decided:
            if isinstance(command, Record):
                for show in self._show:
                    show(command.entry)
            elif was_cut and has_more:
                waiting.append((at, command))
            elif was_cut and isinstance(command, AmendOrder):  # an order has a TTL, this has none
                never = NotSent("the journal was out of reach")
                self._inbox.post(AmendAnswered(at, command.order_id, never, None, command.asked_at))
            else:
                self._start(at, command)
        self._held[:0] = waiting
        self.finished += taken
        for _ in range(taken):
            self._inbox.done()

    def _parted(self) -> tuple[Decided, Decided]:
        """Separate what was decided from the "no signal" records that may wait: only while orders
        are to be sent, their time is not over, and they are not about an instance of a strategy
        that has ordered. Return both.
        """
        orders = [command.intent for _, command in self._decided if isinstance(command, PlaceOrder)]
        if not orders or monotonic_s() >= self._lazy_until:
            return self._decided, []
        ordered = {(intent.strategy, intent.symbol) for intent in orders}
        parts: tuple[Decided, Decided] = [], []
        for each in self._decided:
            entry = each[1].entry if isinstance(each[1], Record) else None
            is_about = isinstance(entry, Decision) and (entry.strategy, entry.symbol) in ordered
            parts[_is_lazy(each[1]) and not is_about].append(each)
        return parts

    async def _store(self, entries: Sequence[Entry], sends: Sequence[Send]) -> None:
        """Store a batch, however long it takes. What was signed with it is signed again if nothing
        of a first try is stored; while that is in doubt, nothing else is requested.
        """
        is_in_doubt = False
        while True:
            try:
                if self._commits.is_cut and not is_in_doubt:
                    await self._commits.catch_up()
                stored = await self._commits.write(entries, sends)
            except Unreachable as error:
                self._commits.lose(f"the journal can't be written: {error}")
                is_in_doubt = isinstance(error, OutcomeUnknown)
                if not is_in_doubt:
                    for send in sends:
                        self._committed(send, None)
                    sends = ()
                await asyncio.sleep(JOURNAL_RETRY_S)
                continue
            for send, commit in zip(sends, stored.sends, strict=True):
                self._committed(send, commit)
            return


def _is_lazy(command: Command) -> bool:
    """Return whether it is a "no signal" record without consequences: it protects nothing."""
    if not isinstance(command, Record) or not isinstance(command.entry, Decision):
        return False
    return command.entry.verdict is Verdict.SKIPPED and command.entry.code in _LAZY
