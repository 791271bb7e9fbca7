"""What the charts of a backtest's page draw: candles with their marks, the account by day."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from bot.domain.entry import Verdict
from bot.domain.order import OrderState, Side
from bot.domain.quote import width_name
from bot.domain.visible import visible_json
from bot.runtime.history.backtest.candles import CANDLES_MAX, LOCAL_S, Candles, candles_of
from bot.runtime.history.backtest.figures import drawdowns
from bot.runtime.history.backtest.result import BacktestResult
from bot.runtime.history.backtest.trades import RoundTrip, round_trips
from bot.runtime.history.bars import BarSource

MARKERS_MAX: Final = 1_000
SYMBOLS_MAX: Final = 60
NEAR_TRADES: Final = 40
"""The last trades, of which the bars around purchase and sale are shown as they are."""
ALL_CANDLES_MAX: Final = 20_000
"""On the whole page: with the library and the trades it stays under 2 MB."""

Fields = Mapping[str, object]
Marker = tuple[int, str, int]
"""Local second of its candle, kind (B, S, R), how many orders."""


def chart_data(result: BacktestResult, source: BarSource, symbols: Sequence[str]) -> str:
    """Return what the charts draw, as JSON that can stand in a script element."""
    shown = symbols[:SYMBOLS_MAX]
    limit = min(CANDLES_MAX, ALL_CANDLES_MAX // max(1, len(shown)))
    closed = round_trips(result.fills, result.decisions).closed
    trades = [*enumerate(closed, 1)][-NEAR_TRADES:]
    falls = drawdowns(result.equity, result.capital)
    data = {
        "equity": [
            (second_of(point.at), point.equity, round(fall * 100, 3))
            for point, fall in zip(result.equity, falls, strict=True)
        ],
        "symbols": {symbol: _symbol(result, source, symbol, limit, trades) for symbol in shown},
    }
    text = visible_json(json.dumps(data, ensure_ascii=False, separators=(",", ":")))
    return text.replace("<", "\\u003c")


def _symbol(
    result: BacktestResult,
    source: BarSource,
    symbol: str,
    limit: int,
    trades: Sequence[tuple[int, RoundTrip]],
) -> Fields:
    """Return what the chart of a symbol draws. Of thinned candles the bars around the last trades
    come along, by the trade's number.
    """
    own = [(number, trip) for number, trip in trades if trip.symbol == symbol]
    ends = {second_of(at) for _, trip in own for at in (trip.opened, trip.closed)}
    candles = candles_of(source, symbol, result.first, result.last, limit, sorted(ends))
    is_thinned = candles.seconds > result.bar_seconds
    near = {number: _near(candles, trip) for number, trip in own if is_thinned}
    markers = _markers(result, candles)
    wide = width_name(timedelta(seconds=candles.seconds))
    note = f"{candles.symbol}: candles of {wide}, combined from {candles.bars:,} bars of "
    note += f"{width_name(timedelta(seconds=result.bar_seconds))}, to keep the page small."
    if candles.seconds == result.bar_seconds:
        note = f"{candles.symbol}: every bar, {candles.bars:,} of {wide}."
    if len(markers) > MARKERS_MAX:
        note += f" Only the last {MARKERS_MAX:,} of {len(markers):,} marks are shown."
    return {
        "seconds": candles.seconds,
        "rows": candles.rows,
        "markers": markers[-MARKERS_MAX:],
        "note": note,
        "near": near,
    }


def _near(candles: Candles, trip: RoundTrip) -> Fields:
    """Return the bars around a trade's purchase and sale, and which of them these were in."""
    ends = (second_of(trip.opened), "B"), (second_of(trip.closed), "S")
    rows = sorted({row for second, _ in ends for row in candles.near.get(second, ())})
    marks = [
        (max(before), kind, 1)
        for second, kind in ends
        if (before := [row[0] for row in rows if row[0] <= second])
    ]
    return {"rows": rows, "markers": marks}


def _markers(result: BacktestResult, candles: Candles) -> list[Marker]:
    """Return the marks of a symbol: orders of one kind in one candle are one mark."""
    starts = {row[0] for row in candles.rows}
    orders = dict[tuple[int, str], set[str]]()

    def mark(at: datetime, kind: str, name: str) -> None:
        second = second_of(at)
        candle = second - second % candles.seconds
        if candle in starts:
            orders.setdefault((candle, kind), set()).add(name)

    for fill in result.fills:
        if fill.symbol == candles.symbol:
            mark(fill.at, "B" if fill.side is Side.BUY else "S", fill.order_id)
    for number, decision in enumerate(result.decisions):
        if decision.symbol == candles.symbol and decision.verdict is Verdict.BLOCKED:
            mark(decision.at, "R", str(number))
    for order in result.orders:
        if order.symbol == candles.symbol and order.state is OrderState.REJECTED:
            mark(order.at, "R", order.order_id)
    return sorted((candle, kind, len(names)) for (candle, kind), names in orders.items())


def second_of(at: datetime) -> int:
    """Return an instant as exchange-local seconds, which is what the charts show."""
    return int(at.timestamp()) + LOCAL_S
