"""One run of the bot, from checked settings to a clean end: the place where all parts meet.

Order of the start: plans → journal and its lease → broker → account → engine → the daemon. A second
bot on the same journal is refused before any request is made.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from datetime import date, datetime
from functools import partial

from bot import __version__
from bot.broker.broker import Broker
from bot.broker.errors import BrokerError
from bot.broker.writes import DryWriter, OrderWriter
from bot.clock import SystemClock, performance_s
from bot.config.masking import masked_url
from bot.config.rulebook import on_later_rules, rulebook_of
from bot.config.settings.load import Loaded
from bot.config.strategies.invoke import invoke
from bot.config.strategies.load import UnknownSymbols, load_strategies
from bot.config.strategies.source_files import hashes_of
from bot.domain.account import SubAccount
from bot.domain.errors import Fault
from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.message import FaultFound
from bot.domain.plan import StrategyPlan
from bot.engine.engine import Engine
from bot.journal.errors import Holder, LeaseLost
from bot.journal.heads_keeper import HeadsKeeper
from bot.journal.journal import Journal
from bot.journal.lease import acquire
from bot.runtime.activity import Activity, Inbox, Tasks
from bot.runtime.assemble import (
    choose_account,
    connect_broker,
    engine_settings,
    on_account,
    sign_in,
    unreachable,
)
from bot.runtime.control.operations import Operations
from bot.runtime.control.server import ControlServer, while_starting
from bot.runtime.control.status import Facts
from bot.runtime.daemon import Daemon, Parts
from bot.runtime.faults import FaultGuard, ends_the_run
from bot.runtime.feeds import PollWatch, polls_of, room_for_polls, slowed_by
from bot.runtime.journal_file import (
    TO_RUN,
    journal_errors,
    prepare_journal,
    require_unmixed,
    taken_over,
)
from bot.runtime.order_manager import Clocks, OrderManager
from bot.runtime.reads import DayOrderBook, Health, Reads
from bot.runtime.run_controls import RunControls, RunOptions, Screen
from bot.runtime.second_factor import SecondFactor, codes_asked
from bot.runtime.starting import EarlyHalt, Insistence, handlers_of, has_open_work
from bot.runtime.state_dir import make_state_dir
from bot.runtime.supervisor import Supervisor
from bot.runtime.worlds.choice import MakeEnvironment, make_environment
from bot.runtime.worlds.environment import EnvironmentSpec, clock_held


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How a run ended."""

    reason: str
    market_time: datetime
    seconds: float


async def run_bot(
    loaded: Loaded, options: RunOptions, screen: Screen, *, make: MakeEnvironment = make_environment
) -> RunEnd:
    """Run until stopped.

    Raises OperatorMistake for what an operator can put right; anything else is a bug.
    """
    started = performance_s()
    async with AsyncExitStack() as stack:
        run = Run(loaded, options, screen, stack, make)
        reason = await run.to_its_end()
        return RunEnd(reason, run.environment.market.now(), performance_s() - started)


@dataclass(frozen=True, slots=True)
class OpenJournal:
    """The open journal and the epoch of our lease on it."""

    journal: Journal
    epoch: int


class Run:
    """The parts of one run, made in the order of the start."""

    def __init__(
        self,
        loaded: Loaded,
        options: RunOptions,
        screen: Screen,
        stack: AsyncExitStack,
        make: MakeEnvironment,
    ) -> None:
        self._loaded = loaded
        self._options = options
        self._screen = screen
        self._stack = stack
        self._make = make
        self._supervisor = Supervisor()
        self._activity = Activity()
        self._inbox = Inbox(self._activity)
        self._faults = FaultGuard(loaded.state_dir)
        self._rulebook = rulebook_of(loaded)
        self._codes_asked: list[datetime] = []
        self._strategies = load_strategies(loaded, only=options.only)
        self._files = hashes_of(self._strategies)

    async def to_its_end(self) -> str:
        """Start, run, stop; return why it ended."""
        make_state_dir(self._loaded.state_dir)
        self._show_config()
        journal_origin = self._loaded.origin_of("journal.url")
        with journal_errors(journal_origin, what_to_do=TO_RUN):
            opened = self._open_journal()
        server = await self._listen()
        self._enter_world()
        self._halt = EarlyHalt(opened.journal, self.environment.market)
        server.serve(handlers_of(self._halt, self._fields), {"bot": self._loaded.bot})
        with journal_errors(journal_origin):
            left = await opened.journal.recover(_date_of(SystemClock().now()))
        met = await self._meet_broker(server, has_work=has_open_work(left))
        if met is None:
            return self._controls.reason
        broker, account = met
        with journal_errors(journal_origin):
            run_id = await self._start_run(opened.journal)
            today = _date_of(self.environment.market.now())
            recovery = await opened.journal.recover(today)
            self._codes_asked += codes_asked(self._loaded.journal_url, today)
        self._screen.recovered(recovery)
        parts = self._put_together(opened, broker, account)
        daemon = Daemon(parts, recovery, self._supervisor)
        self._serve_control(server, parts, broker)
        if self._halt.asked is not None:
            self._inbox.post(self._halt.asked)
        with self._controls.on_signals():
            try:
                await self._controls.around(daemon.run(), parts)
            except LeaseLost as error:
                raise taken_over(error) from error
        reason = self._controls.reason
        with journal_errors(journal_origin):
            await opened.journal.end_run(run_id, reason, at=self.environment.market.now())
        return reason

    def _enter_world(self) -> None:
        """Choose the clock and wake an embedded broker: only the holder of the lease may."""
        symbols = frozenset(each for one in self._strategies for each in one.plan.symbols)
        spec = EnvironmentSpec(
            self._loaded, self._rulebook, self._activity, symbols, on_bug=self._supervisor.fail
        )
        self.environment = self._make(spec)
        start = self.environment.story_start
        if start is not None and (words := on_later_rules(self._rulebook, start)):
            self._screen.row("rules", words)
        self._tasks = Tasks(self._activity, self.environment.turn, self._on_failed_task)
        self._controls = RunControls(self._options, self.environment, self._supervisor)

    def _on_failed_task(self, error: BaseException) -> None:
        """Go on without a task that was broken by a fault; the rest ends the run."""
        if ends_the_run(error):
            self._supervisor.fail(error)
        else:
            self._on_fault("work in the background", self._faults.fault_of(error))

    def _on_fault(self, where: str, fault: Fault) -> None:
        self._inbox.post(FaultFound(self.environment.market.now(), where, fault))

    # -------------------------------------------------------------------------------- journal

    def _open_journal(self) -> OpenJournal:
        url = self._loaded.journal_url
        state = prepare_journal(url)
        lease = acquire(url, Holder(os.getpid(), socket.gethostname(), SystemClock().now()))
        self._stack.callback(lease.release)
        require_unmixed(url, self._loaded.settings.mode)
        keeper = HeadsKeeper(self._loaded.state_dir, url, SystemClock(), self._tell_from_thread())
        journal = Journal.open(url, epoch=lease.epoch, keeper=keeper)
        self._stack.push_async_callback(journal.close)
        self._screen.row("journal", f"{masked_url(url)} ({state})")
        return OpenJournal(journal, lease.epoch)

    def _tell_from_thread(self) -> Callable[[str], None]:
        """The screen's word on trouble, for a thread beside the loop."""
        loop, trouble = asyncio.get_running_loop(), self._screen.trouble

        def tell(text: str) -> None:
            with suppress(RuntimeError):  # the loop has ended: nobody is there to read it
                loop.call_soon_threadsafe(trouble, text)

        return tell

    async def _start_run(self, journal: Journal) -> int:
        return await journal.start_run(
            at=self.environment.market.now(),
            mode=self._loaded.settings.mode,
            version=__version__,
            config_sha256=self._loaded.sha256,
        )

    # --------------------------------------------------------------------------------- broker

    async def _meet_broker(
        self, server: ControlServer, *, has_work: bool
    ) -> tuple[Broker, SubAccount] | None:
        """Find the broker and our account there; None when the bot was stopped before that.

        With open work it is asked until it answers; the socket says so, and takes a stop.
        """
        self._insistence = Insistence(self.environment.waiter, self._screen.trouble, has_work)
        if not has_work:
            return await self._sign_in()
        handlers = handlers_of(self._halt, self._fields, self._insistence, self._controls.stop)
        server.serve(handlers, {"bot": self._loaded.bot})
        with self._controls.on_signals():
            return await self._supervisor.unless_stopped(self._sign_in())

    async def _sign_in(self) -> tuple[Broker, SubAccount]:
        wanted, ask = self._loaded.settings.broker.account, self._insistence.ask
        try:
            access = await ask(partial(self.environment.open, self._stack))
            writes = DryWriter if self._options.dry_run else OrderWriter
            broker = connect_broker(
                self._loaded, access, self.environment, self._inbox.post, writes
            )
            self._stack.push_async_callback(broker.close)
            async with clock_held(self.environment, self._tasks):
                account = await ask(partial(choose_account, broker.client, wanted))
                code = self.environment.mailed_code
                has_asked = await ask(partial(sign_in, broker, self._loaded.state_dir, code))
        except BrokerError as error:
            raise unreachable(error) from error
        except UnknownSymbols as error:
            plans = [each.plan for each in self._strategies]
            raise UnknownSymbols(error.symbols, plans) from error
        if has_asked:
            self._codes_asked.append(self.environment.market.now())
        self._show_broker(broker, account)
        return broker, account

    # ---------------------------------------------------------------------------------- parts

    def _put_together(self, opened: OpenJournal, broker: Broker, account: SubAccount) -> Parts:
        environment, post, risk = self.environment, self._inbox.post, self._loaded.settings.risk
        quota = self._loaded.settings.broker.requests_per_minute
        health = Health(environment.market, post)
        day_order_book = DayOrderBook(
            broker.client, account, environment.market, health, post, environment.elapsed_s
        )
        strategies = [on_account(each, account) for each in self._strategies]
        engine = Engine(
            rulebook=self._rulebook,
            strategies=strategies,
            settings=engine_settings(risk),
            invoke=invoke,
            guard=self._faults.guard,
        )
        return Parts(
            environment=environment,
            inbox=self._inbox,
            tasks=self._tasks,
            engine=engine,
            journal=opened.journal,
            client=broker.client,
            account=account,
            reads=Reads(broker.client, account, environment.market, health, post),
            day_order_book=day_order_book,
            orders=OrderManager(
                writer=broker.writer,
                journal=opened.journal,
                account=account,
                day_order_book=day_order_book,
                clocks=Clocks(environment.market, broker.offset),
                epoch=opened.epoch,
                max_in_flight=risk.max_in_flight,
                gate=engine.reason_not_to_send,
                post=post,
            ),
            second_factor=SecondFactor(
                broker.client,
                broker.two_factor,
                (environment.market, environment.wire),
                post,
                self._loaded.state_dir,
                self._codes_asked,
                played_code=environment.mailed_code,
            ),
            rulebook=self._rulebook,
            plans=tuple(each.plan for each in strategies),
            quota=quota,
            polls=PollWatch(quota=quota, speed=environment.quota_speed, post=post),
            show=(
                self._faults.screen(self._screen.entry, partial(self._on_fault, "the screen")),
                self._controls.see,
            ),
            on_trouble=self._screen.trouble,
            guard=self._faults.guard,
            insistence=self._insistence,
        )

    async def _listen(self) -> ControlServer:
        """Say from the first moment that the bot is there: the lease has proved it the only one."""
        loaded = self._loaded
        self._fields = {"mode": loaded.settings.mode, "journal": masked_url(loaded.journal_url)}
        server = ControlServer(loaded.state_dir, while_starting(self._fields), {"bot": loaded.bot})
        await server.start()
        self._stack.push_async_callback(server.stop)
        return server

    def _serve_control(self, server: ControlServer, parts: Parts, broker: Broker) -> None:
        facts = Facts(
            engine=parts.engine,
            market=self.environment.market,
            offset=broker.offset,
            budget=broker.budget,
            drift=broker.drift,
            mode=self._loaded.settings.mode,
            is_dry_run=self._options.dry_run,
            account=parts.account.masked,
            account_id=parts.account.id,
            started_at=self.environment.market.now(),
            journal=masked_url(self._loaded.journal_url),
            files=self._files,
            polls=parts.polls,
        )
        operations = Operations(
            facts,
            broker.client,
            self._tasks,
            parts.second_factor,
            self.environment.market,
            self._inbox.post,
        )
        sender = {"bot": self._loaded.bot, "account": parts.account.masked}
        handlers = {word: self._faults.handler(do) for word, do in operations.handlers().items()}
        server.serve(handlers, sender)

    # ---------------------------------------------------------------------------- the first lines

    def _show_config(self) -> None:
        symbols = {symbol for each in self._strategies for symbol in each.plan.symbols}
        strategies = "strategy" if len(self._strategies) == 1 else "strategies"
        word = "symbol" if len(symbols) == 1 else "symbols"
        counted = f"{len(self._strategies)} {strategies}, {len(symbols)} {word}"
        self._screen.row("config", f"{self._loaded.path}, {counted}")
        self._show_slow_polls([each.plan for each in self._strategies])

    def _show_slow_polls(self, plans: Sequence[StrategyPlan]) -> None:
        polls, quota = polls_of(plans), self._loaded.settings.broker.requests_per_minute
        slower = slowed_by(polls, quota)
        if slower > 1:
            wanted = sum(poll.per_minute for poll in polls)
            needs = f"need {wanted:.0f} a minute, the quota leaves {room_for_polls(quota)}"
            self._screen.row("polls", f"{needs}: each comes {slower:.1f} times as seldom")

    def _show_broker(self, broker: Broker, account: SubAccount) -> None:
        skew_ms = broker.offset.value.total_seconds() * 1000
        self._screen.row(
            "broker", f"account {account.masked} {account.type}, skew {skew_ms:.0f} ms"
        )
        until = broker.two_factor.until
        known = f"token until {until.astimezone(EXCHANGE_TZ):%H:%M}" if until else "no token yet"
        self._screen.row("2FA", known)


def _date_of(instant: datetime) -> date:
    return instant.astimezone(EXCHANGE_TZ).date()
