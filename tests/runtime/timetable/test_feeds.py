"""Polls fit the quota, all slower by one factor where they must; one that starves is told once."""

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import fields, replace
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bot.broker.budget import LANE_SHARE_PERCENT
from bot.broker.errors import BrokerError, Timeout
from bot.cli.commands.status import lines_of
from bot.clock import SimulatedClock
from bot.config.settings.load import load_settings
from bot.domain.entry import Decision, Entry
from bot.domain.instrument import Exchange, Instrument
from bot.domain.message import Event, Noted, PhaseChanged
from bot.domain.order import OrderType
from bot.domain.plan import OrderPlan, PriceBasis, Wake
from bot.engine.settings import EngineSettings
from bot.protocol.endpoints.endpoint import Endpoint
from bot.protocol.endpoints.trading import ORDER_DETAIL, PORTFOLIO, SUMMARY, TODAYS_ORDERS
from bot.runtime.control.server import ControlServer
from bot.runtime.control.socket import Reply
from bot.runtime.run import run_bot
from bot.runtime.run_controls import RunOptions
from bot.runtime.timetable.feeds import (
    POLLS_SHARE_PERCENT,
    Feeds,
    Poll,
    PollWatch,
    fitted,
    order_reads_per_minute,
    polls_of,
    room_for_polls,
    slowness_of,
)
from tests.engine.stage import HPG, PLAN, RULEBOOK, START
from tests.staging import QUIET
from tests.story import Shown, in_process, once, tell, write_project

FRESH = EngineSettings().max_depth_age


def poll(symbol: str, seconds: int) -> Poll:
    return Poll("quote", symbol, timedelta(seconds=seconds))


def test_polls_that_fit_are_as_often_as_asked_for() -> None:
    polls = [poll("FPT", 5), poll("HPG", 10)]

    assert fitted(polls, 60) == tuple(polls)


def test_polls_that_do_not_fit_are_all_slower_by_one_factor() -> None:
    polls = [poll(f"S{number}", 10) for number in range(30)] + [poll("SLOW", 20)]

    slower = fitted(polls, 60)

    assert [each.interval.total_seconds() for each in slower] == [61] * 30 + [122]
    assert sum(each.per_minute for each in slower) <= 60 * POLLS_SHARE_PERCENT / 100


def test_the_check_names_the_number_that_the_run_keeps_to() -> None:
    polls = [poll(f"S{number}", 10) for number in range(30)]

    kept = sum(each.per_minute for each in fitted(polls, 60))

    assert room_for_polls(60) == 30
    assert 0.95 * room_for_polls(60) < kept <= room_for_polls(60)


@pytest.mark.parametrize(
    ("order", "wakes", "reads"),
    [
        (OrderPlan(basis=PriceBasis.ASK), 60, 10),
        (OrderPlan(basis=PriceBasis.MID), 5, 5),
        (OrderPlan(basis=PriceBasis.BID), None, 10),
        (OrderPlan(order_type=OrderType.MTL), 60, 10),
        (OrderPlan(basis=PriceBasis.LAST), 60, 60),
        (OrderPlan(basis=PriceBasis.LAST), None, None),
    ],
)
def test_an_order_that_needs_a_depth_has_a_fresh_one_however_seldom_one_wakes(
    order: OrderPlan, wakes: int | None, reads: int | None
) -> None:
    depth = None if wakes is None else timedelta(seconds=wakes)
    plan = replace(PLAN, order=order, wake=Wake(depth=depth))

    read = {each.kind: each.interval.total_seconds() for each in polls_of([plan])}

    assert read.get("depth") == reads
    assert reads is None or order.basis is PriceBasis.LAST or reads < FRESH.total_seconds()


async def test_a_run_says_at_its_start_that_polls_are_slower_than_asked_for(tmp_path: Path) -> None:
    config = write_project(
        tmp_path,
        scenario=QUIET,
        strategies=[once(wake={"quote": "1s", "depth": "1s"})],
        broker={"requests_per_minute": 60},
    )

    story = await tell(config, minutes=1)

    assert ("polls", SLOWER) in story.shown.rows


async def test_the_status_of_a_run_says_that_polls_are_slower_than_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = write_project(
        tmp_path,
        scenario=QUIET,
        strategies=[once(wake={"quote": "1s", "depth": "1s"})],
        broker={"requests_per_minute": 60},
    )
    servers, told = list[ControlServer](), list[Reply]()
    start = ControlServer.start

    async def kept(self: ControlServer) -> None:
        servers.append(self)
        await start(self)

    async def ask() -> None:
        told.append(await servers[0]._handlers["status"]({}))

    class Asking(Shown):
        """A screen that asks when the first decision is shown."""

        def entry(self, entry: Entry) -> None:
            super().entry(entry)
            if isinstance(entry, Decision) and not asking:
                asking.append(asyncio.ensure_future(ask()))

    asking = list[asyncio.Future[None]]()
    monkeypatch.setattr(ControlServer, "start", kept)
    options = RunOptions(run_for=timedelta(minutes=1))
    await run_bot(load_settings(config), options, Asking(), make=in_process)
    await asyncio.gather(*asking)

    [reply] = told
    status = reply["status"]
    assert isinstance(status, Mapping)
    *_, last = lines_of(status, "a bot")
    assert last.strip() == (
        "polls come 4.0 times less often than the files ask for: they would need 120 a minute, the "
        "quota leaves them 30"
    )


def test_quotes_that_come_too_seldom_for_orders_are_named_with_the_setting() -> None:
    symbols = tuple(f"S{number}" for number in range(6))
    plans = [replace(PLAN, symbols=symbols[:5]), replace(PLAN, symbols=symbols)]
    most = timedelta(seconds=10)

    assert slowness_of(plans[:1], 60, most) == ""
    assert slowness_of(plans[1:], 60, most) == (
        "need 36 a minute, the quota leaves 30: each comes 1.2 times less often. Quotes come every "
        "12 s, and on one older than 10 s (risk.max_quote_age_s) no order goes out: many will be "
        "refused (QUOTE_AGE)"
    )
    assert "QUOTE_AGE" not in slowness_of(plans[1:], 60, timedelta(seconds=12))


SLOWER = "need 120 a minute, the quota leaves 30: each comes 4.0 times less often"


def test_the_watch_knows_what_polls_ask_for_and_how_they_are_made() -> None:
    asked = [Poll("depth", symbol, timedelta(seconds=1)) for symbol in ("FPT", "HPG")]
    watch = PollWatch(quota=60, speed=1.0, post=print)

    watch.plan(asked, fitted(asked, 60))

    assert (watch.asked, watch.needed, watch.room, watch.slower) == (120, 30, 30, 4.0)


def test_orders_are_read_with_the_account_and_more_often_while_they_are_open() -> None:
    backoff = [timedelta(seconds=each) for each in (0.5, 1, 2, 4, 8, 15)]

    assert order_reads_per_minute(backoff) == (3, 7, 4)
    assert order_reads_per_minute(backoff[:1]) == (3, 120, 120)


@pytest.mark.parametrize("endpoint", [TODAYS_ORDERS, ORDER_DETAIL, PORTFOLIO, SUMMARY])
@pytest.mark.parametrize("quota", [60, 100, 600])
def test_reads_of_orders_and_account_find_room_beside_full_polls(
    endpoint: Endpoint, quota: int
) -> None:
    always, first, _ = order_reads_per_minute()

    needed = room_for_polls(quota) + always + first

    assert needed <= quota * LANE_SHARE_PERCENT[endpoint.lane] // 100


# ---- polls that come late

POLLS = [Poll("quote", "FPT", timedelta(seconds=5)), Poll("depth", "FPT", timedelta(seconds=1))]
LATE = "polls come late: they need 72 requests a minute, the quota leaves 30"


class Watched:
    """A watch, and what it has told."""

    def __init__(self, *, quota: int = 60, speed: float = 1.0) -> None:
        self.told: list[str] = []
        self.watch = PollWatch(quota=quota, speed=speed, post=self._post)
        self.watch.plan(POLLS, POLLS)

    def _post(self, event: Event) -> None:
        assert isinstance(event, Noted)
        self.told.append(f"{event.entry.kind} {event.entry.text}")  # type: ignore[union-attr]

    def due(self, second: int, *, is_waiting: bool, poll: str = "quote FPT") -> None:
        at = START + timedelta(seconds=second)
        self.watch.due(poll, at, is_waiting=is_waiting)


def test_a_feed_that_starves_is_told_once_with_its_numbers() -> None:
    seen = Watched()

    for second in range(0, 200, 5):
        seen.due(second, is_waiting=True)

    assert seen.told == [f"FEED {LATE}"]
    assert seen.watch.starved == LATE


def test_a_wait_that_the_broker_asks_for_is_no_starvation() -> None:
    seen = Watched()

    for second in range(0, 60, 5):
        seen.due(second, is_waiting=True)
    seen.due(60, is_waiting=False)
    seen.due(200, is_waiting=True)

    assert (seen.told, seen.watch.starved) == ([], "")


def test_polls_that_come_in_time_again_are_told() -> None:
    seen = Watched()
    seen.due(0, is_waiting=True)
    seen.due(1, is_waiting=True, poll="depth FPT")
    seen.due(120, is_waiting=True)

    seen.due(125, is_waiting=False)
    assert seen.watch.starved == LATE
    seen.due(126, is_waiting=False, poll="depth FPT")

    assert seen.told[1:] == ["FEED polls come in time again"]
    assert seen.watch.starved == ""


def test_a_poll_that_was_late_before_lunch_is_not_late_after_it() -> None:
    seen = Watched()
    seen.due(0, is_waiting=True)

    seen.watch.rest("quote FPT")
    seen.due(5_400, is_waiting=True)

    assert (seen.told, seen.watch.starved) == ([], "")


def test_what_starved_at_the_close_does_not_starve_all_night() -> None:
    seen = Watched()
    for second in range(0, 121, 5):
        seen.due(second, is_waiting=True)
        seen.due(second, is_waiting=True, poll="depth FPT")

    seen.watch.rest("quote FPT")
    assert seen.watch.starved == LATE, "the other one may still be polled"
    seen.watch.rest("depth FPT")

    assert seen.watch.starved == ""


def test_a_poll_rests_while_its_exchange_is_silent() -> None:
    seen = Watched()
    for second in range(0, 121, 5):
        seen.due(second, is_waiting=True)
    parts: dict[str, Any] = dict.fromkeys(each.name for each in fields(Feeds))
    rested: list[tuple[str, str]] = []
    reads = SimpleNamespace(health=SimpleNamespace(rest=lambda *read: rested.append(read)))
    parts |= {"rulebook": RULEBOOK, "polls": seen.watch, "instruments": {"FPT": HPG}}
    feeds = Feeds(**{**parts, "reads": reads})

    feeds._poll(POLLS[0], START.replace(hour=5))  # noon

    assert seen.watch.starved == ""
    assert rested == [("the quote", "FPT")]


def test_the_phase_of_an_exchange_to_which_a_symbol_has_moved_overnight_is_asked_for() -> None:
    asked: list[str] = []

    def spawn(work: Coroutine[object, object, None], name: str) -> None:
        work.close()
        asked.append(name)

    parts: dict[str, Any] = dict.fromkeys(each.name for each in fields(Feeds))
    listed = {"SHS": Instrument("SHS", Exchange.HNX)}
    parts |= {"rulebook": RULEBOOK, "instruments": listed, "quota": 600}
    parts |= {"polls": Watched().watch, "pulse_every": timedelta(minutes=5)}
    parts |= {"reads": SimpleNamespace(phases={}), "tasks": SimpleNamespace(spawn=spawn)}
    feeds = Feeds(**parts)
    jobs = {job.name: job for job in feeds.jobs([replace(PLAN, symbols=("SHS",))], start=START)}

    listed["SHS"] = Instrument("SHS", Exchange.HOSE)
    opens = datetime.fromisoformat("2026-11-20T09:00+07:00")
    jobs["phases again"].fire(opens + timedelta(seconds=5))

    assert asked == ["phase HOSE"]


async def test_a_read_of_a_phase_that_fails_after_its_end_leaves_that_of_the_timetable() -> None:
    auction = RULEBOOK.next_phase_change(Exchange.HOSE, START + timedelta(hours=4))
    asked_at, posted = auction.at - timedelta(minutes=1), list[Event]()
    clock = SimulatedClock(asked_at)

    async def fail(_: Exchange) -> BrokerError:
        clock.advance_to(auction.at + timedelta(seconds=65))
        return Timeout("market_phase", "no complete answer within 8 s")

    reads = SimpleNamespace(phases={}, clock=clock, phase=fail)
    parts: Any = dict.fromkeys(field.name for field in fields(Feeds))
    parts |= {"rulebook": RULEBOOK, "reads": reads, "post": posted.append}

    await Feeds(**parts)._phase(Exchange.HOSE, asked_at)

    [event] = posted
    assert isinstance(event, PhaseChanged)
    assert (event.at, event.phase) == (clock.now(), auction.phase)


def test_a_market_that_runs_faster_needs_more_of_the_quota() -> None:
    seen = Watched(quota=600, speed=60.0)
    seen.due(0, is_waiting=True)
    seen.due(120, is_waiting=True)

    assert seen.watch.starved == (
        "polls come late: they need 4,320 requests a minute, the quota leaves 300"
    )


def test_where_the_quota_would_do_the_broker_is_slow() -> None:
    seen = Watched(quota=6_000)
    seen.due(0, is_waiting=True)
    seen.due(120, is_waiting=True)

    assert seen.watch.starved == (
        "polls come late: the broker takes longer to answer than they are apart"
    )
