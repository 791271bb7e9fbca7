"""A lost place is fenced by its nonce: when it is tried, what ends that, and what a start knows."""

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from datetime import timedelta

import pytest

from bot.clock import boot_id, boottime_ns, wire_ms
from bot.domain.entry import AttemptStarted, Numbers
from bot.domain.message import Event, NonceBurnt
from bot.domain.order import SendState
from bot.domain.outcome import Resolution
from bot.domain.recovery import Recovery, StoredAmend, StoredIntent
from bot.protocol.secret import Secret
from bot.runtime.fence import OTHER_BOOT_S, Fence, KeyOfRun, key_of_run, lost_places
from tests.broker.loopback import START
from tests.broker.played_broker import Desk, Reply, desk
from tests.engine.stage import DAY, attempt_of
from tests.protocol.samples import INTENT

UNUSED = Reply({"error_code": "0", "result": {"user_id": 7}})
USED = Reply({"error_code": "AUTH_NONCE_REUSED", "message": "used"}, 401)
BROKEN = Reply({"error_code": "500", "message": "no"}, 500)
PATIENCE_S = 5.0
"""So long the broken program of a mutation run is waited for."""
CLOSED = Reply({"error_code": "RATE_LIMIT_EXCEEDED", "message": "too many"}, 429)


class Bench:
    """A fence before a broker that gives its replies one after another, on a clock that jumps."""

    def __init__(self, *replies: Reply) -> None:
        self.desk: Desk = desk(*replies)
        self.events: list[Event] = []
        self.fence = Fence(
            self.desk.broker.writer,
            market=self.desk.clock,
            wire=self.desk.clock,
            waiter=self.desk.waiter,
            post=self.events.append,
        )
        self.tasks: list[asyncio.Task[None]] = []

    def attempt(self, name: str = "L-0001") -> AttemptStarted:
        intent = replace(INTENT, intent_id=name)
        return replace(
            attempt_of(intent, START),
            nonce=f"nonce-{name}",
            signed_ms=wire_ms(START),
            boot_id=boot_id(),
            boottime_ns=boottime_ns(),
        )

    def spawn(self, work: Coroutine[object, object, None], name: str) -> asyncio.Task[None]:
        self.tasks.append(asyncio.create_task(work, name=name))
        return self.tasks[-1]

    async def verdict(self) -> NonceBurnt:
        self.fence.hold(self.attempt())
        await self.fence.burn("L-0001")
        [event] = self.events
        assert isinstance(event, NonceBurnt)
        return event

    @property
    def tried_s(self) -> list[float]:
        return [
            int(one.headers["x-fh-timestamp"]) / 1000 - START.timestamp()
            for one in self.desk.played.asked
        ]


async def test_tries_are_spread_over_the_window_and_end_with_it() -> None:
    bench = Bench(BROKEN)

    found = await bench.verdict()

    assert bench.tried_s == [0, 1, 3, 10, 30, 60, 90, 120, 150, 180, 210, 240]
    assert (found.resolution, found.is_proved) == (Resolution.REACHED, False)
    assert found.detail == "the nonce is older than 270 s"
    assert (found.at - START).total_seconds() == 270


@pytest.mark.parametrize(
    ("reply", "resolution"), [(UNUSED, Resolution.FRESH), (USED, Resolution.REACHED)]
)
@pytest.mark.parametrize("lost", [BROKEN, CLOSED])
async def test_the_first_answer_that_settles_it_ends_the_tries(
    reply: Reply, resolution: Resolution, lost: Reply
) -> None:
    bench = Bench(*[lost] * 4, reply)

    found = await bench.verdict()

    assert len(bench.desk.played.asked) == 5
    assert (found.resolution, found.is_proved) == (resolution, True)


async def test_every_try_uses_the_nonce_of_the_place_and_reads() -> None:
    bench = Bench(BROKEN)

    await bench.verdict()

    asked = {(one.method, one.headers["x-fh-nonce"]) for one in bench.desk.played.asked}
    assert asked == {("GET", "nonce-L-0001")}


async def test_a_nonce_that_is_asked_about_twice_is_tried_once_and_told_once() -> None:
    bench = Bench(BROKEN, UNUSED)
    bench.fence.hold(bench.attempt())

    await asyncio.gather(*[bench.fence.burn("L-0001") for _ in range(2)])

    assert (len(bench.events), len(bench.desk.played.asked)) == (1, 2)


async def test_a_nonce_that_is_asked_about_again_is_tried_again() -> None:
    bench = Bench(UNUSED, USED)
    bench.fence.hold(bench.attempt())

    for _ in range(2):
        await bench.fence.burn("L-0001")

    assert len(bench.events) == 2


async def test_a_place_that_has_its_answer_is_not_fenced_any_more() -> None:
    bench = Bench(UNUSED)
    bench.fence.hold(bench.attempt())
    bench.fence.release("L-0001")

    await bench.fence.burn("L-0001")

    [found] = bench.events
    assert isinstance(found, NonceBurnt)
    assert (found.detail, found.is_proved) == ("no nonce to try", False)
    assert not bench.fence.holds("L-0001")
    assert bench.desk.played.asked == []


async def test_a_question_that_is_settled_otherwise_ends_the_tries() -> None:
    bench = Bench(BROKEN)
    bench.fence.is_asked = lambda _: len(bench.desk.played.asked) < 3

    found = await bench.verdict()

    assert len(bench.desk.played.asked) == 3
    assert not found.is_proved


@pytest.mark.parametrize(("age_s", "is_tried"), [(239, True), (241, False)])
async def test_after_a_reboot_the_wall_clock_is_believed_less_its_worst_error(
    age_s: float, *, is_tried: bool
) -> None:
    bench = Bench(UNUSED)
    bench.desk.clock.advance_to(START + timedelta(seconds=age_s))
    bench.fence.hold(replace(bench.attempt(), boot_id="another boot"))

    await bench.fence.burn("L-0001")

    assert OTHER_BOOT_S == 30
    assert bool(bench.desk.played.asked) is is_tried


@pytest.mark.parametrize(("age_s", "is_tried"), [(268, True), (270, False)])
async def test_a_wall_clock_that_was_set_back_makes_no_nonce_younger(
    age_s: float, *, is_tried: bool
) -> None:
    bench = Bench(UNUSED)
    signed_ns = boottime_ns() - round(age_s * 1e9)
    bench.fence.hold(replace(bench.attempt(), boottime_ns=signed_ns))

    await bench.fence.burn("L-0001")

    [found] = bench.events
    assert isinstance(found, NonceBurnt)
    assert (found.resolution is Resolution.FRESH, found.is_proved) == (is_tried, is_tried)
    assert bool(bench.desk.played.asked) is is_tried


async def test_an_answer_that_comes_after_the_window_proves_nothing() -> None:
    bench = Bench(UNUSED)
    bench.fence.hold(bench.attempt())
    slow = bench.desk.broker.writer.burn

    async def burn(nonce: str) -> object:
        bench.desk.clock.advance_to(START + timedelta(seconds=270))
        return await slow(nonce)

    bench.desk.broker.writer.burn = burn  # type: ignore[method-assign, assignment]

    await bench.fence.burn("L-0001")

    [found] = bench.events
    assert isinstance(found, NonceBurnt)
    assert (found.resolution, found.is_proved) == (Resolution.REACHED, False)


OLD, NEW = Secret("ak_live_0000000000000000"), Secret("ak_live_1111111111111111")


def _start(key: Secret, before: Numbers, *lost: AttemptStarted) -> KeyOfRun:
    return key_of_run(key, before, lost, START)


@pytest.mark.parametrize(("key", "is_other"), [(OLD, False), (NEW, True)])
def test_a_start_sees_whether_its_key_is_another_than_the_last_ones(
    key: Secret, *, is_other: bool
) -> None:
    attempt = Bench().attempt()

    found = _start(key, _start(OLD, {}).facts, attempt)

    assert found.of_others == ({attempt.attempt_id} if is_other else set())


def test_what_another_key_has_signed_stays_so_at_later_starts_until_it_is_settled() -> None:
    first, second = [replace(Bench().attempt(), attempt_id=name) for name in ("a-1", "a-2")]
    changed = _start(NEW, _start(OLD, {}).facts, first)

    again = _start(NEW, changed.facts, first, second)

    assert again.of_others == {"a-1"}
    assert _start(NEW, again.facts, second).of_others == set()
    assert _start(OLD, again.facts, first, second).of_others == {"a-1", "a-2"}


@pytest.mark.parametrize("before", [{}, {"by": "ann", "mode": "live"}])
def test_a_start_without_an_earlier_one_that_noted_its_key_tries_every_nonce(
    before: Numbers,
) -> None:
    assert _start(NEW, before, Bench().attempt()).of_others == set()


def test_what_is_noted_of_a_key_does_not_tell_it() -> None:
    texts = [str(_start(key, {}).facts["key"]) for key in (OLD, NEW)]
    later = key_of_run(OLD, {}, [], START + timedelta(seconds=1)).mark

    assert all(len(text.partition(" ")[2]) == 8 for text in texts)
    assert len({text.partition(" ")[2] for text in (*texts, later)}) == 3
    assert not any("ak_live" in text for text in texts)


@pytest.mark.parametrize("is_at_start", [True, False])
async def test_a_nonce_signed_with_another_key_is_not_tried_and_proves_nothing(
    *, is_at_start: bool
) -> None:
    bench = Bench(UNUSED)
    attempt = bench.attempt()
    bench.fence.key = KeyOfRun(of_others=frozenset({attempt.attempt_id}))

    if is_at_start:
        await bench.fence.begin([attempt], bench.spawn)
        await bench.fence.burn("L-0001")
        [found] = bench.events
    else:
        found = await bench.verdict()

    assert isinstance(found, NonceBurnt)
    assert (found.resolution, found.is_proved) == (Resolution.REACHED, False)
    assert found.detail == "it was signed with another key"
    assert bench.desk.played.asked == []


def test_what_a_start_fences_are_places_that_may_arrive_and_amendments_without_an_answer() -> None:
    post = attempt_of(INTENT, START)
    intents = [
        StoredIntent(INTENT, state, None, replace(post, attempt_id=state)) for state in SendState
    ]
    put = replace(post, verb="PUT")
    asked = StoredAmend("ORD1", put, None, 27_000, None, 26_900, "operator", "nearer")
    amends = [
        replace(asked, attempt=replace(put, attempt_id=f"PUT {outcome}"), outcome=outcome)
        for outcome in (None, "UNKNOWN", "ACCEPTED", "REFUSED", "NOT_SENT")
    ]
    unsent = StoredIntent(INTENT, SendState.SENDING, None, None)

    found = lost_places(Recovery(DAY, intents=(*intents, unsent), amends=tuple(amends)))

    posts = ["SENDING", "UNKNOWN", "MATCHED", "AMBIGUOUS"]
    assert sorted(each.attempt_id for each in found) == sorted([*posts, "PUT None", "PUT UNKNOWN"])


async def test_a_start_tries_each_lost_place_before_anything_else_and_tells_when_asked() -> None:
    bench = Bench(UNUSED, USED)

    await bench.fence.begin([bench.attempt("L-0001"), bench.attempt("L-0002")], bench.spawn)
    assert (bench.events, len(bench.desk.played.asked)) == ([], 2)
    for name in ("L-0001", "L-0002"):
        await bench.fence.burn(name)

    found = [event.resolution for event in bench.events if isinstance(event, NonceBurnt)]
    assert found == [Resolution.FRESH, Resolution.REACHED]
    assert len(bench.desk.played.asked) == 2


async def test_what_a_start_could_not_settle_goes_on_beside_it_and_is_told_once() -> None:
    bench = Bench(BROKEN, BROKEN, BROKEN, UNUSED)
    await bench.fence.begin([bench.attempt()], bench.spawn)
    assert len(bench.desk.played.asked) == 1

    await bench.fence.burn("L-0001")
    await asyncio.gather(*bench.tasks)

    [found] = bench.events
    assert isinstance(found, NonceBurnt)
    assert found.resolution is Resolution.FRESH


async def test_a_stop_ends_the_wait_between_two_tries() -> None:
    bench = Bench(BROKEN)
    asleep = asyncio.Event()

    async def never(_: object) -> None:
        asleep.set()
        await asyncio.Event().wait()

    bench.desk.waiter.sleep_until = never  # type: ignore[method-assign, assignment]
    bench.fence.hold(bench.attempt())
    task = asyncio.create_task(bench.fence.burn("L-0001"))
    async with asyncio.timeout(PATIENCE_S):
        await asleep.wait()

    bench.fence.stop()

    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(PATIENCE_S):
            await task
    assert bench.events == []
