"""What the market tells: quotes, depths, bars, phases and times of day; and who is woken by it."""

from dataclasses import replace
from datetime import timedelta
from typing import Final

from bot.domain.instrument import PHASE_WORDS, Phase
from bot.domain.message import (
    BarClosed,
    DepthReceived,
    InstrumentsRead,
    Noted,
    PhaseChanged,
    QuoteReceived,
    TimePassed,
    TimerFired,
)
from bot.domain.quote import Bar
from bot.engine import wake
from bot.engine.bars import BarSeries
from bot.engine.orders import held
from bot.engine.risk.profit import note_holdings
from bot.engine.state import Book
from bot.engine.tracks import DepthSeen, PhaseSeen, QuoteSeen, Runner, Seat
from bot.strategy import BarView, DepthView, Indicator, Read

BAR_PHASES: Final = frozenset({Phase.PROGRESS, Phase.PRE_CLOSED, Phase.CA})
"""Quotes of other phases form no bar: nothing trades, and the last price is an old one."""


def on_instruments(book: Book, event: InstrumentsRead) -> None:
    """Learn where each symbol trades today. What the table of symbols knows besides, stays."""
    for told in event.instruments:
        known = book.instruments.get(told.symbol, told)
        book.instruments[told.symbol] = replace(known, exchange=told.exchange)


def on_quote(book: Book, event: QuoteReceived) -> None:
    """Keep the quote, let it form bars, and wake who asked for quotes."""
    quote = event.quote
    book.counts["quotes"] += 1
    book.quotes[quote.symbol] = QuoteSeen(event.at, quote)
    if book.phase_of(quote.exchange).phase in BAR_PHASES:
        book.bars.add(event.at, quote)
    for runner, seat in wake.seats_of(book, quote.symbol):
        interval = runner.plan.wake.quote
        if interval is not None and wake.is_time(book, seat, "on_quote", interval):
            wake.wake(book, runner, seat, "on_quote", quote)
    held.on_fresh_quote(book, quote.symbol)


def on_depth(book: Book, event: DepthReceived) -> None:
    """Keep the depth and wake who asked for depths."""
    depth = event.depth
    book.counts["depths"] += 1
    book.depths[depth.symbol] = DepthSeen(event.at, depth)
    for runner, seat in wake.seats_of(book, depth.symbol):
        interval = runner.plan.wake.depth
        if interval is not None and wake.is_time(book, seat, "on_depth", interval):
            wake.wake(book, runner, seat, "on_depth", DepthView(depth, seat.desk.reads))


def on_bar(book: Book, event: BarClosed) -> None:
    """Take a whole bar; one for warm-up fills the indicators and wakes nobody."""
    series = book.bars.find(event.bar.symbol, timedelta(seconds=event.bar.seconds))
    if series is None:
        return
    if not event.warm_up:
        series.stop_building()
    if series.take(event.bar) and not event.warm_up:
        _wake_for_bar(book, series, event.bar)


def close_bars(book: Book) -> None:
    """Close the bars that have ended by now and wake for each."""
    for series, bar in book.bars.closed_by(book.now):
        _wake_for_bar(book, series, bar)


def _wake_for_bar(book: Book, series: BarSeries, bar: Bar) -> None:
    book.counts["bars"] += 1
    for runner, seat in wake.seats_of(book, bar.symbol):
        if runner.plan.wake.bar == series.width and not wake.skip_until_warm(
            book, runner, seat, series.count
        ):
            wake.wake(book, runner, seat, "on_bar", BarView(bar, _reader(series, seat)))


def _reader(series: BarSeries, seat: Seat) -> Read:
    """Return what reads an indicator and notes in the seat's desk that it was read."""

    def read(name: str, period: int) -> Indicator:
        value = series.indicators.read(name, period)
        seat.desk.reads[f"{name}({period})"] = value
        return value

    return read


def on_phase(book: Book, event: PhaseChanged) -> None:
    """Keep the phase; a new one is noted and wakes who asked for it."""
    before = book.phases.get(event.exchange)
    available = event.available
    if available is None and before is not None and before.phase is event.phase:
        available = before.available
    book.phases[event.exchange] = PhaseSeen(event.phase, available)
    if before is not None and before.phase is event.phase:
        return
    text = f"{event.exchange} {PHASE_WORDS[event.phase]}"
    book.note("PHASE", text, {"exchange": event.exchange, "phase": event.phase})
    if event.phase is Phase.CLOSED and before is not None:
        note_holdings(book, event.exchange)
    for runner, seat in _seats_on(book, event):
        wake.wake(book, runner, seat, "on_session", event.phase)


def _seats_on(book: Book, event: PhaseChanged) -> list[tuple[Runner, Seat]]:
    return [
        (runner, seat)
        for runner in book.runners.values()
        if runner.plan.wake.on_phase
        for seat in runner.seats.values()
        if (found := book.instruments.get(seat.symbol)) and found.exchange is event.exchange
    ]


def on_timer(book: Book, event: TimerFired) -> None:
    """Wake every instance of the strategy whose time of day it is."""
    runner = book.runners[event.strategy]
    for seat in runner.seats.values():
        wake.wake(book, runner, seat, "on_timer", event.timer)


def on_time(_book: Book, _event: TimePassed) -> None:
    """Time alone: bars and deadlines are looked at around every event."""


def on_noted(book: Book, event: Noted) -> None:
    """Journal what a shell has to say."""
    book.record(event.entry)
