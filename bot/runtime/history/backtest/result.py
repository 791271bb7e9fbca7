"""What a backtest is asked and what it answers: the report, the optimiser and tests read these."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime

from bot.domain.entry import Decision, Fill, OrderUpdated
from bot.domain.plan import StrategyPlan
from bot.domain.recovery import RecoveredStrategy
from bot.domain.rulebook import Rulebook
from bot.engine.gate import ON
from bot.engine.settings import EngineSettings, LoadedStrategy
from bot.runtime.history.bars import BarSource, Gap
from bot.runtime.history.recording.recorded_days import RecordedDays
from bot.sandbox.markets.mirror.model import FillName


@dataclass(frozen=True, slots=True)
class BacktestSpec:
    """One backtest: strategies on the days `first` to `last` (local, both included).

    Money is VND. `holdings` are settled shares at the start, of the first strategy that has them;
    `unowned` ones no strategy has bought. The same spec gives the same result.
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
    recorded: RecordedDays | None = None
    """What is played instead of bars; `source` is then made of its quotes."""


def owned_at(spec: BacktestSpec, references: Mapping[str, int]) -> Mapping[str, RecoveredStrategy]:
    """Return whose the held shares are at the start, the first strategy's that trades them, at
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
    """The account at the close of a day: cash with what is due, and the shares at their close."""

    at: datetime
    cash: int
    shares: int

    @property
    def equity(self) -> int:
        return self.cash + self.shares


@dataclass(frozen=True, slots=True)
class BacktestResult:
    """What came of it. Entries are those that a journal would hold, in their order.

    `decisions`: all but the plain "no"s; those are only counted, by code, in `counts` (every
    decision is). `assumptions` and `gaps` are sentences to show with any figure. `why_slow` is
    empty in the fast gear. `closes`: first and last close of each symbol, for buy and hold.
    `looks`: how many recorded quotes and depths were played, where these were played and no bars.
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
