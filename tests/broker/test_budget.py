"""One budget, lanes in order, and what a 429 does to it."""

import asyncio
import itertools
from datetime import datetime, timedelta
from heapq import heappop, heappush
from random import Random

import pytest

from bot.broker.budget import LANE_SHARE_PERCENT, RESET_AFTER_MAX, WINDOW, RequestBudget
from bot.broker.errors import RateLimited
from bot.clock import SimulatedClock
from bot.protocol.endpoints.endpoint import Lane
from tests.broker.loopback import START, JumpingWaiter

HOUR = timedelta(hours=1)


class SteppingWaiter:
    """Everybody sleeps; the test steps the clock from one instant waited for to the next."""

    def __init__(self) -> None:
        self.clock = SimulatedClock(START)
        self._sleeping: list[tuple[datetime, int, asyncio.Future[None]]] = []
        self._number = 0

    def now(self) -> datetime:
        return self.clock.now()

    async def sleep_until(self, instant: datetime) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._number += 1
        heappush(self._sleeping, (instant, self._number, future))
        await future

    async def run(self, tasks: list[asyncio.Task[None]]) -> None:
        while not all(task.done() for task in tasks):
            await asyncio.sleep(0)
            if self._sleeping:
                instant, _, future = heappop(self._sleeping)
                self.clock.advance_to(max(instant, self.clock.now()))
                future.set_result(None)
                await asyncio.sleep(0)
                await asyncio.sleep(0)


def budget_of(per_minute: int, waiter: JumpingWaiter | SteppingWaiter) -> RequestBudget:
    return RequestBudget(per_minute=per_minute, waiter=waiter, jitter=Random(7))


def jumping() -> JumpingWaiter:
    return JumpingWaiter(SimulatedClock(START))


async def take(budget: RequestBudget, lane: Lane = Lane.CANCEL, count: int = 1) -> None:
    for _ in range(count):
        await budget.take(lane, "call", wait_max=HOUR)


def test_every_lane_has_a_share_and_an_earlier_lane_never_less():
    shares = [LANE_SHARE_PERCENT[lane] for lane in Lane]

    assert list(LANE_SHARE_PERCENT) == list(Lane)
    assert shares == sorted(shares, reverse=True)


async def test_requests_within_the_quota_never_wait():
    waiter = jumping()

    await take(budget_of(60, waiter), count=60)

    assert waiter.waits == []


async def test_no_window_ever_holds_more_than_the_quota():
    waiter = jumping()
    budget = budget_of(10, waiter)
    taken = []

    for _ in range(50):
        await take(budget)
        taken.append(waiter.now())

    assert all(later - earlier >= WINDOW for earlier, later in zip(taken, taken[10:], strict=False))


async def test_a_flood_of_quotes_leaves_room_for_a_cancel():
    waiter = jumping()
    budget = budget_of(100, waiter)

    await take(budget, Lane.QUOTE, count=65)
    quote_opens, cancel_opens = budget.opens_at(Lane.QUOTE), budget.opens_at(Lane.CANCEL)

    assert quote_opens == START + WINDOW
    assert cancel_opens == START


async def test_a_place_that_is_given_back_is_free_at_once():
    waiter = jumping()
    budget = budget_of(10, waiter)
    await take(budget, count=9)
    granted = await budget.take(Lane.CANCEL, "call", wait_max=HOUR)
    full = budget.opens_at(Lane.CANCEL)

    budget.give_back(granted)  # one of ten at the same instant

    assert (full, budget.opens_at(Lane.CANCEL), budget.used) == (START + WINDOW, START, 9)


async def test_a_place_that_has_left_the_window_is_given_back_in_vain():
    waiter = jumping()
    budget = budget_of(10, waiter)
    granted = await budget.take(Lane.CANCEL, "call", wait_max=HOUR)
    waiter.clock.advance_to(START + WINDOW)
    await take(budget, count=2)

    budget.give_back(granted)

    assert budget.used == 2


async def test_a_place_that_is_given_back_opens_nothing_that_a_429_has_closed():
    waiter = jumping()
    budget = budget_of(60, waiter)
    granted = await budget.take(Lane.CANCEL, "call", wait_max=HOUR)
    until = budget.note_limit(START + timedelta(seconds=30), "quote", tries=1)

    budget.give_back(granted)

    assert (budget.opens_at(Lane.CANCEL), budget.used) == (until, 0)


async def test_the_even_pace_after_a_429_counts_from_the_last_request_that_may_have_left():
    waiter = jumping()
    budget = budget_of(60, waiter)
    until = budget.note_limit(START + timedelta(seconds=5), "quote", tries=1)
    await take(budget)
    left_at = waiter.now()
    granted = await budget.take(Lane.CANCEL, "call", wait_max=HOUR)

    budget.give_back(granted)

    pace = WINDOW / 60
    assert until <= left_at < granted
    assert budget.opens_at(Lane.CANCEL) == left_at + pace == granted


@pytest.mark.parametrize(("lane", "share"), LANE_SHARE_PERCENT.items())
async def test_a_lane_fills_the_window_up_to_its_share(lane, share):
    waiter = jumping()
    budget = budget_of(100, waiter)

    await take(budget, lane, count=share)

    assert waiter.waits == []
    assert budget.opens_at(lane) == START + WINDOW


async def test_within_a_lane_the_first_to_ask_goes_first():
    waiter = SteppingWaiter()
    budget = budget_of(4, waiter)
    order: list[int] = []

    async def ask(number: int) -> None:
        await take(budget, Lane.CANCEL)
        order.append(number)

    tasks = [asyncio.create_task(ask(number)) for number in range(12)]
    await waiter.run(tasks)

    assert order == list(range(12))


async def test_after_a_429_the_first_lanes_go_first_whoever_asked_first():
    waiter = SteppingWaiter()
    budget = budget_of(60, waiter)
    order: list[Lane] = []
    budget.note_limit(START + timedelta(seconds=10), "stock_quote", tries=1)

    async def ask(lane: Lane) -> None:
        await take(budget, lane)
        order.append(lane)

    tasks = [asyncio.create_task(ask(lane)) for lane in reversed(Lane)]
    await waiter.run(tasks)

    assert order == list(Lane)


async def test_a_429_closes_the_budget_until_its_reset_and_a_jitter():
    waiter = jumping()
    budget = budget_of(60, waiter)
    reset_at = START + timedelta(seconds=30)

    until = budget.note_limit(reset_at, "stock_quote", tries=1)
    await take(budget, Lane.QUOTE)

    assert timedelta(milliseconds=50) <= until - reset_at <= timedelta(milliseconds=500)
    assert waiter.now() >= until


async def test_the_jitter_is_the_seeds():
    untils = {
        budget_of(60, jumping()).note_limit(START + timedelta(seconds=3), "quote", tries=1)
        for _ in range(3)
    }

    assert len(untils) == 1


async def test_after_a_429_requests_go_at_an_even_pace_and_not_in_a_burst():
    waiter = jumping()
    budget = budget_of(60, waiter)
    budget.note_limit(START + timedelta(seconds=5), "quote", tries=1)
    taken = []

    for _ in range(10):
        await take(budget)
        taken.append(waiter.now())

    pace = WINDOW / 60
    assert all(b - a >= pace for a, b in itertools.pairwise(taken))


@pytest.mark.parametrize("reset_at", [None, START - HOUR], ids=["missing", "past"])
async def test_a_reset_that_cannot_be_right_counts_as_a_whole_window(reset_at):
    until = budget_of(60, jumping()).note_limit(reset_at, "quote", tries=1)

    assert timedelta(seconds=60) < until - START < timedelta(seconds=61)


async def test_a_reset_far_away_is_believed_for_two_minutes_only():
    until = budget_of(60, jumping()).note_limit(START + HOUR, "quote", tries=1)

    assert until - START <= RESET_AFTER_MAX + timedelta(milliseconds=500)


async def test_a_limit_without_an_end_is_met_by_few_requests():
    waiter = jumping()
    budget = budget_of(60, waiter)
    requests = 0

    while waiter.now() < START + timedelta(minutes=30):
        await take(budget)
        requests += 1
        budget.note_limit(waiter.now(), "quote", tries=1)

    assert requests <= 60


async def test_only_a_second_429_of_the_same_request_degrades():
    budget = budget_of(60, jumping())

    budget.note_limit(START, "quote", tries=1)
    after_one = budget.is_degraded
    budget.note_limit(START, "quote", tries=2)
    after_two = budget.is_degraded
    budget.note_served()

    assert (after_one, after_two, budget.is_degraded) == (False, True, False)


async def test_a_wait_that_would_be_too_long_is_refused_at_once_and_leaves_no_trace():
    waiter = jumping()
    budget = budget_of(60, waiter)
    until = budget.note_limit(START + timedelta(seconds=30), "quote", tries=1)

    with pytest.raises(RateLimited) as caught:
        await budget.take(Lane.PLACE, "place_order", wait_max=timedelta(seconds=10))

    assert caught.value.retry_at == until
    assert caught.value.reason == f"no request may leave before 09:15:{until:%S}"
    assert (budget.waiting, budget.used, waiter.waits) == (0, 0, [])


async def test_a_caller_that_goes_away_leaves_the_line():
    waiter = SteppingWaiter()
    budget = budget_of(60, waiter)
    budget.note_limit(START + timedelta(seconds=30), "quote", tries=1)
    task = asyncio.create_task(take(budget, Lane.QUOTE))
    await asyncio.sleep(0)
    waiting = budget.waiting

    task.cancel()
    await asyncio.wait([task])

    assert (waiting, budget.waiting, budget.used) == (1, 0, 0)


async def test_a_429_is_announced_with_its_end_and_the_length_of_the_line():
    waiter = SteppingWaiter()
    told: list[tuple[datetime, int, str]] = []
    budget = RequestBudget(
        per_minute=60, waiter=waiter, jitter=Random(7), on_wait=lambda *said: told.append(said)
    )

    until = budget.note_limit(START + timedelta(seconds=30), "stock_quote", tries=1)
    tasks = [asyncio.create_task(take(budget, Lane.QUOTE)) for _ in range(3)]
    await waiter.run(tasks)

    assert told == [(until, 1, "stock_quote")]


def test_one_429_to_six_calls_under_way_is_announced_once():
    waiter = SteppingWaiter()
    told: list[tuple[datetime, int, str]] = []
    budget = RequestBudget(
        per_minute=60, waiter=waiter, jitter=Random(7), on_wait=lambda *said: told.append(said)
    )

    for _ in range(6):
        budget.note_limit(START + timedelta(seconds=30), "stock_quote", tries=1)
    assert len(told) == 1
    budget.note_limit(START + timedelta(seconds=30), "stock_quote", tries=2)
    budget.note_limit(START + timedelta(seconds=30), "stock_quote", tries=2)

    assert (len(told), budget.is_degraded) == (2, True)


def test_the_first_answer_after_a_window_without_a_429_tells_once_that_the_limit_is_over():
    waiter, told = jumping(), list[datetime]()
    budget = RequestBudget(
        per_minute=60,
        waiter=waiter,
        jitter=Random(7),
        on_over=lambda: told.append(waiter.now()),
    )
    budget.note_served()
    until = budget.note_limit(START + timedelta(seconds=30), "stock_quote", tries=1)

    for at in (START, until, until + WINDOW, until + 2 * WINDOW):
        waiter.clock.advance_to(at)
        budget.note_served()

    assert told == [until + WINDOW]


def test_an_answer_between_two_429s_of_one_stretch_breaks_nothing():
    budget = budget_of(60, SteppingWaiter())
    first = budget.note_limit(START + timedelta(seconds=30), "stock_quote", tries=1)

    budget.note_served()
    again = budget.note_limit(START + timedelta(seconds=1), "order_book", tries=1)

    assert again == first


async def test_a_full_window_is_announced_once_and_not_for_every_request():
    waiter = SteppingWaiter()
    told: list[tuple[datetime, int, str]] = []
    budget = RequestBudget(
        per_minute=5, waiter=waiter, jitter=Random(7), on_wait=lambda *said: told.append(said)
    )

    tasks = [asyncio.create_task(take(budget)) for _ in range(9)]
    await waiter.run(tasks)

    assert told == [(START + WINDOW, 1, "call")]


async def test_nobody_takes_the_place_that_a_cancel_waits_for():
    waiter = SteppingWaiter()
    budget = budget_of(60, waiter)
    await take(budget, Lane.QUOTE)
    budget.note_limit(START + timedelta(seconds=5), "stock_quote", tries=1)
    opens_at = budget.opens_at(Lane.CANCEL)
    cancel = asyncio.create_task(take(budget, Lane.CANCEL))
    await asyncio.sleep(0)

    waiter.clock.advance_to(opens_at)  # a poll is there before the cancel has woken
    with pytest.raises(RateLimited):
        await budget.take(Lane.QUOTE, "stock_quote", wait_max=timedelta())
    await waiter.run([cancel])

    assert cancel.exception() is None
    assert waiter.now() - START < timedelta(seconds=7)


async def test_after_a_429_cancels_go_first_however_many_polls_come():
    waiter = SteppingWaiter()
    budget = budget_of(60, waiter)
    await take(budget, Lane.QUOTE, count=30)
    budget.note_limit(START + timedelta(seconds=5), "stock_quote", tries=1)
    gone: list[Lane] = []

    async def ask(lane: Lane) -> None:
        await take(budget, lane)
        gone.append(lane)

    lanes = [*[Lane.QUOTE] * 20, *[Lane.ORDER_POLL] * 5, *[Lane.CANCEL] * 10]
    await waiter.run([asyncio.create_task(ask(lane)) for lane in lanes])

    assert gone[:10] == [Lane.CANCEL] * 10
