"""The paper environment: the market of the real broker, our orders matched in this process.

As always the bot talks to one broker. It is a sandbox with a mirrored market: reads of market data
are passed on to the real broker, everything else stays here. The clock is the machine's or, if the
"real" broker is itself a sandbox in another process, that one's market clock.
"""

from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import urlsplit

from bot.broker.broker import connect_lanes
from bot.broker.errors import BrokerError, ForbiddenAddress, Unreachable
from bot.broker.link import Bounds, HttpRequest, Traffic
from bot.broker.signer import Credentials, Signer
from bot.clock import Clock
from bot.config.problems import ExitCode, OperatorMistake
from bot.config.rulebook import load_symbols
from bot.config.strategies.load import UnknownSymbols
from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.local_time import day_and_clock_of
from bot.domain.quote import Quote
from bot.protocol.endpoints.endpoint import Endpoint, build_target
from bot.protocol.endpoints.trading import STOCK_QUOTE
from bot.protocol.envelope import SIZES, Answer, NoAnswer, open_envelope
from bot.protocol.errors import BrokerRefusal, MalformedAnswer
from bot.protocol.quotes import decode_quote
from bot.protocol.secret import Secret
from bot.runtime.activity import Tasks
from bot.runtime.timetable.schedule import Fire, Job, Report, every
from bot.runtime.worlds.environment import Access, Driver, EnvironmentSpec
from bot.runtime.worlds.paper_account import (
    LEDGER,
    Beginning,
    keep_beginning,
    read_beginning,
    terms_of,
)
from bot.runtime.worlds.system import SystemEnvironment, read_market_clock
from bot.sandbox.errors import LedgerBroken
from bot.sandbox.house.ledger import resumed_at
from bot.sandbox.mirror import Clocks, MirrorShell, Watch, relayed
from bot.sandbox.sandbox import Sandbox

LOOK_S_MAX: Final = 3.0
"""An order, with a deadline of 10 s, is taken after up to three reads of this length."""
TICK: Final = timedelta(seconds=1)
"""How often the watch updates itself, in market time."""
BACKWARDS_MAX: Final = timedelta(minutes=1)
IN_PROCESS: Final = "http://127.0.0.1:1"
"""An address that is never connected to: the paper broker answers in this process."""
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
_NOT_FOUND: Final = 404


class MarketRelay:
    """Reads of the real broker's market, with the real key. Raises ForbiddenAddress."""

    def __init__(self, access: Access, device_id: str, wire: Clock) -> None:
        self._links = connect_lanes(access.base_url, traffic=Traffic(), app=access.app)
        self._signer = Signer(Credentials(access.api_key, access.api_secret, device_id), wire)

    async def __call__(self, endpoint: Endpoint, target: str) -> Answer | NoAnswer:
        """Send one read, signed with the real key. Raises NotRelayed unless it is market data."""
        signed = self._signer.sign_read(relayed(endpoint), target)
        bounds = Bounds(LOOK_S_MAX, SIZES[endpoint.name].bytes_max)
        link = self._links[endpoint.lane]
        return await link.exchange(HttpRequest("GET", target, signed.headers), bounds)

    async def close(self) -> None:
        """Wait for the reads under way and close the connections."""
        for link in set(self._links.values()):
            await link.close()


class PaperEnvironment(SystemEnvironment):
    """See the module. `real` is the broker that provides the market."""

    def __init__(self, spec: EnvironmentSpec, real: Access) -> None:
        super().__init__(real)
        self._spec = spec
        self.has_machines_time = False  # our orders are matched here
        self._watch: Watch | None = None
        self._tasks = Tasks(spec.activity, self.turn, spec.on_bug)

    async def open(self, stack: AsyncExitStack) -> Access:
        """Begin or continue the paper account, and answer for it in this process.

        Raises BrokerError if the real broker does not answer, OperatorMistake for an account with
        other terms, an unknown symbol, or a clock behind the account's own.
        """
        broker = self._spec.loaded.settings.broker
        # Only an address on this machine can be a sandbox, which is asked for its clock.
        if self._access.app is None and urlsplit(self._access.base_url).hostname in _LOOPBACK:
            found = await read_market_clock(self._access.base_url, self.wire)
            if found is not None:
                self.market, self._speed = found
                self.quota_speed = self._speed
        try:
            relay = MarketRelay(self._access, broker.device_id, self.wire)
        except ForbiddenAddress as error:
            raise OperatorMistake.of("E-CFG-043", f"broker.base_url: {error.reason}") from error
        stack.push_async_callback(relay.close)
        sandbox = self._sandbox(await self._beginning(relay))
        stack.callback(sandbox.close)
        self._watch = Watch(
            sandbox,
            relay,
            Clocks(self.market, self.wire),
            rulebook=self._spec.rulebook,
            quota=broker.requests_per_minute,
        )
        given = sandbox.credentials
        self.mailed_code = Secret(given.otp_code)
        shell = MirrorShell(sandbox, self._watch, self.wire)
        return Access(IN_PROCESS, Secret(given.api_key), Secret(given.api_secret), shell)

    async def _beginning(self, relay: MarketRelay) -> Beginning:
        loaded = self._spec.loaded
        terms = terms_of(loaded.settings)
        begun = read_beginning(loaded.state_dir, terms)
        begun = begun or Beginning(self.market.now(), terms, {})
        wanted = dict.fromkeys((*sorted(self._spec.symbols), *terms.holdings))
        asked = {each: await _quote(relay, each) for each in wanted if each not in begun.symbols}
        new = [quote for quote in asked.values() if quote is not None]
        if len(new) < len(asked):
            raise UnknownSymbols([symbol for symbol, quote in asked.items() if quote is None])
        today = self.market.now().astimezone(EXCHANGE_TZ).date()
        begun = begun.with_symbols(new, load_symbols(), today)
        if new:
            keep_beginning(loaded.state_dir, begun)
        return begun

    def _sandbox(self, beginning: Beginning) -> Sandbox:
        ledger = self._spec.loaded.state_dir / LEDGER
        try:
            last = resumed_at(ledger)
            if last is not None and last > self.market.now() + BACKWARDS_MAX:
                raise LedgerBroken(f"it has been at {day_and_clock_of(last)}, the clock is behind")
            return Sandbox(
                beginning.scenario(),
                self._spec.rulebook,
                clock=self.market,
                wire=self.wire,
                ledger=ledger,
            )
        except LedgerBroken as error:
            text = f"{ledger}: {error}"
            raise OperatorMistake.of("E-SBX-001", text, ExitCode.DATABASE) from error

    def drive(self, jobs: Sequence[Job], on_due: Fire, report: Report) -> Driver:
        """Drive the daemon's jobs, and the watch among them."""
        return super().drive([*jobs, self._watch_job()], on_due, report)

    def _watch_job(self) -> Job:
        def look(_: datetime) -> None:
            if self._watch is not None and not self._tasks.running:
                self._tasks.spawn(_tick(self._watch), "paper watch")

        return Job("paper watch", every(TICK, start=self.market.now() + TICK), look)


async def _tick(watch: Watch) -> None:
    """Let the watch update itself; a full disk is tried again at the next tick.

    Until then the paper account answers nothing, which is reported as a broker that does not, and
    what the disk lacks by `DiskWatch`.
    """
    with suppress(OSError):
        await watch.tick()


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
