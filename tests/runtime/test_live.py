"""The live loop: what is one transaction, what waits for which, and what a failure leaves."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from datetime import time, timedelta
from itertools import groupby
from pathlib import Path

import pytest
import sqlalchemy as sa

from bot.broker.writes import Objection, SignedRequest
from bot.domain.entry import (
    AttemptStarted,
    Decision,
    Entry,
    IntentMoved,
    Note,
    RunState,
    StateChanged,
    Verdict,
)
from bot.domain.message import (
    CancelOrder,
    Command,
    Event,
    InstrumentsRead,
    Noted,
    PlaceAnswered,
    PlaceOrder,
    ReadAccount,
    ReadTodaysOrders,
    Reconciled,
    Recovered,
    TimerFired,
)
from bot.domain.operations import Action, CancelAsked, OperatorActed
from bot.domain.order import SendState
from bot.domain.outcome import Accepted, NotSent
from bot.domain.recovery import Recovery
from bot.engine.engine import Engine
from bot.engine.settings import EngineSettings, LoadedStrategy, invoke_plainly
from bot.journal.errors import OutcomeUnknown, Unreachable
from bot.journal.journal import Journal
from bot.journal.writing.sends import Send
from bot.protocol.envelope import Answer, NoAnswer
from bot.runtime import activity, live
from bot.runtime.activity import Activity, RightOfWay, TimeSlice
from bot.runtime.commits import Commits, Stored
from bot.runtime.inbox import BY_URGENCY, Inbox
from bot.runtime.live import LiveLoop
from bot.runtime.supervisor import FaultGuard
from bot.runtime.worlds.environment import REAL_TIME
from bot.strategy import Strategy
from tests import staging
from tests.engine import stage as engine_stage
from tests.engine.stage import PLAN, RULEBOOK
from tests.staging import DAY, START, commits_of, set_stage

NOW = engine_stage.START
SKIP = Decision(NOW, "test", "HPG", Verdict.SKIPPED, "NO_SIGNAL", "nothing to see")
PAUSE = OperatorActed(NOW, Action.PAUSE, "lunch", "operator")
HALT = replace(PAUSE, action=Action.HALT)
STATEMENTS_MAX = 15
"""What the decision and the attempt of an order take on SQLite: begin, commit, one question, six
rows and six heads.
"""
PLACED = TimerFired(NOW, PLAN.name, time(9, 30))

LOOK = TimerFired(NOW, "another", time(9, 30))
CANCEL = CancelOrder("ORD1", "L-0001", "a", "halt")


def _told(number: int) -> Noted:
    return Noted(NOW, Note(NOW, "PULSE", str(number)))


class Watched:
    """The real journal; `writes` are what it was given, `troubles` what it raises first."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.writes: list[tuple[tuple[Entry, ...], tuple[Send, ...]]] = []
        self.troubles: list[Exception] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.stored = 0
        self.written = asyncio.Event()

    async def take_over(self, entries: Sequence[Entry]) -> int:
        return await self._journal.take_over(entries)

    def stalled_s(self) -> float:
        return self._journal.stalled_s()

    def is_watched(self) -> bool:
        return self._journal.is_watched()

    async def write(
        self, entries: Sequence[Entry], sends: Sequence[Send] = ()
    ) -> tuple[str | None, ...]:
        self.writes.append((tuple(entries), tuple(sends)))
        self.written.set()
        await self.gate.wait()
        if self.troubles:
            raise self.troubles.pop(0)
        verdicts = await self._journal.write(entries, sends)
        self.stored += 1
        return verdicts


@dataclass
class Room:
    """A loop over a real engine, journal, order manager and sandbox, and nothing else."""

    stage: staging.Stage
    market: engine_stage.Stage
    journal: Watched
    inbox: Inbox
    loop: LiveLoop
    shown: list[tuple[Entry, int]]
    """What was shown, and how many writes were stored then."""
    troubles: list[str]
    begun: list[Command]
    places: list[asyncio.Task[None]]

    def buy(self) -> None:
        """Have the strategy ask for an order at the next timer."""
        self.market._requesters.append(lambda it: it.buy(100, limit=26_000))
        self.inbox.post(PLACED)

    async def answers(self) -> list[PlaceAnswered]:
        """Let all places end."""
        await asyncio.gather(*self.places)
        return [event for event in self.stage.events if isinstance(event, PlaceAnswered)]


@pytest.fixture
async def room(tmp_path: Path, sqlite_url: str) -> AsyncIterator[Room]:
    made = await _room(tmp_path, sqlite_url)
    yield made
    await made.stage.strike()


async def _room(folder: Path, url: str, *, lazy_s: float = 1000) -> Room:
    """`lazy_s`: nothing in a test may wait so long by itself."""
    stage, market = await set_stage(folder, url), engine_stage.Stage()
    await stage.day_order_book.read()
    stage.clock.advance_to(NOW)
    stage.day_order_book.elapsed_s = START.timestamp
    stage.orders._gate = market.engine.reason_not_to_send
    journal, inbox = Watched(stage.journal), Inbox(Activity())
    inbox.rank(BY_URGENCY)
    shown, troubles = list[tuple[Entry, int]](), list[str]()
    begun, places = list[Command](), list[asyncio.Task[None]]()

    def carry_out(command: Command) -> None:
        begun.append(command)
        if isinstance(command, PlaceOrder):
            places.append(asyncio.ensure_future(stage.orders.place(command.intent)))

    loop = LiveLoop(
        engine=market.engine,
        commits=commits_of(journal, folder, inbox.post, stage.clock, troubles.append),  # type: ignore[arg-type]
        inbox=inbox,
        time_slice=TimeSlice(1000),
        way=stage.orders.way,
        lazy_s=lazy_s,
        sign=stage.orders.sign,
        committed=stage.orders.committed,
        carry_out=carry_out,
        guard=FaultGuard(folder).guard,
        mark=lambda entry: entry,
        show=(lambda entry: shown.append((entry, journal.stored)),),
        go_ahead=lambda _: None,
    )
    return Room(stage, market, journal, inbox, loop, shown, troubles, begun, places)


# ------------------------------------------------------------------------------------ batches


async def test_what_waits_is_one_transaction_and_is_shown_in_order_after_it(room: Room) -> None:
    for number in range(3):
        room.inbox.post(_told(number))

    await room.loop.step()

    [(entries, _)] = room.journal.writes
    assert [getattr(entry, "text", "") for entry in entries] == ["0", "1", "2"]
    assert room.shown == [(entry, 1) for entry in entries]


async def test_a_batch_gives_what_its_events_give_one_by_one(
    tmp_path: Path, room: Room, sqlite_url: str
) -> None:
    """The double: a loop whose slices hold one event."""
    room.loop._slice = TimeSlice(0)
    events: list[Event] = [_told(1), PAUSE, _told(2), replace(PAUSE, action=Action.RESUME), PLACED]
    for event in events:
        room.inbox.post(event)
    room.inbox.rank(BY_URGENCY)
    await room.loop.finish()
    one_by_one = [entry for entry, _ in room.shown]
    await room.stage.strike()

    (tmp_path / "again").mkdir()
    again = await _room(tmp_path / "again", sqlite_url)
    for event in events:
        again.inbox.post(event)
    await again.loop.finish()

    assert [entry for entry, _ in again.shown] == one_by_one
    assert len(room.journal.writes) > len(again.journal.writes) == 1
    room.stage = again.stage


async def test_a_command_that_raises_is_a_fault_and_the_others_are_begun(
    tmp_path: Path, sqlite_url: str
) -> None:
    room = await _room(tmp_path, sqlite_url)
    engine = Engine(
        rulebook=RULEBOOK, strategies=[], settings=EngineSettings(), invoke=invoke_plainly
    )
    room.loop._engine = engine

    def carry_out(command: Command) -> None:
        if isinstance(command, ReadTodaysOrders):
            raise OSError(28, "no space", str(command))
        room.begun.append(command)

    room.loop._carry_out = carry_out
    room.inbox.post(Recovered(START, Recovery(DAY)))
    await room.loop.step()
    assert room.inbox.has_more
    await room.loop.step()

    assert [type(each) for each in room.begun] == [ReadAccount]
    assert engine.status().faults[0].where == "ReadTodaysOrders"
    assert engine.status().reason == "engine fault"
    await room.stage.strike()


async def test_a_fault_in_the_middle_of_a_batch_takes_nothing_of_it_back(
    room: Room, tmp_path: Path
) -> None:
    room.inbox.post(_told(1))
    room.market._requesters.append(lambda _: 1 / 0)  # type: ignore[arg-type]
    room.market.engine._state.guard = FaultGuard(tmp_path).guard
    room.inbox.post(PLACED)
    room.inbox.post(_told(2))

    await room.loop.finish()

    notes = [entry.kind for entry, _ in room.shown if isinstance(entry, Note)]
    assert sorted(notes) == ["FAULT", "PULSE", "PULSE"]
    assert room.market.engine.status().state is RunState.HALTED
    assert len(room.journal.writes) == 1


@pytest.mark.parametrize(
    ("ask", "looks_after"), [(PAUSE, ["PAUSED", "PAUSED"]), (HALT, [])], ids=["pause", "halt"]
)
async def test_an_operator_comes_before_the_hooks_that_an_event_has_left_due(
    room: Room, ask: OperatorActed, looks_after: Sequence[str]
) -> None:
    """Three symbols are decided on in one event, with the request made after the first. A halt
    wakes no strategy any more.
    """
    symbols = ("HPG", "SSI", "VCB")
    listed = tuple(replace(engine_stage.HPG, symbol=each) for each in symbols)
    hooks = {"on_timer": lambda self, _: self.buy(100, limit=26_000)}
    buyer = type("Buyer", (Strategy,), hooks)
    engine = Engine(
        rulebook=RULEBOOK,
        strategies=[LoadedStrategy(replace(PLAN, symbols=symbols), buyer, listed)],
        settings=EngineSettings(),
        invoke=invoke_plainly,
        must_yield=lambda: True,
    )
    room.loop._engine, room.loop._slice = engine, TimeSlice(0)
    for event in (Recovered(NOW, Recovery(DAY)), InstrumentsRead(NOW, listed), Reconciled(NOW)):
        engine.handle(event)

    room.inbox.post(PLACED)
    await room.loop.step()
    room.inbox.post(_told(1))
    room.inbox.ask(ask)
    await room.loop.finish()

    shown = [entry for entry, _ in room.shown if isinstance(entry, Decision | Note)]
    first, *after, told = shown
    assert isinstance(first, Decision)
    assert first.code != "PAUSED"
    assert [entry.code for entry in after if isinstance(entry, Decision)] == looks_after
    assert [type(entry) for entry in (*after, told)] == [Decision] * len(looks_after) + [Note]


@pytest.mark.parametrize(
    ("ask", "state"), [(PAUSE, RunState.PAUSED), (HALT, RunState.HALTED)], ids=["pause", "halt"]
)
@pytest.mark.parametrize("think_s", [0.001, 0.005, 0.020])
async def test_in_real_time_an_ask_takes_effect_within_100_ms_of_a_flood_s_thinking(
    room: Room,
    monkeypatch: pytest.MonkeyPatch,
    think_s: float,
    ask: OperatorActed,
    state: RunState,
) -> None:
    """Time passes only as the engine thinks; a request takes some turns of the loop to arrive, and
    so does the end of a commit.
    """
    spent, engine, stopped = [0.0], room.loop._engine, asyncio.Event()
    handle = engine.handle

    def thinking(event: Event) -> Sequence[Command]:
        spent[0] += think_s
        return handle(event)

    async def committing(_entries: object, _sends: object) -> Stored:
        for _ in range(activity.TURNS_MAX):
            await asyncio.sleep(0)
        return Stored("", ())

    for module in (activity, live):
        monkeypatch.setattr(module, "monotonic_s", lambda: spent[0])
    monkeypatch.setattr(room.loop._commits, "write", committing)
    monkeypatch.setattr(engine, "handle", thinking)
    room.loop._slice = TimeSlice(REAL_TIME.slice_s)
    room.inbox.rank(REAL_TIME.ranking)
    for number in range(1_000):
        room.inbox.post(_told(number))
    running = asyncio.create_task(room.loop.run(stopped))

    for _ in range(3 * activity.TURNS_MAX):
        await asyncio.sleep(0)
    room.inbox.ask(ask)
    for _ in range(activity.TURNS_MAX):
        await asyncio.sleep(0)
    holds, held_at = engine.status().state is state, spent[0]
    stopped.set()

    assert (holds, held_at <= 0.1) == (True, True)
    assert room.inbox.has_more
    await running


# ------------------------------------------------------------------------ taken back before it left


@pytest.mark.parametrize("wish", ["all", "one", "strategy"])
@pytest.mark.parametrize("waits_for", ["its commit", "a slot", "the request budget"])
async def test_what_is_to_be_cancelled_before_it_left_never_leaves(
    room: Room, monkeypatch: pytest.MonkeyPatch, waits_for: str, wish: str
) -> None:
    orders, engine, may_send = room.stage.orders, room.market.engine, asyncio.Event()
    if waits_for == "a slot":
        orders._slots = asyncio.Semaphore(0)
        orders._max_in_flight = 0  # so it is not signed with its decision either
    if waits_for == "the request budget":
        send = orders._writer.send

        async def waiting(signed: SignedRequest, objection: Objection) -> Answer | NoAnswer:
            await may_send.wait()
            return await send(signed, objection)

        monkeypatch.setattr(orders._writer, "send", waiting)
    room.buy()
    if waits_for == "its commit":
        room.journal.gate.clear()
        deciding = asyncio.ensure_future(room.loop.step())
        await room.journal.written.wait()
    else:
        deciding = asyncio.ensure_future(room.loop.step())
        await deciding
        await _turns()
        _hand_over(room)
    if wish == "strategy":
        room.market._requesters.append(lambda it: it.cancel(why="too dear"))
        engine.handle(PLACED)
    else:
        named = "L-0001" if wish == "one" else None
        cancel = CancelAsked(NOW, named, "operator", "too dear")
        assert engine.objection(cancel) is None
        engine.handle(cancel)

    room.journal.gate.set()
    may_send.set()
    orders._slots.release()
    await deciding
    [answer] = await room.answers()
    reserved = engine._state.pending_intents()
    engine.handle(answer)

    assert room.stage.placed() == []
    assert answer.outcome == NotSent("cancelled before it left: too dear")
    assert (len(reserved), len(engine._state.pending_intents())) == (1, 0)
    [told] = [each for kind, each in room.market.told if kind == "reject"]
    assert (told.code, told.reason) == ("NOT_SENT", "cancelled before it left: too dear")


async def _turns() -> None:
    for _ in range(activity.TURNS_MAX):
        await asyncio.sleep(0)


def _hand_over(room: Room) -> None:
    """Tell the engine what the order manager has posted."""
    for event in room.stage.events:
        room.market.engine.handle(event)
    room.stage.events.clear()


# --------------------------------------------------------------------- decisions without a signal


async def test_a_no_signal_waits_for_the_next_commit_and_is_shown_only_then(room: Room) -> None:
    room.inbox.post(Noted(NOW, SKIP))
    await room.loop.step()
    assert (room.journal.writes, room.shown) == ([], [])

    room.inbox.post(_told(1))
    await room.loop.step()

    [(entries, _)] = room.journal.writes
    assert [type(entry) for entry in entries] == [Decision, Note]
    assert [stored for _, stored in room.shown] == [1, 1]


async def test_a_no_signal_waits_no_longer_than_it_may(tmp_path: Path, sqlite_url: str) -> None:
    room = await _room(tmp_path, sqlite_url, lazy_s=0.01)
    stopped = asyncio.Event()
    running = asyncio.ensure_future(room.loop.run(stopped))

    room.inbox.post(Noted(NOW, SKIP))
    await asyncio.wait_for(room.journal.written.wait(), 30)
    await room.loop._inbox._activity.idle()

    assert room.shown == [(SKIP, 1)]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await room.stage.strike()


async def test_an_event_heard_during_a_commit_is_over_when_nothing_follows_from_it(
    room: Room,
) -> None:
    """A stepped clock stands still until it is."""
    room.journal.gate.clear()
    room.inbox.post(_told(1))
    running = asyncio.ensure_future(room.loop.run(asyncio.Event()))
    await room.journal.written.wait()

    room.inbox.ask(InstrumentsRead(NOW, ()))
    await asyncio.sleep(0)
    assert not room.inbox.has_more
    room.journal.gate.set()

    await asyncio.wait_for(room.inbox._activity.idle(), 30)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_equal_nos_are_shown_each_and_stored_as_the_first_and_the_last(room: Room) -> None:
    skips = [replace(SKIP, at=NOW + timedelta(seconds=number)) for number in range(5)]
    for skip in skips:
        room.inbox.post(Noted(skip.at, skip))
    await room.loop.step()

    await room.loop.finish()

    written = [entry for entries, _ in room.journal.writes for entry in entries]
    assert [entry for entry, _ in room.shown] == skips
    assert [(entry.at, getattr(entry, "numbers", {}).get("folded")) for entry in written] == [
        (skips[0].at, None),
        (skips[-1].at, 4),
    ]


async def test_a_no_signal_is_stored_at_a_clean_stop(room: Room) -> None:
    room.inbox.post(Noted(NOW, SKIP))
    await room.loop.step()

    await room.loop.finish()

    assert room.shown == [(SKIP, 1)]


async def test_an_order_waits_for_no_strangers_no_but_for_what_led_up_to_it(room: Room) -> None:
    mine = replace(SKIP, strategy=PLAN.name)
    stranger, other_symbol = replace(SKIP, strategy="another"), replace(mine, symbol="SSI")
    for skip in (stranger, mine, other_symbol):
        room.inbox.post(Noted(NOW, skip))
    room.buy()

    await room.loop.step()

    [(entries, [_])] = room.journal.writes
    shown = [entry for entry, _ in room.shown]
    assert entries[0] == shown[0] == mine
    assert stranger not in shown
    assert other_symbol not in shown
    assert not room.inbox._activity.is_idle

    await room.answers()
    await room.loop.finish()

    later = [entry for entry, _ in room.shown[len(shown) :]]
    assert later == [stranger, other_symbol]
    assert room.inbox._activity.is_idle


async def test_a_no_whose_time_is_over_is_stored_with_an_order(
    tmp_path: Path, sqlite_url: str
) -> None:
    room = await _room(tmp_path, sqlite_url, lazy_s=0)
    stranger = replace(SKIP, strategy="another")
    room.inbox.post(Noted(NOW, stranger))
    room.buy()

    await room.loop.step()

    assert room.shown[0] == (stranger, 1)
    await room.answers()
    await room.stage.strike()


async def test_of_many_no_signals_only_so_many_wait(room: Room) -> None:
    for _ in range(live.LAZY_MAX):
        room.inbox.post(Noted(NOW, SKIP))

    while room.inbox.has_more:
        await room.loop.step()

    assert len(room.shown) == live.LAZY_MAX


async def test_any_other_no_is_stored_at_once(room: Room) -> None:
    blocked = replace(SKIP, verdict=Verdict.BLOCKED, code="NO_SIGNAL")
    for entry in (replace(SKIP, code="ORDER_WORKING"), blocked):
        room.inbox.post(Noted(NOW, entry))
        await room.loop.step()

    assert len(room.journal.writes) == 2


# ------------------------------------------------------------------ an order with its decision


async def test_a_decision_and_its_attempt_are_one_transaction_before_the_first_byte(
    room: Room,
) -> None:
    seen: list[int] = []
    send = room.stage.broker.writer.send

    class Looking:
        """The real writer, which looks at what is stored when it is to send."""

        def __getattr__(self, name: str) -> object:
            return getattr(room.stage.broker.writer, name)

        async def send(self, signed: SignedRequest, objection: Objection) -> Answer | NoAnswer:
            seen.append(room.journal.stored)
            [stored] = (await room.stage.journal.recover(DAY)).intents
            assert stored.state is SendState.SENDING
            assert stored.attempt is not None
            assert stored.attempt.body_sha256 == signed.body_sha256
            return await send(signed, objection)

    room.stage.orders._writer = Looking()  # type: ignore[assignment]
    room.buy()
    await room.loop.step()
    [answer] = await room.answers()

    [(entries, [sent])] = room.journal.writes
    assert [type(entry) for entry in entries][:1] == [Decision]
    assert isinstance(sent.entries[0], AttemptStarted)
    assert seen == [1]
    assert isinstance(answer.outcome, Accepted)
    assert len(room.stage.placed()) == 1


async def test_from_decision_to_first_byte_an_order_takes_few_statements(
    tmp_path: Path, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the journal needs once only, it has asked for with an earlier order."""
    ran, before = list[str](), list[str]()

    def connected(connection: sqlite3.Connection, _: object) -> None:
        connection.set_trace_callback(ran.append)

    sa.event.listen(sa.pool.Pool, "connect", connected)
    try:
        room = await _room(tmp_path, sqlite_url)
        send = room.stage.broker.writer.send

        async def looking(signed: SignedRequest, objection: Objection) -> Answer | NoAnswer:
            before[:] = [text for text, _ in groupby(ran)]  # each trigger tells its own once more
            return await send(signed, objection)

        monkeypatch.setattr(room.stage.broker.writer, "send", looking)
        earlier = replace(staging.intent(9, limit_price=25_000), created_at=NOW, ttl_at=NOW)
        room.stage.orders._gate = lambda *_: None
        await room.stage.orders.place(await room.stage.ready(earlier))
        room.buy()
        ran.clear()
        await room.loop.step()
        await room.answers()
    finally:
        sa.event.remove(sa.pool.Pool, "connect", connected)
    assert (before[0], before[-1]) == ("BEGIN IMMEDIATE", "COMMIT")
    assert len(before) <= STATEMENTS_MAX, "\n".join(before)
    await room.stage.strike()


async def test_an_order_whose_day_book_is_too_old_is_signed_when_that_is_read(room: Room) -> None:
    room.stage.day_order_book.elapsed_s = NOW.timestamp
    room.buy()

    await room.loop.step()
    [answer] = await room.answers()

    assert [len(sends) for _, sends in room.journal.writes] == [0]
    assert isinstance(answer.outcome, Accepted)


async def test_a_day_book_that_is_too_old_is_read_while_the_decision_is_being_committed(
    room: Room,
) -> None:
    book, read, stored = room.stage.day_order_book, asyncio.Event(), list[int]()

    def post(_: Event) -> None:
        stored.append(room.journal.stored)
        read.set()

    book.elapsed_s, book.post = NOW.timestamp, post
    room.buy()
    room.journal.gate.clear()
    step = asyncio.ensure_future(room.loop.step())

    await asyncio.wait_for(read.wait(), 30)
    room.journal.gate.set()
    await step
    [answer] = await room.answers()

    assert stored == [0], "one read, before anything is stored"
    assert isinstance(answer.outcome, Accepted)


async def test_only_as_many_orders_are_signed_with_their_decisions_as_may_be_in_flight(
    room: Room,
) -> None:
    intents = [staging.intent(number, limit_price=25_000 + 100 * number) for number in range(1, 7)]
    intents = [replace(each, created_at=NOW, ttl_at=NOW) for each in intents]
    room.stage.orders._gate = lambda _: None

    sends = list[Send]()
    for each in intents:
        room.stage.orders.sign(each, sends)

    assert [send.fingerprint for send in sends] == [each.fingerprint for each in intents[:4]]


async def test_an_order_that_can_not_be_signed_takes_no_decision_with_it(room: Room) -> None:
    class Broken:
        """The real writer, which can sign nothing."""

        def __getattr__(self, name: str) -> object:
            return getattr(room.stage.broker.writer, name)

        def prepare_place(self, *_: object) -> SignedRequest:
            raise AssertionError("a price fits the order type")

    room.stage.orders._writer = Broken()  # type: ignore[assignment]
    room.buy()

    await room.loop.step()

    [place] = room.places
    await asyncio.wait({place})
    assert isinstance(place.exception(), AssertionError)
    [(entries, sends)] = room.journal.writes
    assert ([entry for entry, _ in room.shown], sends) == (list(entries), ())
    assert room.stage.placed() == []


async def test_a_halt_between_commit_and_first_byte_keeps_the_order_back(room: Room) -> None:
    room.buy()
    room.journal.gate.clear()
    step = asyncio.ensure_future(room.loop.step())
    await room.journal.written.wait()

    room.inbox.ask(HALT)
    await asyncio.sleep(0)
    assert room.market.engine.status().state is RunState.HALTED
    room.journal.gate.set()
    await step
    await room.loop.step()
    [answer] = await room.answers()

    assert isinstance(answer.outcome, NotSent)
    assert answer.outcome.reason.startswith("HALTED")
    assert room.stage.placed() == []
    first, second = ([type(entry) for entry in entries] for entries, _ in room.journal.writes)
    assert StateChanged not in first
    assert StateChanged in second


async def test_a_twin_that_the_journal_knows_keeps_only_its_order_back(room: Room) -> None:
    twin = await room.stage.ready(staging.intent(9))
    sent = IntentMoved(NOW, twin.intent_id, SendState.READY, SendState.SENDING, "a test")
    await room.stage.journal.write([sent])
    room.buy()

    await room.loop.step()
    [answer] = await room.answers()

    assert isinstance(answer.outcome, NotSent)
    assert "unresolved" in answer.outcome.reason
    assert room.stage.placed() == []
    assert any(isinstance(entry, Decision) for entry, _ in room.shown)


# ---------------------------------------------------------------------------- orders go first


class Seen:
    """The real engine and writer: what they are given and do, in order. Nobody answers a look."""

    def __init__(self, room: Room) -> None:
        self.told: list[str] = []
        self._more = asyncio.Event()
        self._engine, self._writer = room.loop._engine, room.stage.broker.writer
        room.loop._engine = room.stage.orders._writer = self  # type: ignore[assignment]

    def __getattr__(self, name: str) -> object:
        return getattr(self._engine if hasattr(self._engine, name) else self._writer, name)

    def tell(self, what: str) -> None:
        self.told.append(what)
        self._more.set()

    async def until(self, count: int) -> list[str]:
        """Wait until so much has happened."""
        while len(self.told) < count:
            self._more.clear()
            await asyncio.wait_for(self._more.wait(), 30)
        return self.told

    def handle(self, event: Event) -> Sequence[Command]:
        self.tell("look" if event == LOOK else type(event).__name__)
        if isinstance(event, Reconciled):
            return [CANCEL]
        return [] if event == LOOK else self._engine.handle(event)

    async def send(self, signed: SignedRequest, objection: Objection) -> Answer | NoAnswer:
        def leaving() -> str | None:
            self.tell("bytes leave")
            return objection()

        answer = await self._writer.send(signed, leaving)
        self.tell("answered")
        return answer


async def _end(room: Room, running: asyncio.Task[None], stopped: asyncio.Event) -> None:
    stopped.set()
    room.inbox.ask(PAUSE)
    await running


@pytest.mark.parametrize("hold_s", [0, 30])
async def test_an_orders_bytes_leave_before_a_batch_of_waiting_looks_is_handled(
    room: Room, hold_s: float
) -> None:
    """Without a hold too: a write that has been started gets its turn before the next batch."""
    room.loop._way = room.stage.orders.way = RightOfWay(hold_s)
    seen, stopped = Seen(room), asyncio.Event()
    room.journal.gate.clear()
    room.buy()
    running = asyncio.create_task(room.loop.run(stopped))
    await room.journal.written.wait()

    for _ in range(10):
        room.inbox.post(LOOK)
    room.journal.gate.set()
    await seen.until(3)
    await room.answers()
    room.inbox.post(_told(1))
    told = [each for each in await seen.until(15) if each != "Noted"]

    looks, left = ["look"] * 10, ["bytes leave", "bytes leave"]
    after = [*left, "answered", *looks] if hold_s else [*left, *looks, "answered"]
    assert told == ["TimerFired", *after]
    await _end(room, running, stopped)


async def test_a_send_that_never_ends_holds_the_market_for_a_moment_only(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    spent, stopped = [100.0], asyncio.Event()
    for module in (activity, live):
        monkeypatch.setattr(module, "monotonic_s", lambda: spent[0])
    way = room.loop._way = RightOfWay(REAL_TIME.hold_s)
    way.begin()
    seen = Seen(room)
    room.loop._show = (lambda _: seen.tell("shown"),)
    running = asyncio.create_task(room.loop.run(stopped))

    room.inbox.post(LOOK)
    room.inbox.post(_told(1))
    assert await seen.until(2) == ["Noted", "shown"]
    spent[0] += 0.099
    room.inbox.post(_told(2))
    assert await seen.until(4) == ["Noted", "shown"] * 2
    way.begin()
    spent[0] += 0.001  # nothing else wakes the loop
    assert (await seen.until(5))[4:] == ["look"]

    way.begin()
    room.inbox.post(LOOK)
    assert (await seen.until(6))[5:] == ["look"]
    await _end(room, running, stopped)


async def test_reads_cancels_and_operators_do_not_wait_while_an_order_holds_the_market(
    room: Room,
) -> None:
    way = room.loop._way = RightOfWay(30)
    way.begin()
    seen, stopped = Seen(room), asyncio.Event()
    room.inbox.post(LOOK)
    room.inbox.post(Reconciled(NOW))
    running = asyncio.create_task(room.loop.run(stopped))

    await seen.until(1)
    room.inbox.ask(PAUSE)

    assert await seen.until(2) == ["Reconciled", "OperatorActed"]
    assert room.begun == [CANCEL]
    await _end(room, running, stopped)


async def test_a_cancel_takes_its_first_step_before_the_next_batch(room: Room) -> None:
    seen, stopped, tasks = Seen(room), asyncio.Event(), list[asyncio.Task[None]]()

    async def cancel() -> None:
        seen.tell("first step")

    def carry_out(_: Command) -> None:
        tasks.append(asyncio.create_task(cancel()))
        room.inbox.post(LOOK)

    room.loop._carry_out = carry_out
    room.inbox.post(Reconciled(NOW))
    running = asyncio.create_task(room.loop.run(stopped))

    assert await seen.until(3) == ["Reconciled", "first step", "look"]
    await asyncio.gather(*tasks)
    await _end(room, running, stopped)


async def test_at_the_end_the_market_waits_for_no_order(room: Room) -> None:
    way = room.loop._way = RightOfWay(1)
    way.begin()
    seen, steps = Seen(room), list[None]()
    step = room.loop.step

    async def counted() -> None:
        steps.append(None)
        await step()

    room.loop.step = counted  # type: ignore[method-assign]
    room.inbox.post(LOOK)

    await room.loop.finish()

    assert (seen.told, len(steps)) == (["look"], 1)


# ------------------------------------------------------------------------------- a failing journal


async def test_a_journal_that_comes_back_stores_the_batch_and_its_order_is_signed_anew(
    room: Room,
) -> None:
    room.journal.troubles.append(Unreachable("disk full", database="test"))
    room.buy()

    while not room.places:
        await room.loop.step()
    [answer] = await room.answers()

    (entries, [_]), (again, none), *_ = room.journal.writes
    assert (again, none) == (entries, ())
    assert [text.split(" (since")[0].split(" after")[0] for text in room.troubles] == [
        "the journal can't be written: can't reach test (disk full)",
        "the journal answers again",
    ]
    assert isinstance(answer.outcome, Accepted)
    assert len(room.stage.placed()) == 1


async def test_a_commit_in_doubt_is_asked_about_with_the_same_and_its_order_does_not_leave(
    room: Room,
) -> None:
    room.journal.troubles.append(OutcomeUnknown("connection lost", database="test"))
    room.buy()

    while not room.places:
        await room.loop.step()
    [answer] = await room.answers()

    first, second, *_ = room.journal.writes
    assert first == second
    assert isinstance(answer.outcome, NotSent)
    assert answer.finished is not None
    assert room.stage.placed() == []
    [stored] = (await room.stage.journal.recover(DAY)).intents
    assert stored.state is SendState.SENDING


async def test_a_signature_that_has_waited_too_long_is_not_sent(room: Room) -> None:
    wanted = replace(staging.intent(), created_at=NOW, ttl_at=NOW.replace(hour=9))
    await room.stage.ready(wanted)
    room.stage.orders._gate = lambda _: None
    sends = list[Send]()
    room.stage.orders.sign(wanted, sends)
    [send] = sends
    [commit] = (await room.stage.orders._commits.write([], [send])).sends
    room.stage.orders.committed(send, commit)
    room.stage.clock.advance_to(NOW.replace(second=16))

    await room.stage.orders.place(wanted)

    [answer] = await room.answers()
    assert answer.outcome == NotSent("it was signed 16.0 s ago (limit 15 s)")
    assert room.stage.placed() == []


async def test_a_commit_in_doubt_for_minutes_is_asked_about_with_the_same_again(room: Room) -> None:
    class Doubtful:
        """The real commits, with a doubt that lasts, and nothing kept beside that can be stored."""

        def __init__(self, commits: Commits) -> None:
            self._commits = commits
            self.asked: list[tuple[tuple[Entry, ...], tuple[Send, ...]]] = []

        def __getattr__(self, name: str) -> object:
            return getattr(self._commits, name)

        async def write(self, entries: Sequence[Entry], sends: Sequence[Send]) -> Stored:
            self.asked.append((tuple(entries), tuple(sends)))
            if len(self.asked) == 1:
                raise OutcomeUnknown("connection lost", database="test")
            return await self._commits.write(entries, sends)

        async def catch_up(self) -> None:
            if len(self.asked) == 1:
                raise Unreachable("connection refused", database="test")
            await self._commits.catch_up()

    doubtful = Doubtful(room.loop._commits)
    room.loop._commits = doubtful  # type: ignore[assignment]
    room.buy()

    while not room.places:
        await room.loop.step()
    await room.answers()

    assert len(doubtful.asked[0][1]) == 1
    assert doubtful.asked[1] == doubtful.asked[0]
