"""A strategy in three lines of test: `play(SmaCross, bars="FPT.csv")` on the real engine.

What is played here is the market and the broker, as simply as can be: every bar is continuous
trading, an order fills whole in the first later bar that reaches its price, at its limit or better.
"""

import csv
import gzip
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Final

from bot.config.rulebook import load_rulebook
from bot.config.strategies.plugin_check import make
from bot.domain.account import AccountSnapshot, Holding
from bot.domain.entry import Decision, Entry, Fill, OrderUpdated, Verdict
from bot.domain.instrument import EXCHANGE_TZ, Exchange, Instrument, Phase
from bot.domain.message import (
    AccountRead,
    BarClosed,
    CancelAnswered,
    CancelOrder,
    Command,
    DepthReceived,
    Event,
    OrderRead,
    PhaseChanged,
    PlaceAnswered,
    PlaceOrder,
    QuoteReceived,
    ReadOrder,
    Reconciled,
    Record,
    Recovered,
    SendStarted,
    TodaysOrdersRead,
    TradingDayStarted,
)
from bot.domain.order import Intent, OrderReport, OrderResult, OrderState, Side
from bot.domain.outcome import Accepted
from bot.domain.plan import (
    Limits,
    OrderPlan,
    ParameterValue,
    StrategyMode,
    StrategyPlan,
    Wake,
    When,
)
from bot.domain.quote import Bar, Depth, DepthLevel, Quote
from bot.domain.recovery import Recovery
from bot.domain.rulebook import Rulebook
from bot.engine.engine import Engine, EngineSettings, LoadedStrategy, invoke_plainly
from bot.strategy import Strategy

ACCOUNT: Final = "TEST.1"
PLENTY: Final = 1_000_000
"""Shares that wait on either side of the played depth."""
SECONDS_OF_A_BAR: Final = 60
"""Taken when a file holds a single bar."""
NO_LIMITS: Final = Limits()
PLAIN_ORDER: Final = OrderPlan()


@dataclass(frozen=True, slots=True)
class Played:
    """What the strategy did, in order of time. `orders` holds the last state of each."""

    orders: tuple[OrderUpdated, ...]
    fills: tuple[Fill, ...]
    decisions: tuple[Decision, ...]
    entries: tuple[Entry, ...]

    def of(self, verdict: Verdict) -> tuple[Decision, ...]:
        """Return the decisions with one verdict."""
        return tuple(one for one in self.decisions if one.verdict is verdict)


def play(
    factory: type[Strategy],
    bars: str | Path | Sequence[Bar],
    *,
    symbol: str | None = None,
    exchange: Exchange = Exchange.HOSE,
    cash: int = 1_000_000_000,
    settled_shares: int = 0,
    order: OrderPlan = PLAIN_ORDER,
    limits: Limits = NO_LIMITS,
    wake: Wake | None = None,
    rulebook: Rulebook | None = None,
    **parameters: ParameterValue,
) -> Played:
    """Let a strategy decide over bars and return its orders, fills and decisions.

    `bars`: a CSV file (`time,open,high,low,close,volume`, local time of the exchange, plain or
    gzipped) named after its symbol, or a list. `settled_shares` can be sold at once; what is bought
    settles at T+2. `wake` None: by each bar. What a hook raises or `check` refuses is raised here.
    """
    played = read_bars(bars, symbol) if isinstance(bars, str | Path) else tuple(bars)
    rules = rulebook or load_rulebook()
    instrument = Instrument(played[0].symbol, exchange)
    make(factory, instrument.symbol, parameters)
    plan = StrategyPlan(
        name=factory.__name__,
        use=factory.__name__,
        symbols=(instrument.symbol,),
        account=ACCOUNT,
        mode=StrategyMode.TRADE,
        parameters=parameters,
        wake=wake or Wake(bar=timedelta(seconds=played[0].seconds)),
        when=When(),
        order=order,
        limits=limits,
    )
    engine = Engine(
        rulebook=rules,
        strategies=[LoadedStrategy(plan, factory, (instrument,))],
        settings=EngineSettings(),
        invoke=invoke_plainly,
    )
    stage = _Stage(engine, instrument, rules)
    stage.open(played[0], cash=cash, settled_shares=settled_shares)
    for bar in played:
        stage.show(bar)
    return stage.played()


# ------------------------------------------------------------------------------------------- bars


def read_bars(path: str | Path, symbol: str | None = None) -> tuple[Bar, ...]:
    """Read a CSV of bars, as wide as their smallest distance. Raises ValueError when empty."""
    file = Path(path)
    opener = gzip.open if file.suffix == ".gz" else open
    with opener(file, "rt", encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    if not rows:
        raise ValueError(f"{file} holds no bar")
    starts = [
        datetime.fromisoformat(row["time"]).replace(tzinfo=EXCHANGE_TZ).astimezone(UTC)
        for row in rows
    ]
    gaps = [(after - before).total_seconds() for before, after in pairwise(starts)]
    name, seconds = symbol or file.name.split(".")[0], round(min(gaps, default=SECONDS_OF_A_BAR))
    columns = ("open", "high", "low", "close", "volume")
    return tuple(
        Bar(name, start, seconds, *(int(row[each]) for each in columns))
        for start, row in zip(starts, rows, strict=True)
    )


# ------------------------------------------------------------------------ the market and the broker


@dataclass(slots=True)
class _Stage:
    """Drives the engine over bars, and answers as a broker that accepts every order."""

    engine: Engine
    instrument: Instrument
    rulebook: Rulebook
    entries: list[Entry] = field(default_factory=list)
    orders: dict[str, OrderReport] = field(default_factory=dict)
    """The day order book."""
    count: int = 0
    day: date = date.min
    reference: int = 0
    close: int = 0

    def open(self, first: Bar, *, cash: int, settled_shares: int) -> None:
        """Start a run before the first bar."""
        at, symbol = first.start, self.instrument.symbol
        holding = Holding(symbol, settled_shares, settled_shares, 0, first.open)
        snapshot = AccountSnapshot(at, ACCOUNT, cash, cash, {symbol: holding})
        self.day, self.reference, self.close = _local_day(at), first.open, first.open
        self._handle(Recovered(at, Recovery(self.day)))
        self._handle(PhaseChanged(at, self.instrument.exchange, Phase.PROGRESS))
        self._handle(AccountRead(at, snapshot))
        self._handle(Reconciled(at))

    def show(self, bar: Bar) -> None:
        """Let a bar pass: orders fill in it, then it closes and the strategy sees it."""
        at = bar.start + timedelta(seconds=bar.seconds)
        if _local_day(bar.start) != self.day:
            self.day, self.reference = _local_day(bar.start), self.close
            self.orders.clear()
            self._handle(TradingDayStarted(bar.start, self.day))
            self._handle(Reconciled(bar.start))
        made = {key: _filled(one, bar) for key, one in self.orders.items()}
        if filled := {key: one for key, one in made.items() if one is not None}:
            self.orders.update(filled)
            rows = tuple(replace(report, requested_at=at) for report in self.orders.values())
            self._handle(TodaysOrdersRead(at, ACCOUNT, rows, at))
        self.close = bar.close
        band = self.rulebook.band(self.instrument, self.reference)
        ceiling, floor = max(band.ceiling, bar.high), min(band.floor, bar.low)
        frame = (bar.close, self.reference, ceiling, floor, None, None, None)
        quote = Quote(bar.symbol, self.instrument.exchange, *frame, bar.volume, None)
        levels = (DepthLevel(bar.close, PLENTY),)
        self._handle(QuoteReceived(at, quote))
        self._handle(DepthReceived(at, Depth(bar.symbol, levels, levels, None)))
        self._handle(BarClosed(at, bar))

    def _handle(self, event: Event) -> None:
        waiting = deque([event])
        while waiting:
            now = waiting.popleft()
            for command in self.engine.handle(now):
                if isinstance(command, Record):
                    self.entries.append(command.entry)
                else:
                    waiting.extend(self._answers(command, now.at))

    def _answers(self, command: Command, at: datetime) -> list[Event]:
        """Carry a command out; the day order book is answered bar by bar, the account never."""
        match command:
            case PlaceOrder(intent):
                self.count += 1
                placed = report_of(intent, f"ORD{self.count:08d}", at)
                self.orders[placed.order_id] = placed
                accepted = Accepted(result_of(placed))
                started = SendStarted(at, intent.intent_id)
                return [started, PlaceAnswered(at, intent.intent_id, accepted, None)]
            case ReadOrder(order_id):
                return [OrderRead(at, order_id, replace(self.orders[order_id], requested_at=at))]
            case CancelOrder(order_id):
                report = self.orders[order_id]
                self.orders[order_id] = replace(
                    report,
                    state=OrderState.CANCELLED,
                    status="CANCELLED",
                    cancelled_quantity=report.remaining_quantity,
                    remaining_quantity=0,
                    may_cancel=False,
                )
                accepted = Accepted(result_of(self.orders[order_id]))
                return [CancelAnswered(at, order_id, accepted, None)]
            case _:
                return []

    def played(self) -> Played:
        """Return what was recorded."""
        rows = {one.order_id: one for one in self.entries if isinstance(one, OrderUpdated)}
        return Played(
            orders=tuple(rows.values()),
            fills=tuple(one for one in self.entries if isinstance(one, Fill)),
            decisions=tuple(one for one in self.entries if isinstance(one, Decision)),
            entries=tuple(self.entries),
        )


def _local_day(at: datetime) -> date:
    return at.astimezone(EXCHANGE_TZ).date()


def _filled(report: OrderReport, bar: Bar) -> OrderReport | None:
    """Return the order as the bar fills it; None where it is done, or its price is not reached."""
    is_buy, limit = report.side is Side.BUY, report.price
    is_met = limit is None or (bar.low <= limit if is_buy else bar.high >= limit)
    if report.remaining_quantity == 0 or not is_met:
        return None
    prices = (bar.open if limit is None else limit, bar.open)
    price = min(prices) if is_buy else max(prices)
    return replace(
        report,
        executed_quantity=report.quantity,
        average_price=price,
        executed_amount=price * report.quantity,
        remaining_quantity=0,
        state=OrderState.FILLED,
        status="MATCHED_ALL",
        may_cancel=False,
    )


def report_of(intent: Intent, order_id: str, at: datetime) -> OrderReport:
    """Return the row of a day order book that shows an order just accepted."""
    return OrderReport(
        order_id=order_id,
        root_order_id=order_id,
        account=intent.account,
        trading_date=intent.trading_date,
        symbol=intent.symbol,
        side=intent.side,
        quantity=intent.quantity,
        order_type=intent.order_type,
        price=intent.limit_price,
        executed_quantity=0,
        average_price=0,
        executed_amount=0,
        remaining_quantity=intent.quantity,
        cancelled_quantity=0,
        status="SENT",
        state=OrderState.ACCEPTED,
        may_cancel=True,
        may_amend=True,
        placed_at=at,
        message="",
        requested_at=at,
        raw="{}",
    )


def result_of(report: OrderReport) -> OrderResult:
    """Return the one element of a place or cancel answer, as a row shows the order."""
    return OrderResult(
        order_id=report.order_id,
        account=report.account,
        transaction_date=report.trading_date,
        symbol=report.symbol,
        side=report.side,
        quantity=report.quantity,
        limit_price=report.price,
        market_price=None,
        executed_quantity=report.executed_quantity,
        average_price=report.average_price,
        executed_amount=report.executed_amount,
        status=report.status,
        state=report.state or OrderState.ACCEPTED,
        order_type=report.order_type,
        fee=0,
        tax=0,
        code=None,
        reason=None,
        lot=None,
        raw=report.raw,
    )
