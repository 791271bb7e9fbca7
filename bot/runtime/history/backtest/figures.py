"""The figures of a backtest, from its result, with what doing nothing would have earned on the same
days. Unknown figures are None, never 0.

Ratios are floats (0.05 is 5 %); as statistics they are not rounded. Money is whole VND. The
conventions, stated with every result (`CONVENTIONS`):

- Daily returns go from close to close, the first from the capital. A year has 250 trading days,
  the risk-free rate is zero, and a standard deviation is the sample's (n - 1).
- Sharpe: mean of the daily returns by their standard deviation, times the root of 250. Sortino: the
  same by the root of the mean square of the losing days, over all days. Both need 10 days.
- The return of a year: the whole return to the power of 250 by the days, from 60 days on.
- Drawdown: the deepest fall from the highest close before (the capital counts as one).
- A trade is a round trip of `trades.py`: average cost, fees and tax included; won when above 0.
- Slippage: what fills cost beyond the last price that the decision behind them saw.
- Turnover: half of all that was bought and sold, by the mean equity.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import pairwise
from math import sqrt
from statistics import fmean, stdev
from typing import Final

from bot.domain.entry import Verdict
from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.order import OrderState, Side
from bot.runtime.history.backtest.result import BacktestResult, EquityPoint
from bot.runtime.history.backtest.trades import round_trips, whys
from bot.runtime.history.bars import BarSource

DAYS_A_YEAR: Final = 250
RATIO_DAYS_MIN: Final = 10
YEAR_DAYS_MIN: Final = 60
"""With fewer days a ratio, or a yearly return, is meaningless."""
WORST_DAYS: Final = 5
LAPSED: Final = frozenset({OrderState.CANCELLED, OrderState.EXPIRED})
UNSETTLED: Final = ("NOT_SETTLED", "SELLABLE")
"""Codes of exits that came before their shares had settled at T+2."""
CONVENTIONS: Final = (
    "Sharpe and Sortino from daily returns, 250 days a year, no risk-free rate, sample deviation",
    "a trade is a sale against the average cost, fees and tax included",
    "slippage is against the last price seen at the decision",
)
INDEX: Final = "VNINDEX"
"""Its file may be among the bars, in points with two decimals."""


@dataclass(frozen=True, slots=True)
class Day:
    """What a day did to the account: in VND, and relative to the equity of the previous close."""

    day: date
    change: int
    gain: float


@dataclass(frozen=True, slots=True)
class Drawdown:
    """The deepest fall of the equity: from `peak` to `trough`, back at the old level `recovered`.

    `depth` is below 0; `days` are trading days from the peak to the recovery, or to the end.
    """

    depth: float
    peak: date
    trough: date
    recovered: date | None
    days: int


@dataclass(frozen=True, slots=True)
class Costs:
    """What trading cost, in VND. `unpriced`: fills whose decision saw no price."""

    fee: int
    tax: int
    slippage: int
    unpriced: int

    @property
    def total(self) -> int:
        return self.fee + self.tax + self.slippage


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one result. None: not enough data. Ratios are floats, 0.05 is 5 %."""

    days: int
    capital: int
    equity: int
    profit: int
    total_return: float | None
    year_return: float | None
    buy_and_hold: float | None
    index_return: float | None
    drawdown: Drawdown | None
    sharpe: float | None
    sortino: float | None
    trades: int
    trades_won: int
    hit_rate: float | None
    mean_win: float | None
    mean_loss: float | None
    open_positions: int
    unmatched_shares: int
    days_invested: float | None
    money_invested: float | None
    turnover: float | None
    costs: Costs
    worst_days: tuple[Day, ...]
    orders: int
    orders_filled: int
    orders_cancelled: int
    unsettled_exits: int
    refused: Mapping[str, int]
    rejected: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Benchmarks:
    """What doing nothing would have earned; None: unknown."""

    buy_and_hold: float | None
    index_return: float | None


def figures_of(result: BacktestResult, benchmarks: Benchmarks) -> Figures:
    """Return the figures of a result, with what doing nothing would have earned."""
    equity, days = result.equity, daily(result.equity, result.capital)
    gains = [day.gain for day in days]
    trips = round_trips(result.fills, result.decisions)
    wins = [trip.result for trip in trips.closed if trip.result > 0]
    losses = [trip.result for trip in trips.closed if trip.result <= 0]
    end = equity[-1].equity if equity else result.capital
    total = end / result.capital - 1 if result.capital > 0 else None
    traded = sum(fill.amount for fill in result.fills)
    mean_equity = fmean(point.equity for point in equity) if equity else 0
    invested = [point.shares / point.equity for point in equity if point.equity > 0]
    rows = {order.order_id: order for order in result.orders}
    return Figures(
        days=len(days),
        capital=result.capital,
        equity=end,
        profit=end - result.capital,
        total_return=total,
        year_return=year_return(total, len(days)),
        buy_and_hold=benchmarks.buy_and_hold,
        index_return=benchmarks.index_return,
        drawdown=deepest_drawdown(equity, result.capital),
        sharpe=sharpe(gains),
        sortino=sortino(gains),
        trades=len(trips.closed),
        trades_won=len(wins),
        hit_rate=len(wins) / len(trips.closed) if trips.closed else None,
        mean_win=fmean(wins) if wins else None,
        mean_loss=fmean(losses) if losses else None,
        open_positions=len(trips.open),
        unmatched_shares=trips.unmatched,
        days_invested=fmean(point.shares > 0 for point in equity) if equity else None,
        money_invested=fmean(invested) if invested else None,
        turnover=traded / 2 / mean_equity if mean_equity > 0 else None,
        costs=_costs(result),
        worst_days=tuple(
            sorted((day for day in days if day.gain < 0), key=lambda day: day.gain)[:WORST_DAYS]
        ),
        orders=len(rows),
        orders_filled=sum(order.state is OrderState.FILLED for order in rows.values()),
        orders_cancelled=sum(order.state in LAPSED for order in rows.values()),
        unsettled_exits=sum(result.counts.get(code, 0) for code in UNSETTLED),
        refused=_counted(d.code for d in result.decisions if d.verdict is Verdict.BLOCKED),
        rejected=_counted(
            order.code or order.reason or "no code"
            for order in rows.values()
            if order.state is OrderState.REJECTED
        ),
    )


def daily(equity: Sequence[EquityPoint], capital: int) -> tuple[Day, ...]:
    """Return each day's result, the first against the capital; ends when all money is gone."""
    found = []
    before = capital
    for point in equity:
        if before <= 0:
            break
        change = point.equity - before
        found.append(Day(local_day(point), change, change / before))
        before = point.equity
    return tuple(found)


def monthly(equity: Sequence[EquityPoint], capital: int) -> Mapping[tuple[int, int], float]:
    """Return each month's return by year and month: from the last close of the month before."""
    closes = {(day.year, day.month): point.equity for point in equity for day in [local_day(point)]}
    pairs = pairwise([capital, *closes.values()])
    return {
        month: after / before - 1
        for month, (before, after) in zip(closes, pairs, strict=True)
        if before > 0
    }


def sharpe(gains: Sequence[float]) -> float | None:
    """Return the yearly Sharpe ratio; None with too few days or without any movement."""
    if len(gains) < RATIO_DAYS_MIN or (deviation := stdev(gains)) == 0:
        return None
    return fmean(gains) / deviation * sqrt(DAYS_A_YEAR)


def sortino(gains: Sequence[float]) -> float | None:
    """Return the yearly Sortino ratio; None with too few days or without a losing day."""
    if len(gains) < RATIO_DAYS_MIN:
        return None
    downside = sqrt(fmean(min(gain, 0.0) ** 2 for gain in gains))
    return fmean(gains) / downside * sqrt(DAYS_A_YEAR) if downside > 0 else None


def year_return(total: float | None, days: int) -> float | None:
    """Return a total return annualised to 250 days; None with too few days."""
    if total is None or total <= -1 or days < YEAR_DAYS_MIN:
        return None
    return float((1 + total) ** (DAYS_A_YEAR / days) - 1)


def drawdowns(equity: Sequence[EquityPoint], capital: int) -> tuple[float, ...]:
    """Return at each close how far the equity was below its highest close; at most 0."""
    found, peak = [], capital
    for point in equity:
        peak = max(peak, point.equity)
        found.append(point.equity / peak - 1 if peak > 0 else 0.0)
    return tuple(found)


def deepest_drawdown(equity: Sequence[EquityPoint], capital: int) -> Drawdown | None:
    """Return the deepest fall, the first of equals; None if the equity never fell."""
    falls = drawdowns(equity, capital)
    if not falls or min(falls) == 0:
        return None
    trough = falls.index(min(falls))
    peak = max((at for at in range(trough) if falls[at] == 0), default=-1)
    back = next((at for at in range(trough, len(falls)) if falls[at] == 0), None)
    return Drawdown(
        depth=falls[trough],
        peak=local_day(equity[max(peak, 0)]),  # the capital dates from before the first close
        trough=local_day(equity[trough]),
        recovered=None if back is None else local_day(equity[back]),
        days=(len(falls) - 1 if back is None else back) - peak,
    )


def local_day(point: EquityPoint) -> date:
    return point.at.astimezone(EXCHANGE_TZ).date()


def _costs(result: BacktestResult) -> Costs:
    behind = whys(result.decisions)
    slippage = unpriced = 0
    for fill in result.fills:
        decision, price = behind.get(fill.intent_id or ""), None
        if decision is not None:  # the last price that it saw, else the limit that it set
            last = decision.saw.get("last")
            price = last if isinstance(last, int) else decision.price
        if price is None:
            unpriced += 1
            continue
        beyond = fill.amount - fill.quantity * price
        slippage += beyond if fill.side is Side.BUY else -beyond
    fee, tax = sum(fill.fee for fill in result.fills), sum(fill.tax for fill in result.fills)
    return Costs(fee, tax, slippage, unpriced)


def _counted(codes: Iterable[str]) -> Mapping[str, int]:
    """Return how often each code occurred, the most frequent first."""
    return dict(Counter(codes).most_common())


def benchmarks_of(result: BacktestResult, source: BarSource) -> Benchmarks:
    """Return both returns as far as the data allow; ratios are floats, None if unknown.

    Buy and hold puts the same money into each symbol at its first close. A share's fall on an
    ex-date is paid out, as in a backtest, and reinvested in the symbol.
    """
    if not result.equity:
        return Benchmarks(None, None)
    first, last = local_day(result.equity[0]), local_day(result.equity[-1])
    gains = []
    for symbol, (bought, now) in result.closes.items():
        if bought > 0:
            growth = 1.0
            for day, frame in source.frames(symbol, first, last).items():
                if first < day <= last and frame.ex_ratio:
                    growth /= frame.ex_ratio
            gains.append(now / bought * growth - 1)
    index = None
    if INDEX in source.symbols():
        begun = _closes(source, first, first)
        ended = _closes(source, max(first + timedelta(days=1), last - timedelta(days=10)), last)
        index = ended[-1] / begun[-1] - 1 if begun and ended and begun[-1] > 0 else None
    return Benchmarks(fmean(gains) if gains else None, index)


def _closes(source: BarSource, first: date, last: date) -> list[int]:
    """Return closes of the index between two days, the newest last; empty if it has no bars."""
    if first > last:
        return []
    return [int(chunk.close[-1]) for chunk in source.chunks(INDEX, first, last) if len(chunk)]
