"""One POST per intent, ever; what is committed before it, and what is known after it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from pathlib import Path

import pytest

from bot.broker.writes import Objection, SignedRequest
from bot.domain.entry import AttemptStarted, Entry, IntentMoved, RunState, StateChanged
from bot.domain.message import (
    AmendAnswered,
    AmendOrder,
    CancelAnswered,
    CancelOrder,
    Event,
    NonceBurnt,
    PlaceAnswered,
    SendStarted,
    TodaysOrdersRead,
    TwoFactorMissing,
)
from bot.domain.order import OrderState, SendState
from bot.domain.outcome import Accepted, NotSent, Outcome, Refused, Resolution, Unknown
from bot.domain.recovery import StoredIntent
from bot.engine.index import SeenIds
from bot.journal.errors import OutcomeUnknown
from bot.journal.journal import Journal
from bot.journal.writing.sends import Send
from bot.journal.writing.storing import Verdicts
from bot.protocol.endpoints.endpoint import Lane
from bot.protocol.envelope import Answer, NoAnswer
from bot.runtime.commits import Committed
from tests.staging import START, Stage, intent, scenario, set_stage

POST = {"verb": "POST", "path": "*/orders"}


@pytest.fixture
async def stage(
    request: pytest.FixtureRequest, tmp_path: Path, sqlite_url: str
) -> AsyncIterator[Stage]:
    """A stage; a test that is parametrised indirectly names its faults."""
    faults = getattr(request, "param", [])
    made = await set_stage(tmp_path, sqlite_url, scenario(faults=faults))
    yield made
    await made.strike()


def _answer(stage: Stage) -> PlaceAnswered:
    [answer] = [event for event in stage.events if isinstance(event, PlaceAnswered)]
    return answer


async def test_an_accepted_place_is_one_order_and_says_when_it_left(stage: Stage) -> None:
    wanted = await stage.ready(intent())

    await stage.orders.place(wanted)

    answer = _answer(stage)
    assert isinstance(answer.outcome, Accepted)
    assert answer.outcome.result.state is OrderState.ACCEPTED
    assert stage.placed() == [answer.outcome.result.order_id]
    kinds = [type(event) for event in stage.events]
    assert kinds.index(SendStarted) < kinds.index(PlaceAnswered)


@pytest.mark.parametrize("change", ["place", "cancel", "amend"])
async def test_a_token_that_ended_after_the_signature_is_told_of_before_the_answer(
    stage: Stage, change: str
) -> None:
    wanted = await stage.ready(intent())
    if change == "place":
        working = stage.orders.place(wanted)
    elif change == "cancel":
        cancel = CancelOrder("ORD1", wanted.intent_id, wanted.account, "test")
        working = stage.orders.cancel(cancel)
    else:
        amend = AmendOrder("ORD1", wanted.intent_id, wanted.account, 26_000, None, "test")
        working = stage.orders.amend(amend)
    stage.broker.two_factor.drop()
    stage.events.clear()

    await working

    answers = (PlaceAnswered, CancelAnswered, AmendAnswered)
    told = [each for each in stage.events if isinstance(each, (TwoFactorMissing, *answers))]
    missing, answer = told
    assert isinstance(missing, TwoFactorMissing)
    assert (missing.code, missing.is_needed) == ("OTP_SESSION_REQUIRED", True)
    assert isinstance(answer, answers)
    assert isinstance(answer.outcome, NotSent)
    assert answer.outcome.reason.startswith("TWO_FACTOR")
    assert stage.placed() == []


async def test_an_order_has_the_right_of_way_until_its_answer(stage: Stage) -> None:
    wanted, way = await stage.ready(intent()), stage.orders.way

    sent = stage.orders.place(wanted)
    poll = asyncio.create_task(way.clear())
    await asyncio.sleep(0)

    assert not poll.done()
    await sent
    await asyncio.wait_for(poll, 30)


@pytest.mark.parametrize(
    "stage",
    [
        [{"match": POST, "point": "after_apply", "action": {"do": "rst"}}],
        [{"match": POST, "point": "after_apply", "action": {"do": "status", "status": 502}}],
        [{"match": POST, "action": {"do": "truncate", "length": 40}}],
    ],
    indirect=True,
    ids=["reset", "502", "truncated"],
)
async def test_a_lost_reply_is_unknown_and_its_burnt_nonce_says_reached(stage: Stage) -> None:
    wanted = await stage.ready(intent())

    await stage.orders.place(wanted)
    await stage.fence.burn(wanted.intent_id)

    assert isinstance(_answer(stage).outcome, Unknown)
    assert len(stage.placed()) == 1
    [burnt] = [event for event in stage.events if isinstance(event, NonceBurnt)]
    assert burnt.resolution is Resolution.REACHED


@pytest.mark.parametrize(
    "stage",
    [[{"match": POST, "point": "before_auth", "action": {"do": "rst"}}]],
    indirect=True,
)
async def test_a_place_lost_on_its_way_is_unknown_and_its_burnt_nonce_says_fresh(
    stage: Stage,
) -> None:
    wanted = await stage.ready(intent())

    await stage.orders.place(wanted)
    await stage.fence.burn(wanted.intent_id)

    assert isinstance(_answer(stage).outcome, Unknown)
    assert stage.placed() == []
    [burnt] = [event for event in stage.events if isinstance(event, NonceBurnt)]
    assert burnt.resolution is Resolution.FRESH


@pytest.mark.parametrize(
    "stage",
    [[{"match": POST, "point": "before_auth", "action": {"do": "rst"}}]],
    indirect=True,
)
async def test_a_burn_after_the_nonce_window_proves_nothing(stage: Stage) -> None:
    wanted = await stage.ready(intent())
    await stage.orders.place(wanted)
    stage.clock.advance_to(START + timedelta(seconds=271))

    await stage.fence.burn(wanted.intent_id)

    [burnt] = [event for event in stage.events if isinstance(event, NonceBurnt)]
    assert burnt.resolution is Resolution.REACHED
    assert burnt.detail == "the nonce is older than 270 s"


async def test_the_attempt_is_committed_before_the_first_byte(stage: Stage) -> None:
    wanted = await stage.ready(intent())
    seen: list[StoredIntent] = []
    send = stage.broker.writer.send

    class Looking:
        """The real writer, with a look into the database at the moment of sending."""

        def __getattr__(self, name: str) -> object:
            return getattr(stage.broker.writer, name)

        async def send(self, signed: SignedRequest, objection: Objection) -> Answer | NoAnswer:
            seen.extend((await stage.journal.recover(wanted.trading_date)).intents)
            return await send(signed, objection)

    stage.orders._writer = Looking()  # type: ignore[assignment]
    await stage.orders.place(wanted)

    [stored] = seen
    assert stored.state is SendState.SENDING
    assert stored.attempt is not None


async def test_a_signal_past_its_time_is_not_sent(stage: Stage) -> None:
    wanted = await stage.ready(intent(ttl_at=START - timedelta(seconds=1)))

    await stage.orders.place(wanted)

    answer = _answer(stage)
    assert isinstance(answer.outcome, NotSent)
    assert answer.finished is None
    assert stage.placed() == []


async def test_an_order_that_waited_while_the_gate_was_closed_is_not_sent(stage: Stage) -> None:
    wanted = await stage.ready(intent())
    stage.closed.append("PAUSED: lunch")

    await stage.orders.place(wanted)

    assert _answer(stage).outcome == NotSent("PAUSED: lunch")
    assert stage.placed() == []


async def test_a_gate_that_closes_before_the_first_byte_keeps_the_order_back(stage: Stage) -> None:
    wanted = await stage.ready(intent())

    def halt_when_the_bytes_are_about_to_leave(event: Event) -> None:
        stage.events.append(event)
        stage.closed.append("HALTED: stop it")

    stage.orders._post = halt_when_the_bytes_are_about_to_leave

    await stage.orders.place(wanted)

    answer = _answer(stage)
    assert answer.outcome == NotSent("HALTED: stop it")
    assert answer.finished is not None
    assert stage.placed() == []


async def test_a_second_intent_of_one_fingerprint_waits_for_the_first_to_be_known(
    stage: Stage,
) -> None:
    first, twin = await stage.ready(intent(1)), await stage.ready(intent(2))
    await stage.journal.write(
        [IntentMoved(START, first.intent_id, SendState.READY, SendState.SENDING, "a test")]
    )

    await stage.orders.place(twin)

    assert isinstance(_answer(stage).outcome, NotSent)
    assert stage.placed() == []


@pytest.mark.parametrize(
    "stage",
    [[{"match": POST, "action": {"do": "reject", "code": "-900017"}}]],
    indirect=True,
)
async def test_a_rejection_inside_200_is_a_refusal_with_its_reason(stage: Stage) -> None:
    wanted = await stage.ready(intent())

    await stage.orders.place(wanted)

    outcome = _answer(stage).outcome
    assert isinstance(outcome, Refused)
    assert (outcome.code, outcome.http_status) == ("-900017", 200)
    assert outcome.result is not None
    assert outcome.result.order_id in stage.day_order_book.known()  # its answer can't be another's


async def test_a_cancel_is_journalled_as_an_attempt_of_its_own(
    stage: Stage, sqlite_url: str
) -> None:
    wanted = await stage.ready(intent())
    await stage.orders.place(wanted)
    outcome = _answer(stage).outcome
    assert isinstance(outcome, Accepted)

    await stage.orders.cancel(
        CancelOrder(outcome.result.order_id, wanted.intent_id, wanted.account, "a test")
    )

    [answer] = [event for event in stage.events if isinstance(event, CancelAnswered)]
    assert isinstance(answer.outcome, Accepted)
    assert stage.orders_in_ledger()[-1]["status"] == "CANCELLED"


async def test_a_cancel_whose_entry_took_too_long_is_not_sent_as_it_was_signed(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker would refuse it by its time (401), as if our key were bad."""
    wanted = await stage.ready(intent())
    await stage.orders.place(wanted)
    outcome = _answer(stage).outcome
    assert isinstance(outcome, Accepted)
    cancel = CancelOrder(outcome.result.order_id, wanted.intent_id, wanted.account, "a test")
    protect = stage.orders._commits.protect

    async def slowly(started: AttemptStarted) -> Committed:
        stage.clock.advance_to(stage.clock.now() + timedelta(seconds=31))
        return await protect(started)

    monkeypatch.setattr(stage.orders._commits, "protect", slowly)
    await stage.orders.cancel(cancel)
    monkeypatch.undo()
    await stage.orders.cancel(cancel)

    late, answer = [event for event in stage.events if isinstance(event, CancelAnswered)]
    assert late.outcome == NotSent("it was signed 31.0 s ago (limit 15 s)")
    assert isinstance(answer.outcome, Accepted)


async def _ready_to_amend(stage: Stage) -> AmendOrder:
    """An order that works at the broker, and a command to change its price."""
    wanted = await stage.ready(intent())
    await stage.orders.place(wanted)
    outcome = _answer(stage).outcome
    assert isinstance(outcome, Accepted)
    order_id, price = outcome.result.order_id, (wanted.limit_price or 0) - 50
    account, at = wanted.account, wanted.created_at
    return AmendOrder(order_id, wanted.intent_id, account, price, None, "a test", at)


def _amended(stage: Stage) -> AmendAnswered:
    [answer] = [event for event in stage.events if isinstance(event, AmendAnswered)]
    return answer


async def test_an_amendment_leaves_while_the_gate_is_open(stage: Stage) -> None:
    command = await _ready_to_amend(stage)

    await stage.orders.amend(command)

    assert isinstance(_amended(stage).outcome, Accepted)
    assert _amended(stage).asked_at == command.asked_at
    assert stage.orders_in_ledger()[-1]["price"] == command.limit_price


async def test_an_amendment_does_not_leave_when_the_gate_has_closed(stage: Stage) -> None:
    command = await _ready_to_amend(stage)
    stage.closed.append("HALTED: stop it")

    await stage.orders.amend(command)

    assert _amended(stage).outcome == NotSent("HALTED: stop it")
    assert stage.orders_in_ledger()[-1]["price"] != command.limit_price


async def test_an_amendment_does_not_leave_when_the_journal_says_halted(stage: Stage) -> None:
    command = await _ready_to_amend(stage)
    await stage.journal.write(
        [StateChanged(START, RunState.RUNNING, RunState.HALTED, "stop it", "operator")]
    )

    await stage.orders.amend(command)

    answer = _amended(stage)
    assert answer.outcome == NotSent("halted (all): stop it")
    assert answer.finished is None
    assert stage.orders_in_ledger()[-1]["price"] != command.limit_price


# ------------------------------------------------------------------------- attacks on one place


class Forgetful:
    """The real journal, whose connection is lost around the commit of the first attempt."""

    def __init__(self, journal: Journal, *, is_done: bool) -> None:
        self._journal = journal
        self._is_done = is_done
        self.losses = 1

    def __getattr__(self, name: str) -> object:
        return getattr(self._journal, name)

    async def write(self, entries: Sequence[Entry], sends: Sequence[Send] = ()) -> Verdicts:
        if self.losses == 0 and self._is_done:
            return tuple(None for _ in sends)  # the journal remembers that it has stored these
        if self.losses == 0 or self._is_done:
            await self._journal.write(entries, sends)
        if self.losses:
            self.losses -= 1
            raise OutcomeUnknown("connection lost", database="test")
        return tuple(None for _ in sends)


@pytest.mark.parametrize("is_done", [True, False])
async def test_a_commit_in_doubt_sends_nothing_and_ends_in_one_whole_story(
    stage: Stage, *, is_done: bool
) -> None:
    wanted = await stage.ready(intent())
    stage.orders._commits._journal = Forgetful(stage.journal, is_done=is_done)  # type: ignore[assignment]

    await stage.orders.place(wanted)

    [started] = [event for event in stage.events if isinstance(event, SendStarted)]
    answer = _answer(stage)
    assert started.intent_id == wanted.intent_id
    assert isinstance(answer.outcome, NotSent)
    assert answer.finished is not None
    assert stage.placed() == []
    [stored] = (await stage.journal.recover(wanted.trading_date)).intents
    assert stored.state is SendState.SENDING


async def test_a_place_held_up_by_the_quota_past_its_time_is_not_sent(stage: Stage) -> None:
    wanted = await stage.ready(intent())
    clock = stage.clock

    class Slow:
        """The real budget, in which nine seconds pass before the place may leave."""

        def __getattr__(self, name: str) -> object:
            return getattr(budget, name)

        async def take(self, lane: Lane, call: str, *, wait_max: timedelta) -> datetime:
            if lane is Lane.PLACE:
                clock.advance_to(clock.now() + timedelta(seconds=9))
            return await budget.take(lane, call, wait_max=wait_max)

    budget = stage.broker.budget
    stage.broker.writer._sender._budget = Slow()  # type: ignore[assignment]
    await stage.orders.place(wanted)

    answer = _answer(stage)
    assert isinstance(answer.outcome, NotSent)
    assert answer.outcome.reason == "the signal was 9.0 s old (limit 5 s)"
    assert stage.placed() == []


@pytest.mark.parametrize(
    "stage",
    [[{"match": POST, "point": "before_auth", "action": {"do": "rst"}}]],
    indirect=True,
)
async def test_after_a_reboot_an_age_near_the_window_proves_nothing(stage: Stage) -> None:
    wanted = await stage.ready(intent())
    await stage.orders.place(wanted)
    [stored] = (await stage.journal.recover(wanted.trading_date)).intents
    assert stored.attempt is not None
    stage.clock.advance_to(START + timedelta(seconds=250))
    stage.fence.hold(replace(stored.attempt, boot_id="another boot"))

    await stage.fence.burn(wanted.intent_id)

    [burnt] = [event for event in stage.events if isinstance(event, NonceBurnt)]
    assert burnt.resolution is Resolution.REACHED


# --------------------------------------------------------------- the last look before a send

BOOK = {"verb": "GET", "path": "*/accounts/*/order-book"}
UNREADABLE = [{"match": {**BOOK, "times": 0}, "action": {"do": "status", "status": 500}}]


@pytest.mark.parametrize("stage", [UNREADABLE], indirect=True)
async def test_no_order_leaves_while_the_day_book_cannot_be_read(stage: Stage) -> None:
    wanted = await stage.ready(intent())

    await stage.orders.place(wanted)

    outcome = _answer(stage).outcome
    assert isinstance(outcome, NotSent)
    assert "the day order book has not been read yet; reading it again failed" in outcome.reason
    assert stage.placed() == []


@pytest.mark.parametrize(
    ("age_s", "reason"),
    [(5.0, None), (6.2, "the day order book was read 6.2 s ago, limit 5 s; reading it again")],
)
@pytest.mark.parametrize(
    "stage",
    [
        [
            {
                "match": {**BOOK, "at": "09:20:01", "times": 0},
                "action": {"do": "status", "status": 500},
            }
        ]
    ],
    indirect=True,
)
async def test_an_order_kept_back_for_an_old_day_book_says_how_old_it_is(
    stage: Stage, age_s: float, reason: str | None
) -> None:
    await stage.day_order_book.read()
    stage.clock.advance_to(START + timedelta(seconds=age_s))
    wanted = await stage.ready(intent(ttl_at=START + timedelta(seconds=60)))

    await stage.orders.place(wanted)

    outcome = _answer(stage).outcome
    if reason is None:
        assert isinstance(outcome, Accepted)
    else:
        assert isinstance(outcome, NotSent)
        assert outcome.reason.startswith(reason)


async def test_the_age_of_the_day_book_is_none_of_a_faster_market_clock(stage: Stage) -> None:
    passed = [100.0]
    stage.day_order_book.elapsed_s = lambda: passed[-1]
    await stage.day_order_book.read()
    reads = len(stage.events)
    stage.clock.advance_to(START + timedelta(minutes=1))
    passed.append(101.0)

    assert await stage.day_order_book.reason_of_age(timedelta(seconds=5)) is None
    assert len(stage.events) == reads
    passed.append(105.1)
    assert await stage.day_order_book.reason_of_age(timedelta(seconds=5)) is None
    assert len(stage.events) == reads + 1


async def test_a_day_book_too_old_for_an_order_is_read_while_its_decision_is_committed_and_once(
    stage: Stage,
) -> None:
    wanted, sends = await stage.ready(intent()), list[Send]()
    for _ in range(2):
        stage.orders.sign(wanted, sends)
    await asyncio.sleep(0)
    reading = [each.get_name() for each in asyncio.all_tasks()]

    await stage.orders.place(wanted)

    assert sends == []
    assert reading.count("day order book") == 1
    assert isinstance(_answer(stage).outcome, Accepted)
    assert sum(isinstance(event, TodaysOrdersRead) for event in stage.events) == 1


@pytest.mark.parametrize(("late_s", "is_sent"), [(0, True), (0.001, False)])
async def test_a_signal_leaves_until_the_last_instant_of_its_time_and_not_after(
    stage: Stage, late_s: float, *, is_sent: bool
) -> None:
    wanted = await stage.ready(intent())
    stage.clock.advance_to(START + timedelta(seconds=5 + late_s))

    await stage.orders.place(wanted)

    assert isinstance(_answer(stage).outcome, Accepted if is_sent else NotSent)
    assert len(stage.placed()) == is_sent


def _ids(stage: Stage) -> tuple[str, ...]:
    return stage.day_order_book.known().after(0)


async def test_an_accepted_order_is_known_before_the_day_book_shows_it(stage: Stage) -> None:
    await stage.orders.place(await stage.ready(intent()))

    assert list(_ids(stage)) == stage.placed()


@pytest.mark.parametrize(
    ("answered_s", "resolution"), [(269.9, Resolution.FRESH), (270.1, Resolution.REACHED)]
)
@pytest.mark.parametrize(
    "stage",
    [[{"match": POST, "point": "before_auth", "action": {"do": "rst"}}]],
    indirect=True,
)
async def test_a_burn_whose_answer_comes_after_the_window_proves_nothing(
    stage: Stage, answered_s: float, resolution: Resolution
) -> None:
    await stage.orders.place(await stage.ready(intent()))
    stage.clock.advance_to(START + timedelta(seconds=269))

    class Late:
        """The real writer, whose burn takes until `answered_s` after the send."""

        def __getattr__(self, name: str) -> object:
            return getattr(stage.broker.writer, name)

        async def burn(self, nonce: str) -> Answer | NoAnswer:
            answer = await stage.broker.writer.burn(nonce)
            stage.clock.advance_to(START + timedelta(seconds=answered_s))
            return answer

    stage.fence._writer = Late()  # type: ignore[assignment]
    await stage.fence.burn("L-0001")

    [burnt] = [event for event in stage.events if isinstance(event, NonceBurnt)]
    assert burnt.resolution is resolution


class Faulty:
    """The real writer, one of whose methods raises what nobody foresaw."""

    def __init__(self, writer: object, broken: str) -> None:
        self._writer = writer
        self._broken = broken

    def __getattr__(self, name: str) -> object:
        if name == self._broken:
            raise KeyError(name)
        return getattr(self._writer, name)


@pytest.mark.parametrize(
    ("broken", "outcome"),
    [("prepare_place", NotSent("engine fault")), ("send", Unknown("engine fault"))],
)
async def test_a_place_that_ends_with_a_fault_is_answered_for(
    stage: Stage, broken: str, outcome: Outcome
) -> None:
    wanted = await stage.ready(intent())
    stage.orders._writer = Faulty(stage.broker.writer, broken)  # type: ignore[assignment]
    task = asyncio.ensure_future(stage.orders.place(wanted))
    await asyncio.wait([task])

    stage.orders.settle(wanted, task)

    assert _answer(stage).outcome == outcome


async def test_a_place_that_ended_well_or_was_cut_off_is_not_answered_for_twice(
    stage: Stage,
) -> None:
    wanted = await stage.ready(intent())
    task = asyncio.ensure_future(stage.orders.place(wanted))
    await asyncio.wait([task])
    cut = asyncio.ensure_future(asyncio.sleep(0))
    cut.cancel()
    await asyncio.wait([cut])

    stage.orders.settle(wanted, task)
    stage.orders.settle(wanted, cut)

    assert isinstance(_answer(stage).outcome, Accepted)


async def test_ids_of_another_day_are_forgotten(stage: Stage) -> None:
    await stage.day_order_book.read()
    stage.day_order_book.ids.add("ORD10000001")
    await stage.day_order_book.read()
    assert _ids(stage) == ("ORD10000001",)

    stage.clock.advance_to(START + timedelta(days=1))
    await stage.day_order_book.read()

    assert _ids(stage) == ()


FIRST = "ORD10000001"


@pytest.mark.parametrize(
    "stage",
    [
        [
            {
                "match": {**POST, "nth": 2},
                "action": {"do": "swap_row", "field": "order_id", "value": FIRST},
            },
        ]
    ],
    indirect=True,
)
async def test_an_answer_with_the_id_of_an_order_that_left_beside_it_is_unknown(
    stage: Stage,
) -> None:
    both = [
        await stage.ready(intent(number, limit_price=25_900 + number * 50)) for number in (1, 2)
    ]

    await asyncio.gather(*map(stage.orders.place, both))

    answers = [event for event in stage.events if isinstance(event, PlaceAnswered)]
    outcomes = {answer.intent_id: answer.outcome for answer in answers}
    assert isinstance(outcomes["L-0001"], Accepted)
    assert outcomes["L-0002"] == Unknown("the answer names an order that was known before", 200)
    await stage.day_order_book.read()
    assert _ids(stage) == (FIRST, "ORD10000002")


@pytest.mark.parametrize("number", [1, 2])
async def test_refusals_without_an_order_id_are_refusals(
    tmp_path: Path, sqlite_url: str, number: int
) -> None:
    reject = {"match": {**POST, "times": 0}, "action": {"do": "reject"}}
    script = scenario(faults=[reject], switches={"rejected_order_id": "empty"})
    stage = await set_stage(tmp_path, sqlite_url, script)

    for each in range(1, number + 1):
        await stage.orders.place(await stage.ready(intent(each, limit_price=25_900 + each * 50)))

    outcomes = [event.outcome for event in stage.events if isinstance(event, PlaceAnswered)]
    assert [type(outcome) for outcome in outcomes] == [Refused] * number
    await stage.strike()


YESTERDAYS = {"txdate": "2026-11-18"}


@pytest.mark.parametrize(
    "stage",
    [[{"match": {**BOOK, "times": 0}, "action": {"do": "set_fields", "fields": YESTERDAYS}}]],
    indirect=True,
)
async def test_an_id_in_a_list_of_yesterday_is_free_for_an_order_of_today(stage: Stage) -> None:
    await stage.orders.place(await stage.ready(intent()))
    stage.day_order_book.ids = SeenIds()

    await stage.day_order_book.read()

    [read] = [each for each in stage.events if isinstance(each, TodaysOrdersRead) and each.reports]
    assert [row.trading_date for row in read.reports] == [date(2026, 11, 18)]
    assert _ids(stage) == ()
