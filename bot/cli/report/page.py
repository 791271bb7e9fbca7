"""A backtest's result as one HTML file that needs nothing else: no network, no folder beside it.

Every text passes `_shown` on its way into the page: it is made visible, and escaped by Jinja2. What
is ours (style, script, library) the template calls safe; the scripts are named by their hashes in
the page's policy, so that the browser runs them and nothing else. The file is written beside its
place and renamed.
"""

import hashlib
import json
import os
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import Final

from jinja2 import DictLoader, Environment, StrictUndefined

from bot import __version__
from bot.cli.report.summary import (
    DASH,
    days_words,
    headline,
    percent,
    ratio,
    sections,
    width_words,
)
from bot.domain.entry import Decision, Verdict
from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.order import OrderState, Side
from bot.domain.visible import visible, visible_json
from bot.runtime.history.backtest.candles import CANDLES_MAX, LOCAL_S, Candles, candles_of
from bot.runtime.history.backtest.figures import CONVENTIONS, Figures, drawdowns, monthly
from bot.runtime.history.backtest.result import BacktestResult
from bot.runtime.history.backtest.trips import RoundTrip, Trips, round_trips
from bot.runtime.history.bars import BarSource

TRADES_MAX: Final = 1_000
MARKERS_MAX: Final = 1_000
SYMBOLS_MAX: Final = 60
ALL_CANDLES_MAX: Final = 20_000
"""On the whole page: with the library and the trades it stays under 2 MB."""
GAPS_MAX: Final = 200
MONTHS: Final = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_HERE: Final = files("bot.cli.report")

Fields = Mapping[str, object]
Marker = tuple[int, str, int]
"""Local second of its candle, kind (B, S, R), how many orders."""


def write_page(path: Path, result: BacktestResult, figures: Figures, source: BarSource) -> None:
    """Write the page of a result, whole or not at all."""
    text = page_of(result, figures, source)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def page_of(result: BacktestResult, figures: Figures, source: BarSource) -> str:
    """Return the page as HTML."""
    symbols = sorted({symbol for plan in result.plans for symbol in plan.symbols})
    trips = round_trips(result.fills, result.decisions)
    library = (_HERE / "static" / "lightweight-charts.js").read_text("utf-8")
    script = _template("page.js")
    environment = Environment(
        loader=DictLoader({"page": _template("page.html.j2")}),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    return environment.get_template("page").render(
        version=__version__,
        title=f"Backtest of {', '.join(plan.name for plan in result.plans)}",
        subtitle=headline(result),
        script_hashes=f"{_hash_of(library)} {_hash_of(script)}",
        style=_template("page.css"),
        library=library,
        script=script,
        data=_data(result, source, symbols),
        tiles=list(_tiles(figures)),
        symbols=symbols[:SYMBOLS_MAX],
        sections=list(sections(result, figures)),
        month_names=MONTHS,
        years=_years(result),
        trades=_trades(trips),
        trades_note=_trades_note(trips),
        refusals=_refusals(result),
        plans=[
            {"name": plan.name, "text": _plan_words(plan.use, plan.symbols, plan.parameters)}
            for plan in result.plans
        ],
        assumptions=[*result.assumptions, *CONVENTIONS],
        gaps=_gaps(result),
    )


def _template(name: str) -> str:
    return (_HERE / "templates" / name).read_text("utf-8")


def _shown(value: object) -> object:
    """Make a text visible; what the template calls safe (Jinja2 marks it) is left as it is."""
    is_outside = isinstance(value, str) and not hasattr(value, "__html__")
    return visible(str(value)) if is_outside else value


def _hash_of(script: str) -> str:
    return f"'sha256-{b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


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
    yield tile("drawdown", percent(depth), f"{fall.days} days" if fall else "none", depth)
    yield tile("Sharpe", ratio(figures.sharpe), f"Sortino {ratio(figures.sortino)}")
    hit = percent(figures.hit_rate, signed=False)
    yield tile("trades", f"{figures.trades:,}", f"{hit} won" if figures.trades else "none closed")
    yield tile("costs", f"{figures.costs.total:,}", "VND, fee, tax, slippage")


def _tone(sign: float | None) -> str:
    return "" if not sign else "up" if sign > 0 else "down"


def _data(result: BacktestResult, source: BarSource, symbols: Sequence[str]) -> str:
    """Return what the charts draw, as JSON that can stand in a script element."""
    shown = symbols[:SYMBOLS_MAX]
    limit = min(CANDLES_MAX, ALL_CANDLES_MAX // max(1, len(shown)))
    falls = drawdowns(result.equity, result.capital)
    data = {
        "equity": [
            (_second(point.at), point.equity, round(fall * 100, 3))
            for point, fall in zip(result.equity, falls, strict=True)
        ],
        "symbols": {
            symbol: _symbol(result, candles_of(source, symbol, result.first, result.last, limit))
            for symbol in shown
        },
    }
    text = visible_json(json.dumps(data, ensure_ascii=False, separators=(",", ":")))
    return text.replace("<", "\\u003c")


def _symbol(result: BacktestResult, candles: Candles) -> Fields:
    markers = _markers(result, candles)
    wide = width_words(candles.seconds)
    note = f"{candles.symbol}: candles of {wide}, put together from {candles.bars:,} bars of "
    note += f"{width_words(result.bar_seconds)}, to keep the page small."
    if candles.seconds == result.bar_seconds:
        note = f"{candles.symbol}: every bar, {candles.bars:,} of {wide}."
    if len(markers) > MARKERS_MAX:
        note += f" The last {MARKERS_MAX:,} of {len(markers):,} marks are shown."
    return {
        "seconds": candles.seconds,
        "rows": candles.rows,
        "markers": markers[-MARKERS_MAX:],
        "note": note,
    }


def _markers(result: BacktestResult, candles: Candles) -> list[Marker]:
    """Return the marks of a symbol: orders of one kind in one candle are one mark."""
    starts = {row[0] for row in candles.rows}
    orders = dict[tuple[int, str], set[str]]()

    def mark(at: datetime, kind: str, name: str) -> None:
        second = _second(at)
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


def _second(at: datetime) -> int:
    """Return an instant as exchange-local seconds, which is what the charts show."""
    return int(at.timestamp()) + LOCAL_S


def _years(result: BacktestResult) -> list[Fields]:
    months = monthly(result.equity, result.capital)
    found: list[Fields] = []
    for year in sorted({year for year, _ in months}):
        gains = [months.get((year, month)) for month in range(1, 13)]
        whole = 1.0
        for gain in gains:
            whole *= 1 + (gain or 0)
        cells = [
            {"text": "" if gain is None else f"{gain * 100:+.1f}", "tone": _tone(gain)}
            for gain in [*gains, whole - 1]
        ]
        found.append({"year": year, "cells": cells})
    return found


def _trades(trips: Trips) -> list[Fields]:
    """Return the rows of the table: what is open first, then the last trades, newest first."""
    still_open: list[Fields] = [
        {
            **_row(position.symbol, position.opened, position.opened, position.entry_why),
            "number": "open",
            "quantity": f"{position.quantity:,}",
            "cost": f"{position.cost:,}",
        }
        for position in trips.open
    ]
    last = reversed([*enumerate(trips.closed, 1)][-TRADES_MAX:])
    return [*still_open, *(_trade(number, trip) for number, trip in last)]


def _trade(number: int, trip: RoundTrip) -> Fields:
    return {
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


def _row(symbol: str, opened: datetime, at: datetime, why: str) -> dict[str, object]:
    empty = dict.fromkeys(("closed", "amount", "fees", "result", "gain"), DASH)
    return {
        **empty,
        "symbol": symbol,
        "second": _second(at),
        "opened": _local(opened),
        "tone": "",
        "entry_why": f"bought: {why}" if why else "",
        "exit_why": "",
    }


def _local(at: datetime) -> str:
    return f"{at.astimezone(EXCHANGE_TZ):%Y-%m-%d %H:%M}"


def _trades_note(trips: Trips) -> str:
    count = len(trips.closed)
    if not count:
        return "No trade was closed."
    shown = f"the last {TRADES_MAX:,} of {count:,}" if count > TRADES_MAX else f"all {count:,}"
    return f"Round trips at average cost, newest first: {shown}. A click shows one in the chart."


def _refusals(result: BacktestResult) -> list[Fields]:
    """Return each reason of a refusal, how often it came, and its last case in words."""
    last: dict[str, str] = {}
    count: dict[str, int] = {}
    for decision in result.decisions:
        if decision.verdict is Verdict.BLOCKED:
            count[decision.code] = count.get(decision.code, 0) + 1
            last[decision.code] = _refusal_words(decision)
    for order in {order.order_id: order for order in result.orders}.values():
        if order.state is OrderState.REJECTED:
            code = order.code or "rejected"
            count[code] = count.get(code, 0) + 1
            words = f"{order.side} {order.quantity:,} {order.symbol}: {order.reason or order.note}"
            last[code] = f"{_local(order.at)} {words}"
    ranked = sorted(count.items(), key=lambda item: (-item[1], item[0]))
    return [{"code": code, "count": f"{n:,}", "example": last[code]} for code, n in ranked]


def _refusal_words(decision: Decision) -> str:
    text = decision.checks[-1].text if decision.checks else str(decision.numbers.get("reason", ""))
    wanted = f"{decision.side or ''} {decision.symbol}".strip()
    return f"{_local(decision.at)} {wanted}: {text} (wanted because: {decision.why})"


def _plan_words(use: str, symbols: Sequence[str], parameters: Mapping[str, object]) -> str:
    shown = ", ".join(f"{name} {value}" for name, value in parameters.items())
    return f"{use} on {', '.join(symbols)}" + (f" with {shown}" if shown else "")


def _gaps(result: BacktestResult) -> list[str]:
    shown = [
        f"{gap.symbol} {days_words(gap.first, gap.last)}: {gap.what}"
        for gap in result.gaps[:GAPS_MAX]
    ]
    left = len(result.gaps) - len(shown)
    return [*shown, f"and {left:,} more"] if left > 0 else shown
