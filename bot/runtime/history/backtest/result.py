"""The input of a backtest, what is collected while it runs, and its result.

The report, the optimiser and tests use these.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Final

from bot.config.rulebook import load_symbols
from bot.domain.entry import Decision, Entry, Fill, Note, OrderUpdated
from bot.domain.instrument import SymbolTable
from bot.domain.local_time import local_of
from bot.domain.plan import StrategyPlan
from bot.domain.recovery import RecoveredStrategy
from bot.domain.rulebook import Rulebook
from bot.engine.gate import ON
from bot.engine.settings import EngineSettings, LoadedStrategy
from bot.runtime.history.bars import BarSource, Gap
from bot.runtime.history.recording.recorded_days import RecordedDays
from bot.sandbox.exchange.accounts import Account
from bot.sandbox.markets.mirror.model import FillName

ACCOUNT_ID: Final = "0000000001"
"""Id of the account that a backtest trades with."""
PLAIN: Final = frozenset({"NO_SIGNAL", "SKIP", "WARMING"})
"""Codes of plain "no request" decisions: one per bar and symbol, so they are only counted."""
ALERTS_SHOWN: Final = 10


@dataclass(frozen=True, slots=True)
class BacktestSpec:
    """One backtest: strategies on the days `first` to `last` (local, both included).

    Money is VND. `holdings` are settled shares at the start, owned by the first strategy that
    trades them; no strategy owns those in `unowned`. The same spec gives the same result.
    """

    strategies: tuple[LoadedStrategy, ...]
    rulebook: Rulebook
    settings: EngineSettings
    source: BarSource
    first: date
    last: date
    cash: int = 100_000_000
    holdings: Mapping[str, int] = field(default_factory=dict)
    unowned: Mapping[str, int] = field(default_factory=dict)
    fill: FillName = "queue"
    table: SymbolTable = field(default_factory=load_symbols)
    recorded: RecordedDays | None = None
    """Played instead of bars; `source` is then made of its quotes."""


def owned_at(spec: BacktestSpec, references: Mapping[str, int]) -> Mapping[str, RecoveredStrategy]:
    """Return the owners of the shares held at the start (the first strategy that trades them), at
    these references.
    """
    owned: dict[str, dict[str, tuple[int, int]]] = {}
    for symbol, shares in sorted(spec.holdings.items()):
        plans = (each.plan for each in spec.strategies)
        owner = next(plan.name for plan in plans if symbol in plan.symbols)
        owned.setdefault(owner, {})[symbol] = shares, shares * references[symbol]
    return {name: RecoveredStrategy(held, 0, 0, 0, ON) for name, held in owned.items()}


@dataclass(frozen=True, slots=True)
class EquityPoint:
    """The account at the close of a day: cash including amounts due, and the shares
    at their close.
    """

    at: datetime
    cash: int
    shares: int

    @property
    def equity(self) -> int:
        return self.cash + self.shares


@dataclass(frozen=True, slots=True)
class BacktestResult:
    """The result of a backtest. Entries are those that a journal would hold, in order.

    `decisions`: all except plain "no request" ones, which are only counted; `counts` has every
    decision by code. `assumptions` and `gaps` are sentences to show with any figure. `why_slow` is
    empty in the fast gear. `closes`: first and last close of each symbol, for buy and hold.
    `looks`: how many recorded quotes and depths were played, if not bars.
    """

    plans: tuple[StrategyPlan, ...]
    first: date
    last: date
    bars: int
    bar_seconds: int
    capital: int
    assumptions: tuple[str, ...]
    gaps: tuple[Gap, ...]
    orders: tuple[OrderUpdated, ...]
    fills: tuple[Fill, ...]
    decisions: tuple[Decision, ...]
    counts: Mapping[str, int]
    equity: tuple[EquityPoint, ...]
    closes: Mapping[str, tuple[int, int]]
    why_slow: str
    looks: int = 0


@dataclass(slots=True)
class Collected:
    """What a run has produced so far; `orders` holds the latest state of each, `closes` the first
    and the last close of each symbol.
    """

    orders: dict[str, OrderUpdated] = field(default_factory=dict)
    fills: list[Fill] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    alerts: list[str] = field(default_factory=list)
    equity: list[EquityPoint] = field(default_factory=list)
    closes: dict[str, tuple[int, int]] = field(default_factory=dict)

    def keep(self, entry: Entry) -> None:
        """Collect one journal entry."""
        match entry:
            case Decision():
                self.counts[entry.code] += 1
                if entry.code not in PLAIN:
                    self.decisions.append(entry)
            case OrderUpdated():
                self.orders[entry.order_id or f"{entry.intent_id}"] = entry
            case Fill():
                self.fills.append(entry)
            case Note(kind="ALERT"):
                self.alerts.append(f"alert on {local_of(entry.at):%Y-%m-%d %H:%M}: {entry.text}")
            case _:
                pass

    def end_day(
        self, at: datetime, account: Account, closes: Mapping[str, int], listed: Iterable[str]
    ) -> None:
        """Record the account's worth at the end of a trading day, and the closes of the symbols
        listed on it.
        """
        for symbol in listed:
            self.closes[symbol] = self.closes.get(symbol, (closes[symbol], 0))[0], closes[symbol]
        shares = sum(account.held(symbol) * close for symbol, close in closes.items())
        self.equity.append(EquityPoint(at, account.net_assets(closes) - shares, shares))

    def result(
        self,
        spec: BacktestSpec,
        *,
        capital: int,
        assumptions: Iterable[str],
        gaps: Iterable[Gap] = (),
        bars: int = 0,
        looks: int = 0,
        why_slow: str = "",
    ) -> BacktestResult:
        """Return the result. The gaps of the symbols' bars follow `gaps`, and what the bot would
        have alerted its owner to follows the assumptions, the first ones in full.
        """
        more = len(self.alerts) - ALERTS_SHOWN
        symbols = {symbol for each in spec.strategies for symbol in each.plan.symbols}
        own_gaps = (
            gap
            for symbol in sorted(symbols)
            for gap in spec.source.gaps(symbol, spec.first, spec.last)
        )
        return BacktestResult(
            plans=tuple(each.plan for each in spec.strategies),
            first=spec.first,
            last=spec.last,
            bars=bars,
            bar_seconds=round(spec.source.width.total_seconds()),
            capital=capital,
            assumptions=(
                *assumptions,
                *self.alerts[:ALERTS_SHOWN],
                *([f"and {more:,} more alerts"] if more > 0 else ()),
            ),
            gaps=(*gaps, *own_gaps),
            orders=tuple(self.orders.values()),
            fills=tuple(self.fills),
            decisions=tuple(self.decisions),
            counts=dict(sorted(self.counts.items())),
            equity=tuple(self.equity),
            closes=self.closes,
            why_slow=why_slow,
            looks=looks,
        )
