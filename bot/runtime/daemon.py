"""The daemon: starts in one order, runs, and stops in one order.

Start: journal's memory into the engine → what a day begins with (`day_start.py`) → quotes, phases →
second factor → strategies wake. There is only one path: starting is recovering, whatever happened
before, and a running bot begins each morning like a start. Stop: no new intents, outstanding
answers are awaited and journalled, then it ends.
"""

import asyncio
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from bot.clock import SystemClock
from bot.domain.entry import Entry
from bot.domain.hours import hours_at
from bot.domain.instrument import EXCHANGE_TZ, Exchange, Instrument
from bot.domain.message import (
    AmendOrder,
    BurnNonce,
    CancelOrder,
    Command,
    DropToken,
    FaultFound,
    Noted,
    PlaceOrder,
    ReadAccount,
    ReadOrder,
    ReadOrderToCancel,
    ReadTodaysOrders,
    Recovered,
    StopRunning,
    TimePassed,
    TradingDayStarted,
)
from bot.domain.operations import TradingDayEnded
from bot.domain.quote import KeepBar, KeepExDate, ReadBars
from bot.domain.recovery import Recovery
from bot.engine.two_factor import LEAD
from bot.runtime.activity import LET_END_S
from bot.runtime.closes import Closes
from bot.runtime.health.heartbeat import Work
from bot.runtime.history.warming.kept import KeptBars, KeptExDates
from bot.runtime.history.warming.sources import FOLDER, BrokerBars, StoredBars
from bot.runtime.history.warming.warm_up import WarmUp
from bot.runtime.live import LiveLoop
from bot.runtime.parts import Parts, tell_missing
from bot.runtime.start.day_start import DayStart, KnownOrders
from bot.runtime.start.strategies import user_name
from bot.runtime.supervisor import Supervisor
from bot.runtime.timetable.feeds import DAY_END_JOB, Feeds, has_day_begun
from bot.runtime.timetable.morning import AT_START, MorningCheck
from bot.runtime.timetable.notes import MissedRuns, Pulse, overlap_note
from bot.runtime.timetable.schedule import BeforeOpening, Firing, Job, Overlaps, Started
from bot.runtime.token_file import TokenFile
from bot.runtime.watches import DiskWatch
from bot.runtime.worlds.environment import clock_held

DRAIN_S: Final = 5.0
"""How long to wait for reads under way once all orders are settled."""
LATE_DRAIN_S: Final = 0.2
"""The same if the time for stopping is over, or nearly."""
FINISH_S: Final = 0.5
"""How long to process the last events, the most urgent first, if no more time is left."""
WRITES: Final = ("place ", "cancel ", "amend ")
"""How the names of the tasks that write to the broker begin."""
AFTER_S: Final = 1.5
"""What a stop still needs of its time when all that was decided is in the journal."""
PULSE: Final = timedelta(minutes=5)


class Daemon:
    """One run, from the first read to the last row."""

    def __init__(self, parts: Parts, recovery: Recovery, supervisor: Supervisor) -> None:
        self._parts = parts
        parts.fence.is_asked = parts.engine.is_asked_after
        self._recovery = recovery
        self._supervisor = supervisor
        self._instruments: dict[str, Instrument] = {}
        self._beat, self._missed = Pulse(), MissedRuns()
        self._overlaps = Overlaps(self._overlap)
        self._closes = Closes(
            client=parts.broker.client,
            market=parts.environment.market,
            rulebook=parts.rulebook,
            post=parts.inbox.post,
            known={each.symbol: each for each in recovery.closes},
            noted=parts.engine.noted_closes,
        )
        self._kept_bars = KeptBars(parts.bars_file, parts.rulebook)
        self._ex_dates = KeptExDates(parts.ex_dates_file)
        stored = StoredBars(parts.bars_file.parent / FOLDER, parts.rulebook)
        brokers = BrokerBars(parts.broker.client, parts.rulebook, self._closes.known)
        self._warm_up = WarmUp(
            sources=(brokers, self._kept_bars, stored),
            market=parts.environment.market,
            post=parts.inbox.post,
            quota=parts.polls.quota,
            instruments=parts.engine.instruments,
            ex_dates=self._closes.ex_dates,
            past=(self._ex_dates, stored),
            seen=self._ex_dates.days_of,
        )
        self._closes.on_ex_dates = self._level_again
        self._day_start = DayStart(
            client=parts.broker.client,
            account=parts.account,
            market=parts.environment.market,
            reads=parts.reads,
            day_order_book=parts.day_order_book,
            retry=parts.retry,
            post=parts.inbox.post,
            plans=parts.plans,
            listed=parts.engine.instruments,
            closes=self._closes,
        )
        self._morning = MorningCheck.of(parts, self._day_start.listed_on)
        self._beginning: asyncio.Task[None] | None = None
        self._loop = LiveLoop(
            engine=parts.engine,
            commits=parts.commits,
            inbox=parts.inbox,
            time_slice=parts.time_slice,
            way=parts.orders.way,
            lazy_s=parts.environment.pace.lazy_s,
            sign=parts.orders.sign,
            committed=parts.orders.committed,
            carry_out=self._carry_out,
            guard=parts.guard,
            mark=parts.environment.mark,
            show=parts.show,
            go_ahead=parts.go_ahead,
        )

    @property
    def unwritten(self) -> Sequence[Entry]:
        """What was decided but could not be written to the journal."""
        return self._loop.unwritten

    @property
    def work(self) -> Work:
        """What shows whether it makes progress."""
        loop, commits = self._loop, self._parts.commits
        return Work(
            finished=lambda: loop.finished + commits.answered,
            waiting=lambda: loop.waiting,
            probe=commits.probe,
        )

    # -------------------------------------------------------------------------------- the run

    async def run(self) -> None:
        """Run until stopped. Raises what ended it, unless that was a clean stop."""
        loop = asyncio.create_task(self._supervisor.guard(self._loop.run(self._supervisor.stopped)))
        parts, environment = self._parts, self._parts.environment
        disk = DiskWatch(parts.commits.folders, parts.inbox.post, environment.market.now)
        otp = TokenFile(parts.bars_file.parent, SystemClock().now)
        watches = (
            *(parts.brake.watch(), parts.commits.watch(), disk.run()),
            environment.watch_time(parts.inbox.post),
            otp.watch(parts.second_factor, parts.tasks),
        )
        watching = [asyncio.create_task(self._supervisor.guard(watch)) for watch in watches]
        try:
            # A start may take long: meanwhile open orders are still polled and cancelled by their
            # deadlines.
            async with clock_held(environment, parts.tasks, self._time_passed) as driver:
                self._loop.wake_at = driver.wake_at
                reading = self._supervisor.guard(self._begin())
                await self._supervisor.unless_stopped(reading)
            self._supervisor.is_up.set()
            await self._drive()
            await self._settle(loop)
        finally:
            for task in (loop, *watching):
                task.cancel()
            _, left = await asyncio.wait({loop, *watching}, timeout=LET_END_S)
            if left:  # a run that is over is ended all the same
                parts.trouble.begin(f"{len(left)} of the bot's own watches did not end")
            self._kept_bars.close()
        self._supervisor.raise_failure()

    async def _drive(self) -> None:
        if self._supervisor.stopping.is_set():
            return
        parts, environment, post = self._parts, self._parts.environment, self._parts.inbox.post
        feeds = Feeds(
            rulebook=parts.rulebook,
            instruments=self._instruments,
            reads=parts.reads,
            day_order_book=parts.day_order_book,
            closes=self._closes,
            warm_up=self._warm_up,
            tasks=parts.tasks,
            post=post,
            on_day=self._start_day,
            on_day_end=self._end_day,
            on_morning=self._check_morning,
            on_start=self._check_start,
            on_pulse=self._pulse,
            pulse_every=PULSE,
            quota=parts.polls.quota,
            polls=parts.polls,
        )
        exchanges = frozenset(each.exchange for each in self._instruments.values())
        before_opening = BeforeOpening(parts.rulebook, exchanges, LEAD)
        now = environment.market.now()
        question = Job("2FA question", before_opening, self._ask_for_token, done_by_start=True)
        parts.jobs.extend((question, *feeds.jobs(parts.plans, start=now)))
        jobs = [replace(job, fire=partial(self._fire, job)) for job in parts.jobs]
        self._tell_of_missed(now)
        driver = environment.drive(jobs, self._time_passed, self._report)
        driver.wake_at(parts.engine.next_due())
        self._loop.wake_at = driver.wake_at
        await driver.run(self._supervisor.stopping)

    async def _settle(self, loop: asyncio.Task[None]) -> None:
        """Wait for outstanding answers, and journal them; then say what is missing. After a failure
        they are kept beside the journal, as the engine's state may not be what is stored.
        """
        parts = self._parts
        parts.fence.stop()
        if self._supervisor.failure is None:
            await self._supervisor.guard(self._store_all(loop))
        if (failure := self._supervisor.failure) is not None:
            await self._loop.halt_for(failure, parts.environment.market.now())
            await parts.tasks.ended(WRITES, min(DRAIN_S, self._supervisor.left_s()))
            await parts.tasks.drain(0)
            await asyncio.wait({loop}, timeout=LATE_DRAIN_S)
            await self._loop.keep_rest()
        tell_missing(parts, self.unwritten, has_failed=failure is not None)

    async def _store_all(self, loop: asyncio.Task[None]) -> None:
        parts, is_settled = self._parts, self._supervisor.stopped.is_set()
        left_s = min(DRAIN_S, self._supervisor.left_s()) if is_settled else 0
        await parts.tasks.drain(max(left_s, LATE_DRAIN_S))
        self._supervisor.stopped.set()
        parts.inbox.post(TimePassed(parts.environment.market.now()))
        await self._finish(loop)

    async def _finish(self, loop: asyncio.Task[None]) -> None:
        """Look at what has come and store all that was decided: while the journal answers, for as
        long as a stop may take.
        """
        left_s = min(DRAIN_S, self._supervisor.left_s() - AFTER_S)
        if self._parts.commits.is_cut:
            left_s = 0
        now = asyncio.get_running_loop().time
        ends_at = now() + left_s
        await asyncio.wait({loop}, timeout=max(left_s, LATE_DRAIN_S))
        if loop.done() and self._supervisor.failure is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(max(ends_at - now(), FINISH_S)):
                    await self._loop.finish()

    # ----------------------------------------------------------------------------- the start

    async def _begin(self) -> None:
        """Continue from the journal, and read everything that a run begins with."""
        parts = self._parts
        flatten = self._recovery.flatten
        if flatten is not None:
            flatten = replace(flatten, is_allowed=parts.brake.sells)
        recovery = replace(self._recovery, started_by=user_name(), flatten=flatten)
        now = parts.environment.market.now()
        parts.inbox.post(Recovered(now, recovery))
        if (day := parts.gap.not_compared(recovery.trading_date)) is not None:
            parts.inbox.post(TradingDayEnded(now, day))
        self._instruments = dict(await self._day_start.after_start(KnownOrders.of(recovery)))
        parts.second_factor.report()
        if has_day_begun(now, at := parts.environment.market.now()):
            self._start_day(at)  # the start waited overnight for its broker
        else:
            self._day_start.reconciled()
        for (symbol, width), needed in parts.engine.bars_wanted().items():
            self._warm_up.want(symbol, width, needed)
        parts.tasks.spawn(self._warm_up.read(), "earlier bars")
        parts.inbox.rank(parts.environment.pace.ranking)
        parts.retry.is_needed = True  # a running bot stays, whatever the broker does

    def _level_again(self, symbols: Collection[str]) -> None:
        """Look at once: until then nobody decides on bars that are on two price levels."""
        self._warm_up.look_again(symbols)
        self._parts.tasks.spawn(self._warm_up.read(), "earlier bars")

    # --------------------------------------------------------------------------- the commands

    def _carry_out(self, command: Command) -> None:
        parts, spawn = self._parts, self._parts.tasks.spawn
        match command:
            case PlaceOrder(intent):
                task = spawn(parts.orders.place(intent), f"place {intent.intent_id}")
                task.add_done_callback(partial(parts.orders.settle, intent))
            case CancelOrder():
                spawn(parts.orders.cancel(command), f"cancel {command.order_id}")
            case AmendOrder():
                spawn(parts.orders.amend(command), f"amend {command.order_id}")
            case BurnNonce(intent_id):
                spawn(parts.fence.burn(intent_id), f"burn {intent_id}")
            case ReadOrderToCancel(order_id):
                spawn(parts.reads.order_to_cancel(order_id), f"order {order_id} to cancel")
            case ReadOrder(order_id):
                spawn(parts.reads.order(order_id), f"order {order_id}")
            case ReadTodaysOrders():
                spawn(parts.day_order_book.read(), "day order book")
            case ReadAccount(_, again):
                spawn(parts.reads.account_again() if again else parts.reads.account(), "account")
            case ReadBars() | KeepBar() | KeepExDate():
                self._see_to_bars(command)
            case DropToken(code, refused_at):
                parts.second_factor.forget(code, refused_at)
            case StopRunning():
                self._supervisor.end()
            case _:
                raise AssertionError(f"nobody carries out {type(command).__name__}")

    def _see_to_bars(self, command: ReadBars | KeepBar | KeepExDate) -> None:
        if isinstance(command, KeepBar):
            self._kept_bars.keep(command.bar)
        elif isinstance(command, KeepExDate):
            self._parts.tasks.spawn(self._ex_dates.keep(command.went_ex), "an ex-date")
        else:
            self._warm_up.want(command.symbol, command.width, command.count)
            self._parts.tasks.spawn(self._warm_up.read(), "earlier bars")

    # ------------------------------------------------------------------------------ the clock

    def _fire(self, job: Job, due: datetime) -> None:
        if (fault := self._parts.guard(lambda: self._overlaps.fire(job, due))) is not None:
            self._parts.inbox.post(FaultFound(due, f"the job {job.name}", fault))

    def _time_passed(self, at: datetime) -> None:
        self._parts.inbox.post(TimePassed(at))

    def _report(self, firings: Sequence[Firing], why: str) -> None:
        now = self._parts.environment.market.now()
        for note in self._missed.notes(firings, why, now):
            self._parts.inbox.post(Noted(now, note))

    def _tell_of_missed(self, now: datetime) -> None:
        """Report what was due while no bot was running, and do what is still to be done today."""
        parts, today = self._parts, self._recovery.trading_date
        for firing, note in parts.gap.missed(parts.jobs, today, now):
            parts.inbox.post(Noted(now, note))
            if firing.is_run:
                self._fire(firing.job, firing.due)
            elif firing.job.name == DAY_END_JOB:
                hours = hours_at(parts.rulebook, Exchange, now)
                parts.tasks.spawn(parts.retention.at_start(now, hours), "retention")

    def _overlap(self, job: Job, due: datetime) -> None:
        now = self._parts.environment.market.now()
        self._parts.inbox.post(Noted(now, overlap_note(job, due, now)))

    def _pulse(self, due: datetime) -> None:
        passed_over = self._parts.inbox.passed_over
        note = self._beat.beat(self._parts.engine.status(), due, passed_over=passed_over)
        self._parts.inbox.post(Noted(due, note))
        self._report((), "")

    def _ask_for_token(self, _: datetime) -> None:
        """Before the first session of a trading day: check that there is a token valid for it."""
        if not self._parts.second_factor.is_ready:
            self._parts.second_factor.report()

    def _check_morning(self, due: datetime) -> Started:
        """Check that everything that a day of trading needs is there."""
        return self._parts.tasks.spawn(self._morning.check(due), "morning check")

    def _check_start(self, due: datetime) -> Started:
        """The same after a start, where most failures have already reported themselves."""
        checking = self._morning.check(due, alerting=AT_START)
        return self._parts.tasks.spawn(checking, "check of the start")

    def _start_day(self, due: datetime) -> None:
        """Begin a day in a bot that ran overnight, as a start does."""
        parts = self._parts
        parts.inbox.post(TradingDayStarted(due, due.astimezone(EXCHANGE_TZ).date()))
        parts.second_factor.report()
        status = parts.engine.status()
        known = KnownOrders(status.open_orders, status.later_ids, status.unknown)
        if self._beginning is not None:  # the broker has not answered since yesterday
            self._beginning.cancel()
        self._beginning = parts.tasks.spawn(self._begin_day(known), "the day")

    async def _begin_day(self, known: KnownOrders) -> None:
        self._instruments.update(await self._day_start.after_night(known))

    def _end_day(self, due: datetime) -> None:
        self._parts.inbox.post(TradingDayEnded(due, due.astimezone(EXCHANGE_TZ).date()))
        self._parts.tasks.spawn(self._parts.retention.at_close(due), "retention")
