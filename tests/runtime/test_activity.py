"""Counting what is under way, and taking turns."""

import asyncio
import math

import pytest

from bot.runtime import activity
from bot.runtime.activity import Activity, AllAtOnce, OneAtATime, RightOfWay, Tasks, TimeSlice


def ignore(_error: BaseException) -> None:
    """What goes wrong is not what these tests are about."""


async def _note(log: list[str], name: str, rounds: int) -> None:
    for _ in range(rounds):
        log.append(name)
        await asyncio.sleep(0)


async def test_activity_is_idle_only_when_everything_has_ended() -> None:
    activity = Activity()

    activity.begin()
    activity.begin()
    activity.end()

    assert not activity.is_idle
    activity.end()
    await asyncio.wait_for(activity.idle(), 30)


async def test_ending_what_never_began_is_a_bug() -> None:
    with pytest.raises(AssertionError):
        Activity().end()


@pytest.mark.parametrize(
    ("turn", "told"),
    [
        (OneAtATime, ["a", "a", "a", "b", "b", "b"]),
        (AllAtOnce, ["a", "b", "a", "b", "a", "b"]),
    ],
)
async def test_turns_decide_whether_work_interleaves(
    turn: type[OneAtATime | AllAtOnce], told: list[str]
) -> None:
    activity, log = Activity(), list[str]()
    tasks = Tasks(activity, turn(), on_bug=ignore)

    tasks.spawn(_note(log, "a", 3), "a")
    tasks.spawn(_note(log, "b", 3), "b")
    assert not activity.is_idle
    await activity.idle()

    assert log == told


async def test_work_that_raises_is_reported_and_counted_as_ended() -> None:
    activity, bugs = Activity(), list[BaseException]()
    tasks = Tasks(activity, OneAtATime(), bugs.append)

    async def broken() -> None:
        raise KeyError("x")

    tasks.spawn(broken(), "broken")
    await activity.idle()

    assert [type(bug) for bug in bugs] == [KeyError]


async def test_drain_ends_what_takes_too_long_and_says_how_much() -> None:
    activity = Activity()
    tasks = Tasks(activity, OneAtATime(), on_bug=ignore)
    tasks.spawn(asyncio.sleep(60), "long")
    tasks.spawn(asyncio.sleep(60), "behind it")

    cut = await tasks.drain(0.01)

    assert (cut, tasks.running, activity.is_idle) == (2, 0, True)


async def is_held(way: RightOfWay) -> bool:
    poll = asyncio.create_task(way.clear())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    is_held = not poll.done()
    poll.cancel()
    await asyncio.gather(poll, return_exceptions=True)
    return is_held


async def test_a_poll_waits_until_no_order_is_on_its_way() -> None:
    way = RightOfWay(hold_s=30)
    assert not await is_held(way)
    way.begin()
    way.begin()
    poll = asyncio.create_task(way.clear())

    way.end()

    assert await is_held(way)
    way.end()
    await asyncio.wait_for(poll, 30)
    assert not await is_held(way)


async def test_a_poll_waits_no_longer_than_is_good_for_it() -> None:
    way = RightOfWay(hold_s=0.001)
    way.begin()

    await asyncio.wait_for(way.clear(), 30)


async def test_on_a_stepped_clock_nothing_waits_for_an_order() -> None:
    way = RightOfWay(hold_s=0)
    way.begin()

    assert not await is_held(way)


@pytest.mark.parametrize(("slice_s", "told"), [(1000, ["a"]), (math.inf, [])])
async def test_what_was_started_gets_its_turn_but_not_on_a_stepped_clock(
    slice_s: float, told: list[str]
) -> None:
    log: list[str] = []
    work = asyncio.create_task(_note(log, "a", 1))

    await TimeSlice(slice_s).let_begin()

    assert log == told
    await work


def test_market_data_waits_for_an_order_but_not_longer_for_order_upon_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]
    monkeypatch.setattr(activity, "monotonic_s", lambda: now[0])
    way = RightOfWay(hold_s=2)
    assert way.held_s() == 0
    way.begin()
    now[0] = 10
    assert way.held_s() == 2
    now[0] = 11
    way.begin()
    way.end()
    assert way.held_s() == 1
    way.end()
    way.begin()
    now[0] = 12
    assert way.held_s() == 0
    now[0] = 13
    assert way.held_s() == 0
    way.end()

    assert way.held_s() == 0
    way.begin()

    assert way.held_s() == 2
