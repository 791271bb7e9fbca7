"""Tests a strategy in three lines: `play(SmaCross, bars="FPT.csv")` on the real engine.

It is a backtest in the most generous fill model, `touch`: an order fills completely in the first
later bar that reaches its price. A strategy that wakes on quotes and depths gets one of each at the
close of a bar.
"""

import csv
import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import Final

from bot.config.rulebook import load_rulebook
from bot.config.strategies.plugin_check import make
from bot.domain.entry import Decision, Entry, Fill, OrderUpdated, Verdict
from bot.domain.instrument import EXCHANGE_TZ, Exchange, Instrument, SymbolTable
from bot.domain.local_time import local_of
from bot.domain.plan import (
    Limits,
    OrderPlan,
    ParameterValue,
    StrategyMode,
    StrategyPlan,
    Wake,
    When,
)
from bot.domain.quote import Bar
from bot.domain.rulebook import Rulebook
from bot.engine.settings import EngineSettings, LoadedStrategy, invoke_plainly
from bot.runtime.history.backtest.result import BacktestSpec, Collected
from bot.runtime.history.backtest.run import play_through, quiet
from bot.runtime.history.store.store import ListedBars
from bot.strategy import Strategy

SECONDS_OF_A_BAR: Final = 60
"""The bar width assumed when a file holds a single bar."""
NO_LIMITS: Final = Limits()
PLAIN_ORDER: Final = OrderPlan()


@dataclass(frozen=True, slots=True)
class Played:
    """What the strategy did, in order of time. `orders` holds the last state of each order."""

    orders: tuple[OrderUpdated, ...]
    fills: tuple[Fill, ...]
    decisions: tuple[Decision, ...]
    entries: tuple[Entry, ...]

    def of(self, verdict: Verdict) -> tuple[Decision, ...]:
        """Return the decisions that have a given verdict."""
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
    """Run a strategy over bars and return its orders, fills and decisions.

    `bars`: a CSV file (`time,open,high,low,close,volume`, local time of the exchange, plain or
    gzipped) named after its symbol, or a list; gaps within their days are filled with flat bars.
    `settled_shares` are the account's: with them the strategy sells on the same day what it bought,
    else at T+2. `wake` None: woken by each bar. Exceptions of hooks and `check` are raised here.
    """
    played = read_bars(bars, symbol) if isinstance(bars, str | Path) else tuple(bars)
    if not played:
        raise ValueError("wanted at least one bar")
    days = sorted(local_of(bar.start).date() for bar in played)
    instrument = Instrument(played[0].symbol, exchange)
    width = timedelta(seconds=played[0].seconds)
    make(factory, instrument.symbol, parameters)
    plan = StrategyPlan(
        name=factory.__name__,
        use=factory.__name__,
        symbols=(instrument.symbol,),
        account="",
        mode=StrategyMode.TRADE,
        parameters=parameters,
        wake=wake or Wake(bar=width),
        when=When(),
        order=order,
        limits=limits,
    )
    spec = BacktestSpec(
        strategies=(LoadedStrategy(plan, factory, (instrument,)),),
        rulebook=rulebook or load_rulebook(),
        settings=EngineSettings(),
        source=ListedBars(played, width=width),
        first=days[0],
        last=days[-1],
        cash=cash,
        unowned={instrument.symbol: settled_shares} if settled_shares else {},
        fill="touch",
    )
    heard = _Everything()
    table = SymbolTable({})
    result = play_through(spec, quiet, invoke=invoke_plainly, table=table, collected=heard)
    return Played(
        orders=result.orders,
        fills=result.fills,
        decisions=tuple(each for each in heard.entries if isinstance(each, Decision)),
        entries=tuple(heard.entries),
    )


class _Everything(Collected):
    """Keeps decisions without a request too, and everything that a journal would hold."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: list[Entry] = []

    def keep(self, entry: Entry) -> None:
        self.entries.append(entry)
        super().keep(entry)


# ------------------------------------------------------------------------------------------- bars


def read_bars(path: str | Path, symbol: str | None = None) -> tuple[Bar, ...]:
    """Read a CSV of bars in any order; their width is the smallest distance. Raises ValueError when
    it is empty, or has two bars of one time.
    """
    file = Path(path)
    opener = gzip.open if file.suffix == ".gz" else open
    with opener(file, "rt", encoding="utf-8-sig", newline="") as lines:
        found = [(_instant(row["time"]), row) for row in csv.DictReader(lines)]
    if not found:
        raise ValueError(f"{file} holds no bar")
    found.sort(key=itemgetter(0))  # many sources list the newest first
    gaps = [(after - before).total_seconds() for (before, _), (after, _) in pairwise(found)]
    if 0 in gaps:
        twice = found[gaps.index(0)][1]["time"]
        raise ValueError(f"{file} holds two bars of {twice}")
    name, seconds = symbol or file.name.split(".")[0], round(min(gaps, default=SECONDS_OF_A_BAR))
    columns = ("open", "high", "low", "close", "volume")
    return tuple(
        Bar(name, start, seconds, *(int(row[each]) for each in columns)) for start, row in found
    )


def _instant(text: str) -> datetime:
    """Return a time of a file, which is local to the exchange unless it names its zone."""
    at = datetime.fromisoformat(text)
    return (at if at.tzinfo else at.replace(tzinfo=EXCHANGE_TZ)).astimezone(UTC)
