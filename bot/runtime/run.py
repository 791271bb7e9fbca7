"""One run of the bot, from checked settings to a clean end: the place where all parts meet.

Order of the start: plans → journal and its lease → broker → account → engine → the daemon. A second
bot on the same journal is refused before any request is made, or waits as its standby.
"""

import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from bot import __version__
from bot.broker.broker import Broker
from bot.broker.writes import DryWriter, OrderWriter
from bot.clock import SystemClock, performance_s
from bot.config.masking import masked_url
from bot.config.problems import ExitCode
from bot.config.rulebook import on_later_rules, rulebook_of
from bot.config.settings.load import Loaded
from bot.config.strategies.load import UnknownSymbols
from bot.config.strategies.source_files import hashes_of
from bot.domain.account import SubAccount
from bot.domain.entry import Entry
from bot.domain.errors import Fault
from bot.domain.local_time import local_of
from bot.domain.message import FaultFound
from bot.domain.recovery import Recovery
from bot.journal.errors import JournalError, Unreachable
from bot.journal.journal import Journal
from bot.journal.writing.emergency import EmergencyJournal
from bot.journal.writing.thread import in_time
from bot.protocol.orders import figures_in
from bot.runtime.activity import Activity, RightOfWay, Tasks, TimeSlice
from bot.runtime.brake import Brake
from bot.runtime.commits import Commits
from bot.runtime.control.operations import Operations
from bot.runtime.control.server import ControlServer, EarlyHalt, handlers_of, tell_stuck
from bot.runtime.control.status import Facts
from bot.runtime.daemon import Daemon
from bot.runtime.emergency_file import take_over
from bot.runtime.fence import lost_places
from bot.runtime.health.onlookers import Onlookers
from bot.runtime.history.recording.recorder import begin_recording
from bot.runtime.inbox import Inbox
from bot.runtime.journal_file import (
    END_S,
    TO_RUN,
    answer,
    ending_run,
    journal_errors,
    left_unwritten,
    require_same_account,
)
from bot.runtime.notices.notices import Notices
from bot.runtime.order_manager import OrderManager
from bot.runtime.parts import Parts, unanswered
from bot.runtime.read_health import Health
from bot.runtime.reads import DayBookReader, Reads
from bot.runtime.run_controls import RunControls, RunEnd, RunOptions, Screen
from bot.runtime.second_factor import SecondFactor, codes_asked
from bot.runtime.start.broker import MakeEnvironment, make_environment, meet_broker, show_broker
from bot.runtime.start.opening import (
    Opened,
    before_this,
    begin_state,
    has_open_work,
    open_journal,
    recovered_here,
)
from bot.runtime.start.raised import require_typed
from bot.runtime.start.retry import BrokerRetry
from bot.runtime.start.strategies import (
    Broken,
    make_engine,
    note_start,
    show_config,
    strategies_to_run,
)
from bot.runtime.supervisor import FaultGuard, Supervisor, Trouble, ends_the_run
from bot.runtime.timetable.feeds import PollWatch
from bot.runtime.upkeep import Retention
from bot.runtime.watches import HookWatch
from bot.runtime.worlds.environment import EnvironmentSpec

SWITCH_S: Final = 0.000_5
"""How long a thread may keep the interpreter from another. The journal's thread needs it after
every statement: with Python's own 5 ms a commit beside a busy loop takes 4 times as long.
"""


async def run_bot(
    loaded: Loaded, options: RunOptions, screen: Screen, *, make: MakeEnvironment = make_environment
) -> RunEnd:
    """Run until stopped.

    Raises OperatorMistake for what an operator can correct; anything else is a bug.
    """
    started = performance_s()
    async with AsyncExitStack() as stack:
        stack.callback(sys.setswitchinterval, sys.getswitchinterval())
        sys.setswitchinterval(SWITCH_S)
        run = Run(loaded, options, screen, stack, make)
        with options.telling_end():
            return RunEnd(await run.to_its_end(), run.now(), performance_s() - started)


class Run:
    """The parts of one run, created in the order of the start."""

    def __init__(
        self,
        loaded: Loaded,
        options: RunOptions,
        screen: Screen,
        stack: AsyncExitStack,
        make: MakeEnvironment,
    ) -> None:
        self._loaded, self._options, self._stack, self._make = loaded, options, stack, make
        self._supervisor, self._activity = Supervisor(), Activity()
        self._screen = Onlookers(loaded, screen, self._supervisor, options.hidden_by)
        self._inbox = Inbox(Activity())  # nobody uses it yet, so no clock may wait for it
        self._faults = FaultGuard(loaded.state_dir, self._screen.hiding.text)
        self._brake = Brake(loaded.state_dir)
        say = self._screen.trouble
        self._hooks = HookWatch(lambda: self._brake.is_on, tell=partial(tell_stuck, loaded, say))
        self._rulebook = rulebook_of(loaded)
        self._emergency = EmergencyJournal(loaded.state_dir)
        self._codes_asked: list[datetime] = []
        self._commits: Commits | None = None
        self._trouble = Trouble(self.now, say)
        self._notices = Notices(loaded, options.told, say)
        self._found = strategies_to_run(loaded, options.only)
        self._strategies, self._broken = self._found.strategies, Broken(self._found.broken)
        self._files = hashes_of(self._strategies)
        self._fields = {"mode": loaded.settings.mode, "journal": masked_url(loaded.journal_url)}

    async def to_its_end(self) -> str:
        """Start, run, stop; return why it ended."""
        loaded, origin = self._loaded, self._loaded.origin_of("journal.url")
        ask = partial(answer, loaded.journal_url)
        child = begin_state(loaded, self._options)
        await self._screen.begin(self._stack)
        self._stack.enter_context(self._brake.on_signal())
        show_config(loaded, self._found, self._screen.row, self._screen.trouble)
        server = ControlServer(loaded.state_dir, handlers_of(self._fields), {"bot": loaded.bot})
        opened = await self._open_journal(server, child)
        if isinstance(opened, str):
            return opened
        journal = opened.journal
        # From here on the socket represents the bot: the lease has proved that it is the only one.
        if not self._options.is_standby:
            await server.start()
        self._stack.push_async_callback(server.stop)
        self._enter_environment()
        commits = self._commits = Commits(
            journal,
            self._emergency,
            timeout_s=loaded.settings.journal.write_timeout_s,
            now=self.now,
            post=self._inbox.post,
            trouble=self._trouble,
        )
        self._halt = EarlyHalt(commits, self.now, self._brake)
        server.serve(handlers_of(self._fields, halt=self._halt), {"bot": loaded.bot})
        with journal_errors(origin):
            left = await ask(journal.recover(local_of(SystemClock().now()).date()))
        met = await self._meet_broker(server, left)
        if met is None:
            with journal_errors(origin):
                self._supervisor.raise_failure()
            return self._controls.reason
        broker, account = met
        require_same_account(left, self._strategies, account.extended_id)
        self._stack.enter_context(self._controls.on_signals())  # a row of a run always gets its end
        with journal_errors(origin):
            run_id, recovery = await self._record_start(opened)
        self._fence.hold_all(lost_places(recovery))
        parts = self._assemble(opened, commits, broker, account)
        recorder = begin_recording(parts, loaded, self._files, self._way, self._activity)
        self._stack.callback(recorder.stop)
        daemon = Daemon(parts, recovery, self._supervisor)
        self._screen.follow(daemon.work, parts, broker)
        self._serve_control(server, parts, broker)
        self._halt.hand_over(self._inbox.ask)
        with self._hooks.at_work():
            async with ending_run(journal, loaded, run_id, self.now, self._emergency):
                await self._controls.around(daemon.run(), parts)
        return await self._write_end(journal, run_id, parts, [*commits.beside, *daemon.unwritten])

    async def _open_journal(self, server: ControlServer, child: int | None) -> Opened | str:
        """Return our journal, or why the wait for it ended. Raises OperatorMistake."""
        loaded, is_standby = self._loaded, self._options.is_standby
        ask = partial(answer, loaded.journal_url)
        typed = partial(require_typed, loaded, self._strategies, self._options.typed)
        with journal_errors(loaded.origin_of("journal.url"), what_to_do=TO_RUN):
            if is_standby:
                with suppress(JournalError):  # what can't be read yet is read at the takeover
                    await ask(typed())
            opened = await open_journal(
                *(loaded, server, self._screen, self._supervisor, self._stack, self._fields),
                child=child,
                options=self._options,
                people=self._notices.of_blind.tell,
                lose=lambda why: self._commits.lose(why) if self._commits else None,
            )
            if isinstance(opened, Opened):
                if words := await take_over(opened.journal, self._emergency, ask, opened.damage):
                    self._screen.row("emergency", words)
                # A service starts again after REFUSED, so a standby reads its files anew.
                await ask(typed(ExitCode.REFUSED if is_standby else ExitCode.CONFIG))
        return opened

    async def _record_start(self, opened: Opened) -> tuple[int, Recovery]:
        """Begin the journal's new run; return its number, and the state from which it continues."""
        url, journal = self._loaded.journal_url, opened.journal
        ask = partial(answer, url)
        facts = {"mode": self._loaded.settings.mode, "config_sha256": self._loaded.sha256}
        run_id = await ask(journal.start_run(at=self.now(), version=__version__, **facts))
        today = local_of(self.environment.market.now()).date()
        kept = await ask(journal.recover(today, figures_in))
        recovery = recovered_here(kept, opened.damage, self.environment, self._found.broken)
        self._codes_asked += await ask(in_time(partial(codes_asked, url, today)))
        clock, began = self._entered
        began = began if clock is self.environment.market else self.now()  # served: found since
        self._gap = await ask(in_time(partial(before_this, url, self._rulebook, began)))
        self._screen.recovered(recovery)
        told = recovery.last_start, self._fence.key.facts, self._broken.found(recovery)
        note_start(self._loaded, self._files, *told, at=self.now(), post=self._inbox.post)
        return run_id, recovery

    async def _write_end(
        self, journal: Journal, run_id: int, parts: Parts, left: Sequence[Entry]
    ) -> str:
        """Record why the run ended, and return it."""
        reason = self._controls.reason
        if missing := unanswered(parts):
            reason = f"{reason}; without the answer to {', '.join(missing)}"
        unwritten = left_unwritten(reason, left, parts.commits.unkept)
        if parts.commits.is_cut:
            raise unwritten
        with journal_errors(self._loaded.origin_of("journal.url")):
            try:  # the journal keeps the order of its requests, so this one confirms all before it
                ending = journal.end_run(run_id, reason, at=self.environment.market.now())
                await answer(self._loaded.journal_url, ending, END_S)
            except Unreachable as error:
                raise unwritten from error
        return reason

    def now(self) -> datetime:
        """Market time by the present clock: a served one is found later."""
        return self.environment.market.now() if self._commits else SystemClock().now()

    def _enter_environment(self) -> None:
        """Choose the clock and start an embedded broker: only the holder of the lease may."""
        symbols = frozenset(each for one in self._strategies for each in one.plan.symbols)
        spec = EnvironmentSpec(
            self._loaded, self._rulebook, self._activity, symbols, on_bug=self._supervisor.fail
        )
        self.environment = self._make(spec)
        self._way = RightOfWay(self.environment.pace.hold_s)
        self._entered = self.environment.market, self.environment.market.now()
        start = self.environment.story_start
        if start is not None and (words := on_later_rules(self._rulebook, start)):
            self._screen.row("rules", words)
        self._tasks = Tasks(self._activity, self.environment.turn, self._on_failed_task)
        self._controls = RunControls(self._options, self.environment, self._supervisor)

    def _on_failed_task(self, error: BaseException) -> None:
        """Continue without a task that ended by a fault; any other failure ends the run."""
        if ends_the_run(error):
            self._supervisor.fail(error)
        else:
            self._on_fault("work in the background", self._faults.fault_of(error))

    def _on_fault(self, where: str, fault: Fault) -> None:
        self._inbox.post(FaultFound(self.environment.market.now(), where, fault))

    async def _meet_broker(
        self, server: ControlServer, left: Recovery
    ) -> tuple[Broker, SubAccount] | None:
        """Find the broker and our account there; None if the bot was stopped before that.

        With open work `left`, or as a service, keep trying until it answers or the bot is stopped.
        """
        waits, self._left = has_open_work(left) or self._options.is_service, left
        self._retry = BrokerRetry(self.environment.waiter, self._screen.trouble, waits)
        early = partial(handlers_of, self._fields, halt=self._halt, breaks=left.breaks)
        do = early(why=lambda: self._retry.trouble, stop=self._controls.stop if waits else None)
        server.serve(do, {"bot": self._loaded.bot})
        told = self._faults.guard, self.now, self._inbox.post, self._retry.standing
        await self._notices.begin(self._stack, *told)
        if not waits:
            return await self._sign_in()
        with self._controls.on_signals():
            return await self._supervisor.unless_stopped(self._sign_in())

    async def _sign_in(self) -> tuple[Broker, SubAccount]:
        try:
            broker, account, self._fence, has_asked = await meet_broker(
                self._loaded,
                self.environment,
                self._stack,
                self._tasks,
                self._retry,
                self._inbox.post,
                DryWriter if self._options.dry_run else OrderWriter,
                self._left,
            )
        except UnknownSymbols as error:
            plans = [each.plan for each in self._strategies]
            raise UnknownSymbols(error.symbols, plans) from error
        if has_asked:
            self._codes_asked.append(self.environment.market.now())
        show_broker(self._loaded, broker, account, self._screen.row)
        return broker, account

    def _assemble(
        self, opened: Opened, commits: Commits, broker: Broker, account: SubAccount
    ) -> Parts:
        loaded, environment, post = self._loaded, self.environment, self._inbox.post
        settings, market, client = loaded.settings, environment.market, broker.client
        health = Health(market, post, environment.elapsed_s)
        offset = (lambda: broker.offset.of_sends) if environment.has_machines_time else timedelta
        book = DayBookReader(client, account, market, offset, health, post, environment.elapsed_s)
        of_account = partial(replace, account=account.extended_id)
        strategies = [replace(each, plan=of_account(each.plan)) for each in self._strategies]
        clocks, speed = (market, environment.wire), environment.quota_speed
        taking = broker, clocks, post, loaded.state_dir, self._codes_asked
        time_slice, gate = TimeSlice(environment.pace.slice_s), self._supervisor.before
        made_of = settings, self._rulebook, strategies, self._faults.guard, time_slice.is_over
        engine = make_engine(*made_of, self._hooks.invoke)
        self._faults.dump = engine.dump
        to_send = self._brake.before(gate(engine.reason_not_to_send), engine.passes_halt)
        gates = to_send, self._brake.before(gate(engine.reason_not_to_amend)), engine.passes_halt
        shown = self._faults.screen(self._screen.entry, partial(self._on_fault, "the screen"))
        return Parts(
            environment=environment,
            inbox=self._inbox.counted_in(self._activity),
            time_slice=time_slice,
            tasks=self._tasks,
            engine=engine,
            commits=commits,
            account=account,
            reads=Reads(client, account, market, health, post, self._way, environment.elapsed_s),
            day_order_book=book,
            orders=OrderManager(
                writer=broker.writer,
                commits=commits,
                account=account,
                day_order_book=book,
                market=market,
                fence=self._fence,
                epoch=opened.epoch,
                max_in_flight=settings.risk.max_in_flight,
                gates=gates,
                post=post,
                way=self._way,
                spawn=self._tasks.spawn if environment.pace.reads_ahead else None,
            ),
            fence=self._fence,
            second_factor=SecondFactor(*taking, played_code=environment.mailed_code, speed=speed),
            rulebook=self._rulebook,
            bars_file=loaded.state_dir / f"bars-{settings.mode}.csv",
            ex_dates_file=loaded.state_dir / f"ex-dates-{settings.mode}.csv",
            plans=tuple(each.plan for each in strategies),
            polls=PollWatch(quota=settings.broker.requests_per_minute, speed=speed, post=post),
            show=(shown, self._controls.see, self._notices.see),
            go_ahead=self._screen.ahead(self._controls.go_ahead, self._notices.ahead),
            trouble=self._trouble,
            guard=self._faults.guard,
            brake=self._brake,
            retry=self._retry,
            broker=broker,
            gap=self._gap,
            retention=Retention(opened.journal, settings.journal.keep, post, loaded.backups_dir),
        )

    def _serve_control(self, server: ControlServer, parts: Parts, broker: Broker) -> None:
        facts = Facts(
            broker=broker,
            loaded=self._loaded,
            is_dry_run=self._options.dry_run,
            started_at=self.environment.market.now(),
            files=self._files,
            alerts=lambda: (*self._broken.alerts, *self._screen.alerts, *self._notices.standing()),
        )
        operations = Operations(parts, facts, self._controls.expect_end)
        handlers = {**operations.handlers(), **self._notices.follow(parts)}
        server.serve(
            {word: self._faults.handler(do) for word, do in handlers.items()},
            {"bot": self._loaded.bot, "account": parts.account.masked},
        )
