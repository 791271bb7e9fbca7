"""A backtest's result as one HTML file: figures, charts, each trade with its reasons."""

import json
import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from bot.cli.report.html import library, render, template, write_whole
from bot.cli.report.summary import DASH, gap_words, headline, percent, ratio, sections
from bot.cli.telling.wording import counted
from bot.domain.entry import Verdict
from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.order import OrderState, Side
from bot.domain.quote import width_name
from bot.domain.visible import visible_json
from bot.runtime.history.backtest.candles import CANDLES_MAX, DAY_S, LOCAL_S, Candles, candles_of
from bot.runtime.history.backtest.figures import CONVENTIONS, Figures, drawdowns, monthly
from bot.runtime.history.backtest.result import BacktestResult
from bot.runtime.history.backtest.trades import RoundTrip, Trips, round_trips
from bot.runtime.history.bars import BarSource

TRADES_MAX: Final = 1_000
GAPS_MAX: Final = 200
MONTHS: Final = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
MARKERS_MAX: Final = 1_000
SYMBOLS_MAX: Final = 60
NEAR_TRADES: Final = 40
"""How many of the last trades get a chart of the unmerged bars around purchase and sale."""
ALL_CANDLES_MAX: Final = 20_000
"""On the whole page: with the library and the trades it stays under 2 MB."""

Fields = Mapping[str, object]
Marker = tuple[int, str, int]
"""Local second of its candle, kind (B, S, R), how many orders."""


def write_page(path: Path, result: BacktestResult, figures: Figures, source: BarSource) -> None:
    """Write the page of a result atomically."""
    write_whole(path, page_of(result, figures, source))


def page_of(result: BacktestResult, figures: Figures, source: BarSource) -> str:
    """Return the page as HTML."""
    symbols = sorted({symbol for plan in result.plans for symbol in plan.symbols})
    trips = round_trips(result.fills, result.decisions)
    trades_note = "No trade was closed."
    if count := len(trips.closed):
        shown = f"the last {TRADES_MAX:,} of {count:,}" if count > TRADES_MAX else f"all {count:,}"
        trades_note = f"Round trips at average cost, newest first: {shown}."
        trades_note += " Click one to see it in the chart."
    months, years = monthly(result.equity, result.capital), list[Fields]()
    for year in sorted({year for year, _ in months}):
        gains = [months.get((year, month)) for month in range(1, 13)]
        whole = math.prod(1 + (gain or 0) for gain in gains)
        cells = [
            {"text": "" if gain is None else f"{gain * 100:+.1f}", "tone": _tone(gain)}
            for gain in [*gains, whole - 1]
        ]
        years.append({"year": year, "cells": cells})
    gaps = [gap_words(gap) for gap in result.gaps[:GAPS_MAX]]
    if len(result.gaps) > GAPS_MAX:
        gaps.append(f"and {len(result.gaps) - GAPS_MAX:,} more")
    return render(
        "page.html.j2",
        scripts=(library(), template("page.js")),
        title=f"Backtest of {', '.join(plan.name for plan in result.plans)}",
        subtitle=headline(result),
        data=chart_data(result, source, symbols),
        tiles=list(_tiles(figures)),
        symbols=symbols[:SYMBOLS_MAX],
        sections=list(sections(result, figures)),
        month_names=MONTHS,
        years=years,
        trades=_trades(trips),
        trades_note=trades_note,
        refusals=_refusals(result),
        plans=result.plans,
        assumptions=[*result.assumptions, *CONVENTIONS],
        gaps=gaps,
    )


def _tiles(figures: Figures) -> Iterator[Fields]:
    def tile(label: str, value: str, note: str, sign: float | None = None) -> Fields:
        return {"label": label, "value": value, "note": note, "tone": _tone(sign)}

    total, hold = figures.total_return, figures.buy_and_hold
    yield tile("return", percent(total), f"{figures.profit:+,} VND", total)
    yield tile("buy and hold", percent(hold), "the same symbols", hold)
    if figures.index_return is not None:
        yield tile("VN-Index", percent(figures.index_return), "same days", figures.index_return)
    fall = figures.drawdown
    depth = fall.depth if fall else None
    yield tile("drawdown", percent(depth), counted(fall.days, "day") if fall else "none", depth)
    yield tile("Sharpe", ratio(figures.sharpe), f"Sortino {ratio(figures.sortino)}")
    hit = percent(figures.hit_rate, signed=False)
    yield tile("trades", f"{figures.trades:,}", f"{hit} won" if figures.trades else "none closed")
    yield tile("costs", f"{figures.costs.total:,}", "VND, fee, tax, slippage")


def _tone(sign: float | None) -> str:
    return "" if not sign else "up" if sign > 0 else "down"


def _trades(trips: Trips) -> list[Fields]:
    """Return the rows of the table: open positions first, then the last trades, newest first."""
    still_open: list[Fields] = [
        {
            **_row(position.symbol, position.opened, position.opened, position.entry_why),
            "number": "open",
            "quantity": f"{position.quantity:,}",
            "cost": f"{position.cost:,}",
        }
        for position in trips.open
    ]
    last: list[Fields] = [
        {
            **_row(trip.symbol, trip.opened, trip.closed, trip.entry_why),
            "number": number,
            "closed": _local(trip.closed),
            "quantity": f"{trip.quantity:,}",
            "cost": f"{trip.cost:,}",
            "amount": f"{trip.amount:,}",
            "fees": f"{trip.fee + trip.tax:,}",
            "result": f"{trip.result:+,}",
            "gain": f"{trip.result / trip.cost * 100:+.2f}" if trip.cost else DASH,
            "tone": _tone(trip.result),
            "exit_why": f"sold: {trip.exit_why}" if trip.exit_why else "",
        }
        for number, trip in [*enumerate(trips.closed, 1)][-TRADES_MAX:]
    ]
    return [*still_open, *reversed(last)]


def _row(symbol: str, opened: datetime, at: datetime, why: str) -> dict[str, object]:
    empty = dict.fromkeys(("closed", "amount", "fees", "result", "gain"), DASH)
    return {
        **empty,
        "symbol": symbol,
        "second": second_of(at),
        "opened": _local(opened),
        "tone": "",
        "entry_why": f"bought: {why}" if why else "",
        "exit_why": "",
    }


def _local(at: datetime) -> str:
    return f"{at.astimezone(EXCHANGE_TZ):%Y-%m-%d %H:%M}"


def _refusals(result: BacktestResult) -> list[Fields]:
    """Return each reason for a refusal, how often it occurred, and its last case in words."""
    last: dict[str, str] = {}
    count: dict[str, int] = {}
    for decision in result.decisions:
        if decision.verdict is Verdict.BLOCKED:
            count[decision.code] = count.get(decision.code, 0) + 1
            reason = decision.numbers.get("reason", "")
            text = decision.checks[-1].text if decision.checks else reason
            wanted = f"{decision.side or ''} {decision.symbol}".strip()
            words = f"{wanted}: {text} (wanted because: {decision.why})"
            last[decision.code] = f"{_local(decision.at)} {words}"
    for order in {order.order_id: order for order in result.orders}.values():
        if order.state is OrderState.REJECTED:
            code = order.code or "rejected"
            count[code] = count.get(code, 0) + 1
            words = f"{order.side} {order.quantity:,} {order.symbol}: {order.reason or order.note}"
            last[code] = f"{_local(order.at)} {words}"
    ranked = sorted(count.items(), key=lambda item: (-item[1], item[0]))
    return [{"code": code, "count": f"{n:,}", "example": last[code]} for code, n in ranked]


# -------------------------------------------------------------------------------------- the charts


def chart_data(result: BacktestResult, source: BarSource, symbols: Sequence[str]) -> str:
    """Return the chart data as JSON that is safe inside a script element."""
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
    """Return the chart data of a symbol. If its candles are merged, the bars around the last trades
    are added, by the trade's number.
    """
    own = [(number, trip) for number, trip in trades if trip.symbol == symbol]
    ends = {second_of(at) for _, trip in own for at in (trip.opened, trip.closed)}
    candles = candles_of(source, symbol, result.first, result.last, limit, sorted(ends))
    is_thinned = candles.seconds > result.bar_seconds
    near: dict[int, Fields] = {}
    for number, trip in own if is_thinned else ():
        around = (second_of(trip.opened), "B"), (second_of(trip.closed), "S")
        rows = sorted({row for second, _ in around for row in candles.near.get(second, ())})
        marks = [
            (max(before), kind, 1)
            for second, kind in around
            if (before := [row[0] for row in rows if row[0] <= second])
        ]
        near[number] = {"rows": rows, "markers": marks}
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


def _markers(result: BacktestResult, candles: Candles) -> list[Marker]:
    """Return the marks of a symbol: orders of one kind in one candle share a mark.

    What happens after a day's last candle, or in a gap, is marked at the candle before.
    """
    starts = [row[0] for row in candles.rows]
    orders = dict[tuple[int, str], set[str]]()

    def mark(at: datetime, kind: str, name: str) -> None:
        second = second_of(at)
        candle = starts[max(bisect_right(starts, second) - 1, 0)] if starts else second + 1
        is_of_its_day = candle // DAY_S == second // DAY_S or second < candle + candles.seconds
        if candle <= second and is_of_its_day:
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
