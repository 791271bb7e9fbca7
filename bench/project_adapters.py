"""The bot as a peer in a benchmark kit: the only file of the kit that uses the bot's internals.

The kit loads `project_adapters:NAME` with this folder on its path:

    live, live_stale            whole ticks to trades: poll, decide, journal, sign, send, judge
    underload, underload_awake  the same while many polls are in flight
    poll                        the client alone
    journal                     one durable row
    book                        the exchange core of the sandbox
    replay                      an SMA cross over columns of bars, as `bench.backtest` plays it
    EngineAlone, tap, state_folder   for how cost grows, where CPU goes, and starts of commands

Everything runs as `run_bot` assembles it: engine, risk, journal, order manager, client. Only the
market clock is set to a trading morning, no poll job is started, and the quota is lifted.
"""

import asyncio
import importlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, Final

from ruamel.yaml import YAML

import bot as product
from bench.mock import accepted
from bot.broker.broker import open_broker
from bot.broker.budget import RequestBudget, SystemWaiter
from bot.broker.signer import Credentials
from bot.clock import ScaledClock, SystemClock
from bot.config.limits import AccountSection
from bot.config.rulebook import load_rulebook
from bot.config.settings.load import load_settings
from bot.domain.entry import (
    AttemptFinished,
    Decision,
    Entry,
    IntentMoved,
    IntentRecorded,
    Verdict,
)
from bot.domain.instrument import Exchange, Instrument
from bot.domain.message import (
    Command,
    DepthReceived,
    Event,
    OrderRead,
    PlaceAnswered,
    PlaceOrder,
    QuoteReceived,
    SendStarted,
    TimePassed,
)
from bot.domain.operations import Action, OperatorActed
from bot.domain.order import Intent, OrderReport, OrderState, OrderType, SendState, Side
from bot.domain.outcome import Accepted
from bot.domain.quote import Depth
from bot.domain.recovery import Recovery
from bot.engine import belief, invariants
from bot.engine.orders import answers, doubts, unknown
from bot.engine.risk import breaks, lags
from bot.journal.database.connections import SqliteConnection
from bot.journal.errors import Holder
from bot.journal.journal import Journal
from bot.journal.writing.lease import acquire
from bot.protocol.classify import classify_place
from bot.protocol.envelope import Answer
from bot.protocol.secret import Secret
from bot.runtime.daemon import Daemon
from bot.runtime.journal_file import begin_journal, prepare_journal
from bot.runtime.run_controls import RunOptions
from bot.runtime.state_dir import keep_token
from bot.runtime.timetable.schedule import Fire, Job, Report
from bot.runtime.worlds.environment import Access, Driver
from bot.runtime.worlds.system import SystemEnvironment

START: Final = datetime(2026, 11, 19, 2, 20, tzinfo=UTC)
"""09:20 local on a Thursday, HOSE continuous."""
SYMBOLS_A_FILE: Final = 50
UNLIMITED: Final = 10**9
QUEUED_MAX: Final = 2
"""Events that may wait before another poll starts: else the queue of a slower bot grows."""
clock_ns = time.perf_counter_ns
runs: Any = importlib.import_module("bot.runtime.run")
assemble: Any = importlib.import_module("bot.runtime.start.broker")
"""The module whose parts are replaced."""


def symbols_of(count: int) -> list[str]:
    """`FPT`, which the kit uses, and others."""
    return ["FPT", *(f"S{number:04d}" for number in range(1, count))]


SYMBOLS: Final = symbols_of(int(os.environ.get("P_SYMBOLS", "1")))
STRATEGIES: Final = int(os.environ.get("P_STRATEGIES", "1"))


class Screen:
    """Shows only trouble."""

    def entry(self, entry: Entry) -> None:
        """Show nothing."""

    def recovered(self, recovery: Recovery) -> None:
        """Show nothing."""

    def row(self, name: str, text: str) -> None:
        """Show nothing."""

    def trouble(self, text: str) -> None:
        """Show it."""
        print("TROUBLE", text, file=sys.stderr)


@dataclass
class Bot:
    """A running bot whose parts can be reached."""

    folder: Path
    market: ScaledClock
    stamps: dict[str, int] = field(default_factory=dict)
    parts: Any = None
    daemon: Any = None
    task: Any = None
    wait: "asyncio.Future[PlaceAnswered] | None" = None

    @property
    def inbox(self) -> Any:
        """The inbox for its events."""
        return self.parts.inbox

    async def idle(self) -> None:
        """Wait until nothing is under way."""
        while self.inbox.has_more or not self.inbox._activity.is_idle:
            await asyncio.sleep(0.0005)

    def is_crowded(self, inflight: int) -> bool:
        """Return whether too many events wait."""
        return bool(sum(self.inbox.waiting.values()) > QUEUED_MAX * inflight)

    def fresh(self) -> None:
        """Make the day order book count as just read, and no strategy as one that runs away."""
        self.parts.day_order_book._read_s = self.parts.environment.elapsed_s()
        for strategy in self.parts.engine._state.strategies.values():
            strategy.asked_since = None

    def stale(self) -> None:
        """Make it too old for a send."""
        self.parts.day_order_book._read_s = self.parts.environment.elapsed_s() - 6

    async def stop(self) -> None:
        """End the run."""
        self.inbox.ask(OperatorActed(self.market.now(), Action.STOP, "bench over", "bench"))
        with suppress(Exception):
            async with asyncio.timeout(15):
                await self.task


def write_configuration(
    folder: Path,
    base_url: str,
    symbols: Sequence[str],
    strategies: int,
    ratio: float,
    *,
    record: bool = False,
) -> None:
    """Write bot.yaml and the wanted number of strategy files, each with at most 50 symbols."""
    yaml = YAML(typ="safe")
    (folder / "strategies").mkdir(exist_ok=True)
    (folder / "state").mkdir(mode=0o700, exist_ok=True)
    each = max(1, -(-len(symbols) // strategies))
    shares: list[Sequence[str]] = []
    for number in range(strategies):
        mine = symbols[number * each : (number + 1) * each]
        if strategies > len(symbols):
            mine = [symbols[number % len(symbols)]]
        shares += [
            mine[first : first + SYMBOLS_A_FILE] for first in range(0, len(mine), SYMBOLS_A_FILE)
        ]
    for number, share in enumerate(shares):
        plan = {
            "name": f"depth{number}",
            "use": "depth_imbalance",
            "symbols": list(share),
            "params": {"ratio": ratio, "levels": 3},
            "wake": {"depth": "1s"},
            "when": {"sessions": ["continuous"]},
            "order": {"size": {"shares": 100}, "type": "LIMIT", "price": "ask", "expire": "3h"},
            "limits": {
                "max_orders_per_day": 10_000,
                "max_order_value": 10**11,
                "max_position": 10**7,
            },
            "on_2fa": "hold 15m",
        }
        yaml.dump(plan, folder / "strategies" / f"depth{number}.yaml")
    facts: dict[str, Any] = {
        "mode": "sandbox",
        "state_dir": "state",
        "record": record,
        "broker": {"requests_per_minute": 6000, "base_url": base_url},
        "risk": {
            "duplicate_window_s": 0,
            "max_quote_age_s": 3600,
            "max_source_age_s": {"quote": 3600, "depth": 3600},
            "signal_ttl_s": 60,
            "account": dict.fromkeys(AccountSection.model_fields),
            "limits": {"max_orders_per_day": None, "max_loss_per_day": None, "capital": None},
        },
    }
    if (url := os.environ.get("P_JOURNAL")) is not None:
        facts["journal"] = {"url": url}
    yaml.dump(facts, folder / "bot.yaml")


async def start(
    base_url: str,
    *,
    symbols: Sequence[str] | None = None,
    strategies: int = 1,
    ratio: float = 2.0,
    folder: Path | None = None,
    record: bool = False,
) -> Bot:
    """Start a bot on the server and wait until it is up and idle."""
    folder = folder or Path(tempfile.mkdtemp(prefix="vnb", dir=os.environ.get("P_DIR")))
    write_configuration(folder, base_url, symbols or ["FPT"], strategies, ratio, record=record)
    os.environ["BOT_BROKER__API_KEY"] = "k" * 32
    os.environ["BOT_BROKER__API_SECRET"] = "a" * 64
    keep_token(folder / "state", Secret("t" * 400), datetime.now(UTC) + timedelta(hours=12))
    wire = SystemClock()
    market = ScaledClock(wire, start=START, speed=1.0)
    bot = Bot(folder, market)

    class Morning(SystemEnvironment):
        def __init__(self, _spec: object) -> None:
            super().__init__(Access(base_url, Secret("k" * 32), Secret("a" * 64)))
            self.market = market

        def drive(self, _jobs: Sequence[Job], on_due: Fire, report: Report) -> Driver:
            return super().drive([], on_due, report)

    class Reached(Daemon):
        def __init__(self, parts: Any, recovery: Any, supervisor: Any) -> None:
            for strategy in parts.engine._state.strategies.values():
                # Short intervals, so that every depth wakes its strategy.
                wake = replace(strategy.plan.wake, depth=timedelta(microseconds=1))
                strategy.plan = replace(strategy.plan, wake=wake)
            super().__init__(parts, recovery, supervisor)
            bot.parts, bot.daemon = parts, self

    connect = assemble.connect_broker

    def lifted(*arguments: Any) -> Any:
        broker = connect(*arguments)
        broker.budget.per_minute = UNLIMITED
        senders = (broker.client._sender, broker.writer._sender)
        for link in {id(each): each for one in senders for each in one._links.values()}.values():
            stamp_exchanges(link, bot)
        return broker

    own, runs.Daemon, assemble.connect_broker = runs.Daemon, Reached, lifted
    loaded = load_settings(folder / "bot.yaml")
    bot.task = asyncio.create_task(runs.run_bot(loaded, RunOptions(), Screen(), make=Morning))
    while bot.daemon is None or not bot.daemon._supervisor.is_up.is_set():
        if bot.task.done():
            bot.task.result()
        await asyncio.sleep(0.01)
    runs.Daemon, assemble.connect_broker = own, connect
    await bot.idle()
    await believe(bot)
    return bot


async def believe(bot: Bot) -> None:
    """Confirm as an operator that the prices are right: a mock has no history to confirm them."""
    for symbol in sorted(bot.parts.engine._state.beliefs):
        now = bot.market.now()
        bot.inbox.ask(OperatorActed(now, Action.RESUME, "a mock", "bench", symbol=symbol))
        await bot.idle()
        await bot.parts.reads.quote(symbol)
    await bot.idle()


def stamp_exchanges(link: Any, bot: Bot) -> None:
    """Record when a request goes to a carrier and when its answer is there."""
    exchange = link.exchange

    async def stamped(request: Any, bounds: Any) -> Any:
        kind = "post" if request.method == "POST" else "get"
        bot.stamps[f"to_{kind}"] = clock_ns()
        answer = await exchange(request, bounds)
        bot.stamps[f"got_{kind}"] = clock_ns()
        return answer

    link.exchange = stamped


def watch(bot: Bot) -> None:
    """Complete `bot.wait` with the next answer of a place, stamped when it has been judged."""
    post = bot.inbox.post

    def seen(event: Event) -> None:
        if type(event) is PlaceAnswered:
            bot.stamps["done"] = clock_ns()
            if bot.wait is not None and not bot.wait.done():
                bot.wait.set_result(event)
        post(event)

    bot.inbox.post = seen
    bot.parts.reads.post = bot.parts.day_order_book.post = bot.parts.orders._post = seen


def cancelled_report(answered: PlaceAnswered, now: datetime) -> OrderReport:
    """Return the row of an order as cancelled, so that the next one is not a duplicate."""
    assert isinstance(answered.outcome, Accepted), answered.outcome
    result = answered.outcome.result
    return OrderReport(
        order_id=result.order_id,
        root_order_id=result.order_id,
        account=result.account,
        trading_date=result.transaction_date,
        symbol=result.symbol,
        side=result.side,
        quantity=result.quantity,
        order_type="LO",
        price=result.limit_price,
        executed_quantity=0,
        average_price=0,
        executed_amount=0,
        remaining_quantity=0,
        cancelled_quantity=result.quantity,
        status="CANCELLED",
        state=OrderState.CANCELLED,
        may_cancel=False,
        may_amend=False,
        placed_at=now,
        message="",
        requested_at=now,
        raw=json.dumps({"orderid": result.order_id}),
    )


def settle(bot: Bot, answered: PlaceAnswered) -> None:
    """Have the order reported as cancelled at the broker."""
    now = bot.market.now()
    report = cancelled_report(answered, now)
    bot.inbox.post(OrderRead(now, report.order_id, report))


Record = Callable[[int, int, int, int], object]


async def tick_to_trade(bot: Bot) -> int:
    """Do one cycle; return its nanoseconds, from the depth's bytes to the answer judged.

    The order is reported as cancelled afterwards, so that the next one is not a duplicate.
    """
    bot.fresh()
    bot.wait = asyncio.get_running_loop().create_future()
    await bot.parts.reads.depth("FPT")
    depth_at = bot.stamps["got_get"]
    async with asyncio.timeout(5):
        answered = await bot.wait
    await bot.idle()
    settle(bot, answered)
    await bot.idle()
    return bot.stamps["done"] - depth_at


async def live(
    base_url: str,
    cycles: int,
    record: Record,
    *,
    is_stale: bool = False,
    on_cycle: Callable[[int], object] | None = None,
) -> str:
    """Loop: depth requested → its bytes → the order's bytes → the answer judged."""
    bot = await start(base_url, symbols=SYMBOLS, strategies=STRATEGIES)
    watch(bot)
    loop, whole = asyncio.get_running_loop(), []
    for _ in range(cycles):
        (bot.stale if is_stale else bot.fresh)()
        bot.wait = loop.create_future()
        cpu, begun = time.process_time_ns(), clock_ns()
        await bot.parts.reads.depth("FPT")
        depth_at = bot.stamps["got_get"]
        async with asyncio.timeout(5):
            answered = await bot.wait
        record(begun, depth_at, bot.stamps["to_post"], bot.stamps["done"])
        await bot.idle()
        whole.append(clock_ns() - depth_at)
        if on_cycle is not None:
            on_cycle(time.process_time_ns() - cpu)
        settle(bot, answered)
        await bot.idle()
    whole.sort()
    print("journalled to the end p50 us", whole[len(whole) // 2] / 1e3, file=sys.stderr)
    await bot.stop()
    return product.__version__


async def live_stale(base_url: str, cycles: int, record: Record) -> str:
    """The same with a day order book that is too old for a send each time."""
    return await live(base_url, cycles, record, is_stale=True)


Order = Callable[[bytes], Any]


async def underload(
    base_url: str, inflight: int, *, is_awake: bool = False
) -> tuple[Order, Callable[[], int]]:
    """Poll other symbols through the bot's own reads; awake: a strategy is woken by each depth."""
    others = symbols_of(65)
    bot = await start(base_url, symbols=others if is_awake else ["FPT"])
    watch(bot)
    for strategy in bot.parts.engine._state.strategies.values():
        for symbol, instance in strategy.instances.items():
            if symbol != "FPT":
                instance.strategy.ratio = 10**6  # it reads the depth but requests nothing
    loop, polled = asyncio.get_running_loop(), 0

    async def poll_on(first: int) -> None:
        nonlocal polled
        number = first
        while True:
            await bot.parts.reads.depth(others[1 + number % 64])
            number, polled = number + inflight, polled + 1
            while bot.is_crowded(inflight):
                await asyncio.sleep(0.001)

    depth: Depth = await bot.parts.broker.client.depth("FPT")
    pollers = [asyncio.create_task(poll_on(first)) for first in range(inflight)]
    LOADED.append((bot, pollers))

    async def order(_raw: bytes) -> None:
        bot.fresh()
        bot.wait = loop.create_future()
        bot.inbox.post(DepthReceived(bot.market.now(), depth))
        settle_later = await bot.wait
        loop.call_soon(settle, bot, settle_later)

    return order, lambda: polled


LOADED: Final[list[tuple[Bot, list[asyncio.Task[None]]]]] = []
"""Bots under load: the kit ends its process without stopping them."""


async def end_all() -> None:
    """End the bots under load."""
    for bot, pollers in LOADED:
        for each in pollers:
            each.cancel()
        await asyncio.gather(*pollers, return_exceptions=True)
        await bot.stop()
    LOADED.clear()


async def underload_awake(base_url: str, inflight: int) -> tuple[Order, Callable[[], int]]:
    """Poll so that each depth wakes a strategy."""
    return await underload(base_url, inflight, is_awake=True)


async def poll(base_url: str, _inflight: int) -> Callable[[str], Any]:
    """Return the client's own depth call: budget, signature, carrier, strict decoding."""
    wire = SystemClock()
    waiter = SystemWaiter(wire)
    broker = open_broker(
        base_url,
        Credentials(Secret("k" * 32), Secret("a" * 64), "bench"),
        wire=wire,
        waiter=waiter,
        budget=RequestBudget(per_minute=UNLIMITED, waiter=waiter, jitter=Random(1)),
    )
    return broker.client.depth


async def journal(folder: str, url: str = "") -> Callable[..., Any]:
    """Append one decision per call, the smallest record that the bot writes."""
    url = url or os.environ.get("P_JOURNAL") or f"sqlite:///{folder}/journal.db"
    prepare_journal(url, begin_journal(url))
    lease = acquire(url, Holder(os.getpid(), "bench", SystemClock().now()))
    writer = Journal.open(url, epoch=lease.epoch)

    async def append(
        ts: int, cid: str, kind: str, symbol: str, _side: str, qty: int, price: int, payload: str
    ) -> None:
        at = START + timedelta(milliseconds=ts % 10_000_000)
        numbers = {"qty": qty, "price": price}
        await writer.write([Decision(at, cid, symbol, Verdict.BLOCKED, kind, payload, numbers)])

    async def end() -> None:
        await writer.close()
        lease.release()

    append.end = end  # type: ignore[attr-defined]
    return append


def replay(columns: Sequence[Sequence[Sequence[int]]], kind: str) -> Callable[[], int]:
    """Return a backtest of the kit's SMA cross; it returns its number of orders."""
    from bench.backtest import prepared  # NumPy and TA-Lib: needed only here

    if kind != "market":
        raise ValueError(f"a backtest of {kind} orders is not here: take market")
    cross = int(os.environ.get("FAST", "20")), int(os.environ.get("SLOW", "50"))
    return prepared([tuple(each) for each in columns], cross)


def book() -> tuple[Callable[[int, bool, int, int], int], Callable[[int], None]]:
    """Return functions to submit (→ shares traded at once) and to cancel an order."""
    from bot.sandbox.exchange.message import CROWD, Listing, NewOrder  # a bot does not import them
    from bot.sandbox.exchange.venue import Venue

    at = datetime(2026, 11, 19, 2, 30, tzinfo=UTC)
    venue = Venue(load_rulebook(), [Listing(Instrument("HPG", Exchange.HOSE), 25_000)], start=at)

    def submit(number: int, is_buy: bool, price: int, quantity: int) -> int:  # noqa: FBT001
        before = venue.board("HPG").volume
        side = Side.BUY if is_buy else Side.SELL
        order = NewOrder(f"o{number}", CROWD, "HPG", side, quantity, OrderType.LO, price)
        venue.submit(order, at)
        return venue.board("HPG").volume - before

    def cancel(number: int) -> None:
        venue.cancel(f"o{number}", at)

    return submit, cancel


# ------------------------------------------------------------------------------ the engine alone


class EngineAlone:
    """A bot's engine driven by hand: no wire, and a journal for `attempt` only. Steps return CPU
    microseconds.
    """

    def __init__(self, bot: Bot, start_cpu_s: float) -> None:
        self.bot = bot
        self.start_cpu_s = start_cpu_s
        self.engine = bot.parts.engine
        self.now = bot.market.now()
        self.sent = 0
        self.depth: Any = None
        self.quote: Any = None

    @classmethod
    async def make(
        cls, base_url: str, symbols: Sequence[str], strategies: int = 1, ratio: float = 2.0
    ) -> "EngineAlone":
        """Start a bot and take its engine."""
        cpu = time.process_time()
        bot = await start(base_url, symbols=symbols, strategies=strategies, ratio=ratio)
        alone = cls(bot, time.process_time() - cpu)
        alone.depth = await bot.parts.broker.client.depth("FPT")
        alone.quote = await bot.parts.broker.client.quote("FPT")
        return alone

    def timed(self, event: Event) -> tuple[float, list[Command]]:
        """Handle one event."""
        begun = time.thread_time_ns()
        commands = self.engine.handle(event)
        self.engine.next_due()
        return (time.thread_time_ns() - begun) / 1e3, commands

    def look(self, symbol: str) -> tuple[float, Intent | None]:
        """Show a depth, which wakes its strategy, which may order."""
        self.now += timedelta(milliseconds=5)
        took, commands = self.timed(DepthReceived(self.now, replace(self.depth, symbol=symbol)))
        return took, next((each.intent for each in commands if isinstance(each, PlaceOrder)), None)

    def new_quote(self, symbol: str) -> float:
        """Show a quote."""
        return self.timed(QuoteReceived(self.now, replace(self.quote, symbol=symbol)))[0]

    def passes(self) -> float:
        """Let time pass."""
        return self.timed(TimePassed(self.now))[0]

    def sent_and_answered(self, intent: Intent) -> tuple[float, float, PlaceAnswered]:
        """Send the order and accept it."""
        self.sent += 1
        begun, _ = self.timed(SendStarted(self.now, intent.intent_id))
        order = {
            "symbol": intent.symbol,
            "side": intent.side,
            "quantity": intent.quantity,
            "limit_price": intent.limit_price,
        }
        body = accepted(json.dumps(order).encode(), self.sent)
        outcome = classify_place(
            intent,
            Answer(200, {}, body, 1),
            today=intent.trading_date,
            known_ids=frozenset(),
            account=self.bot.parts.account,
        )
        assert isinstance(outcome, Accepted), outcome
        self.bot.parts.day_order_book.note_answered(outcome.result.order_id)
        attempt = f"a{self.sent}"
        finished = AttemptFinished(
            self.now, attempt, intent.intent_id, "ACCEPTED", 200, None, "", "{}", 1
        )
        event = PlaceAnswered(self.now, intent.intent_id, outcome, finished)
        return begun, self.timed(event)[0], event

    async def attempt(self, intent: Intent) -> float:
        """Sign the order and commit its attempt as its order manager does; none of it is sent."""
        orders, write = self.bot.parts.orders, self.bot.parts.commits.write
        await write([IntentRecorded(self.now, intent, SendState.READY)])
        begun = time.process_time_ns()
        attempt = orders._attempt(intent)
        commit = await orders._commit(attempt.send, attempt.known)
        took = (time.process_time_ns() - begun) / 1e3
        assert commit.is_stored, commit.reason
        end = SendState.SENDING, SendState.NOT_SENT, "a benchmark"
        await write([IntentMoved(self.now, intent.intent_id, *end)])
        return took

    def cancelled(self, answered: PlaceAnswered) -> float:
        """Report the order as cancelled."""
        report = cancelled_report(answered, self.now)
        return self.timed(OrderRead(self.now, report.order_id, report))[0]

    def open_orders(self) -> int:
        """How many orders have not ended."""
        return sum(1 for _ in self.engine._state.open_orders())


# ---------------------------------------------------------------------- stop-watches on an order


Swapped = tuple[object, str, Callable[..., object]]


def _nothing(*_: object) -> None:
    """Stand in for a check that finds nothing."""


INVARIANTS: Final[Sequence[Swapped]] = (
    *((invariants, name, _nothing) for name in ("of_answer", "of_approved", "of_all")),
    (invariants, "of_decided", lambda _, commands: commands),
)
SAFETY: Final[Sequence[Swapped]] = (
    *INVARIANTS,
    *((belief, name, lambda *_: True) for name in ("takes_quote", "takes_depth")),
    *((belief, name, _nothing) for name in ("objection", "doubt")),
    (unknown, "advance", _nothing),
    *((answers, name, _nothing) for name in ("note_accepted", "note_answer", "note_redirect")),
    (doubts, "reason_not_to_buy", _nothing),
    (breaks, "judge", _nothing),
    (lags, "follow", _nothing),
)
"""All that watches over orders and could be left out of the way to one: invariants, the belief in
data, the watch over unknown sends and ill answers, what rows and account leave in doubt.
"""


@contextmanager
def without(swapped: Sequence[Swapped]) -> Iterator[None]:
    """Leave out what watches over orders, as only a benchmark can."""
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in swapped]
    for owner, name, instead in swapped:
        setattr(owner, name, instead)
    try:
        yield
    finally:
        for owner, name, own in before:
            setattr(owner, name, own)


Kind = Callable[..., str] | None
TAPS: Final[dict[str, tuple[str, str, str, Kind]]] = {
    "engine": (
        "bot.engine.engine", "Engine", "handle", lambda _, event, *__: type(event).__name__
    ),
    "decode": (
        "bot.broker.client", "BrokerClient", "_decoded", lambda _, endpoint, *__: endpoint.name
    ),
    "sign and encode": ("bot.broker.writes", "OrderWriter", "prepare_place", None),
    "build the request": ("bot.broker.carrier", "Carrier", "_wire", None),
    "classify the answer": ("bot.runtime.order_manager", "", "classify_place", None),
    "wake_at": ("bot.runtime.worlds.system", "ClockDriver", "wake_at", None),
    "journal": ("bot.journal.writing.storing", "Store", "store", lambda _, writes: written(writes)),
}  # fmt: skip
"""What is timed: module, class, function, and what distinguishes two calls."""


def tap(add: Callable[[str, str, int, int | None], object]) -> list[str]:
    """Put a stop-watch (CPU of the thread) on each of TAPS; SQL statements are counted too.

    Returns the missing ones, so that a renamed function costs one figure and not all.
    """
    seen, gone = [0], []
    for name in ("begin", "_ask", "_run"):
        count_statements(name, seen)
    for what, (module, owner, name, kind) in TAPS.items():
        try:
            place = importlib.import_module(module)
            place = getattr(place, owner) if owner else place
            watched = _watched(what, getattr(place, name), kind, seen, add)
        except (ImportError, AttributeError) as error:
            gone.append(f"{what}: {error}")
            continue
        setattr(place, name, watched)
    return gone


def count_statements(name: str, seen: list[int]) -> None:
    """Count the queries and changes on the journal's connection."""
    function = getattr(SqliteConnection, name)

    def counted(self: SqliteConnection, *arguments: Any) -> Any:
        seen[0] += len(arguments[0]) if name == "_run" else 1
        return function(self, *arguments)

    setattr(SqliteConnection, name, counted)


def written(writes: Sequence[Any]) -> str:
    """Describe the entries of a transaction in one word."""
    found = [entry for write in writes for entry in write.entries]
    found += [entry for write in writes for send in write.sends for entry in send.entries]
    return "+".join(type(entry).__name__ for entry in found)


def _watched(
    what: str, function: Any, kind: Kind, seen: list[int], add: Callable[..., object]
) -> Callable[..., Any]:
    def watched(*arguments: Any, **named: Any) -> Any:
        begun, statements = time.thread_time_ns(), seen[0]
        try:
            return function(*arguments, **named)
        finally:
            took = time.thread_time_ns() - begun
            number = seen[0] - statements if what == "journal" else None
            add(what, kind(*arguments) if kind else "", took, number)

    return watched


PATH: Final = (
    ("decode", "stock_depth"),
    ("engine", "DepthReceived"),
    ("engine", "SendStarted"),
    ("sign and encode", ""),
    ("build the request", ""),
)
"""The steps between a depth's bytes and an order's."""


async def stop(bot: Bot) -> None:
    """End the run."""
    await bot.stop()


async def state_folder(base_url: str, folder: Path) -> Path:
    """Return a configuration with an empty journal, created by a bot that has run once."""
    bot = await start(base_url, folder=folder)
    await bot.stop()
    return folder / "bot.yaml"
