"""The paper world: the market of the real broker, our orders matched in this process.

The bot talks to one broker as always. What answers is a sandbox whose market is mirrored: reads of
market data are passed on to the real broker, everything else stays here. The clock is the
machine's; where the "real" broker is itself a sandbox in another process, its market clock.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import urlsplit

from bot.broker.budget import SystemWaiter, Waiter
from bot.broker.errors import BrokerError, ForbiddenAddress, Unreachable
from bot.clock import Clock, SystemClock, boottime_s
from bot.config.problems import ExitCode, OperatorMistake
from bot.config.rulebook import load_symbols
from bot.config.settings.load import Loaded
from bot.config.strategies.load import UnknownSymbols
from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.quote import Quote
from bot.domain.rulebook import Rulebook
from bot.protocol.answer import Answer
from bot.protocol.decode import decode_quote
from bot.protocol.endpoints.endpoint import build_target
from bot.protocol.endpoints.trading import STOCK_QUOTE
from bot.protocol.envelope import open_envelope
from bot.protocol.errors import BrokerRefusal, MalformedAnswer
from bot.protocol.secret import Secret
from bot.runtime.activity import Activity, AllAtOnce, Tasks, Turn
from bot.runtime.schedule import Fire, Job, Report, SystemTimetable, Timetable, every
from bot.runtime.worlds.environment import Access, Driver, Elapsed, Mark, SystemDriver, as_it_is
from bot.runtime.worlds.paced import PacedDriver, read_market_clock
from bot.runtime.worlds.paper.account import (
    LEDGER,
    Beginning,
    keep_beginning,
    read_beginning,
    terms_of,
)
from bot.runtime.worlds.paper.relay import MarketRelay
from bot.sandbox.errors import LedgerBroken
from bot.sandbox.house.ledger import resumed_at
from bot.sandbox.mirror_shell import MirrorShell
from bot.sandbox.mirror_watch import Clocks, Watch
from bot.sandbox.sandbox import Sandbox

TICK: Final = timedelta(seconds=1)
"""How often the watch looks after itself, in market time."""
BACKWARDS_MAX: Final = timedelta(minutes=1)
IN_PROCESS: Final = "http://127.0.0.1:1"
"""An address that is never connected to: the paper broker answers in this process."""
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
_NOT_FOUND: Final = 404

OnBug = Callable[[BaseException], None]


class PaperEnvironment:
    """See the module. `real` is the broker whose market is shown; `symbols` are what is traded."""

    def __init__(
        self,
        loaded: Loaded,
        real: Access,
        *,
        rulebook: Rulebook,
        symbols: Iterable[str],
        activity: Activity,
        on_bug: OnBug,
    ) -> None:
        self._loaded = loaded
        self._real = real
        self._rulebook = rulebook
        self._symbols = tuple(sorted(symbols))
        self._speed = 1.0
        self._is_served = False
        self._watch: Watch | None = None
        self.wire: Clock = SystemClock()
        self.market: Clock = self.wire
        self.waiter: Waiter = SystemWaiter(self.wire)
        self.turn: Turn = AllAtOnce()
        self.max_concurrent: int | None = None
        self.quota_speed = 1.0
        self.elapsed_s: Elapsed = boottime_s
        self.mailed_code: Secret | None = None
        self.story_start: datetime | None = None
        self.mark: Mark = as_it_is
        self._tasks = Tasks(activity, self.turn, on_bug)

    # ------------------------------------------------------------------------------ opening

    async def open(self, stack: AsyncExitStack) -> Access:
        """Begin or go on with the paper account, and answer for it in this process.

        Raises BrokerError where the real broker does not answer, OperatorMistake for an account
        of other terms, an unknown symbol, or a clock behind the account's own.
        """
        await self._follow_clock()
        relay = self._relay()
        stack.push_async_callback(relay.close)
        sandbox = self._sandbox(await self._beginning(relay))
        stack.callback(sandbox.close)
        self._watch = self._watching(sandbox, relay)
        self.mailed_code = Secret(sandbox.credentials.otp_code)
        given = sandbox.credentials
        shell = MirrorShell(sandbox, self._watch, self.wire)
        return Access(IN_PROCESS, Secret(given.api_key), Secret(given.api_secret), shell)

    async def _follow_clock(self) -> None:
        """Only an address on this machine can be a sandbox, and is asked for its clock."""
        if self._real.app is not None or urlsplit(self._real.base_url).hostname not in _LOOPBACK:
            return
        told = await read_market_clock(self._real.base_url, self.wire)
        if told is not None:
            self._is_served = True
            self.market, self._speed = told

    def _relay(self) -> MarketRelay:
        try:
            return MarketRelay(self._real, self._loaded.settings.broker.device_id, self.wire)
        except ForbiddenAddress as error:
            raise OperatorMistake.of("E-CFG-043", f"broker.base_url: {error.reason}") from error

    async def _beginning(self, relay: MarketRelay) -> Beginning:
        state_dir, terms = self._loaded.state_dir, terms_of(self._loaded.settings)
        found = read_beginning(state_dir, terms)
        begun = found or Beginning(self.market.now(), terms, {})
        wanted = dict.fromkeys((*self._symbols, *terms.holdings))
        asked = {each: await _quote(relay, each) for each in wanted if each not in begun.symbols}
        new = [quote for quote in asked.values() if quote is not None]
        if len(new) < len(asked):
            raise UnknownSymbols([symbol for symbol, quote in asked.items() if quote is None])
        today = self.market.now().astimezone(EXCHANGE_TZ).date()
        begun = begun.with_symbols(new, load_symbols(), today)
        if new:
            keep_beginning(state_dir, begun)
        return begun

    def _sandbox(self, beginning: Beginning) -> Sandbox:
        ledger, now = self._loaded.state_dir / LEDGER, self.market.now()
        try:
            last = resumed_at(ledger)
            if last is not None and last > now + BACKWARDS_MAX:
                raise LedgerBroken(f"it has been at {last:%Y-%m-%d %H:%M}, the clock is behind")
            return Sandbox(
                beginning.scenario(),
                self._rulebook,
                clock=self.market,
                wire=self.wire,
                ledger=ledger,
            )
        except LedgerBroken as error:
            text = f"{ledger}: {error}"
            raise OperatorMistake.of("E-SBX-001", text, ExitCode.DATABASE) from error

    def _watching(self, sandbox: Sandbox, relay: MarketRelay) -> Watch:
        return Watch(
            sandbox,
            relay,
            Clocks(self.market, self.wire),
            rulebook=self._rulebook,
            quota=self._loaded.settings.broker.requests_per_minute,
        )

    # ------------------------------------------------------------------------------ running

    def drive(self, jobs: Sequence[Job], on_due: Fire, report: Report) -> Driver:
        """Drive the daemon's jobs, and the watch among them."""
        jobs = [*jobs, self._watch_job()]
        if not self._is_served:
            return SystemDriver(SystemTimetable(jobs, on_due, report))
        timetable = Timetable(jobs, self.market.now())
        return PacedDriver(self.market, timetable, on_due, speed=self._speed)

    def _watch_job(self) -> Job:
        def look(_: datetime) -> None:
            if self._watch is not None and not self._tasks.running:
                self._tasks.spawn(self._watch.tick(), "paper watch")

        return Job("paper watch", every(TICK, start=self.market.now() + TICK), look, 1)

    async def pause(self, span: timedelta) -> None:
        """Let a span of market time pass."""
        await self.waiter.sleep_until(self.wire.now() + span / self._speed)

    def finish(self) -> None:
        """The account goes on tomorrow."""


async def _quote(relay: MarketRelay, symbol: str) -> Quote | None:
    """Read a symbol's quote; None for an unknown symbol. Raises BrokerError."""
    answer = await relay(STOCK_QUOTE, build_target(STOCK_QUOTE, {"symbol": symbol}))
    if not isinstance(answer, Answer):
        raise Unreachable(STOCK_QUOTE.name, answer.reason)
    if answer.http_status == _NOT_FOUND:
        return None
    try:
        return decode_quote(open_envelope(STOCK_QUOTE, answer))
    except (BrokerRefusal, MalformedAnswer) as error:
        raise BrokerError(STOCK_QUOTE.name, f"{symbol}: {error}") from error
