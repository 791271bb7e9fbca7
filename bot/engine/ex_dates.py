"""Ex-dates: puts earlier bars on today's price level, so that no average sees a fall.

The reference of an ex-date is the previous close less what went ex. Their ratio multiplies the
closes of earlier bars for indicators; prices of orders, quotes and bars stay as quoted. An already
adjusted history closes at the reference, so nothing is done. If the ratio is not known, earlier
bars are dropped and that is reported: UPCOM's reference is an average price, and a last bar that
differs from the known close is inconclusive.

While the broker cannot supply ex-dates, a reference that differs from the last close indicates one:
earlier bars may be on another level, so nothing is bought on them. Exits continue. The same holds
on an ex-date until a quote has a reference.
"""

from collections.abc import Collection, Sequence
from datetime import date, time
from typing import Final

from bot.domain.entry import Numbers
from bot.domain.instrument import EXCHANGE_TZ, Exchange, Phase
from bot.domain.local_time import instant_of
from bot.domain.plan import StrategyPlan
from bot.domain.quote import DAY, KeepExDate, Quote, ReadBars, WentEx, span_of
from bot.engine.bars import BarSeries
from bot.engine.seen import Belief
from bot.engine.state import State

_EX_DATE: Final = "EX_DATE"
"""What a person overrides by saying that the earlier bars are right."""


def adjust(state: State, quote: Quote) -> None:
    """Adjust the bars of a symbol that goes ex today, once, by its reference: this quote's, or that
    of an earlier one of the day. Until one has a reference, nothing is bought by earlier bars.
    """
    belief = state.beliefs.get(quote.symbol)
    if belief is None:
        return
    frame, reference = belief.frame, quote.reference
    if reference is None and frame is not None:
        reference = frame.reference
    if state.trading_date not in belief.ex_dates:
        if belief.are_ex_dates_unread and reference not in (None, belief.close):
            _doubt(state, belief, quote.exchange, reference)
        return
    for series in state.bars.of(quote.symbol):
        if series.went_ex == state.trading_date or _is_awaited(state, series, belief.close_day):
            continue
        if reference is None:
            _await_reference(state, belief, series)
            continue
        series.went_ex, series.doubt = state.trading_date, ""
        _adjust(state, series, quote.exchange, reference)


def adjust_again(state: State, series: BarSeries, past: Sequence[tuple[date, float]]) -> None:
    """Apply to bars that start over what was done on earlier ex-dates, before this run (`past`) and
    in it; today's follows.
    """
    known = {instant_of(day, time()): ratio for day, ratio in past}
    known = {**dict(series.gone_ex), **known}
    series.gone_ex.clear()
    series.gone_ex.extend(sorted(known.items()))
    today = span_of(state.now, DAY)[0]
    while series.gone_ex and series.gone_ex[-1][0] >= today:
        series.gone_ex.pop()
    for midnight, ratio in series.gone_ex:
        series.go_ex(midnight, ratio)
    belief = state.beliefs.get(series.symbol)
    levelled = {midnight for midnight, _ in series.gone_ex}
    for day in sorted(belief.ex_dates) if belief is not None else ():
        midnight = instant_of(day, time())
        if midnight not in levelled and midnight < today and series.last_before(midnight):
            count = series.go_ex(midnight, None)
            does = (
                f"{count:,} bars of before its ex-date {day} are left out, its ratio is not known"
            )
            state.note("HISTORY", f"{series.symbol}: {does}", symbol=series.symbol)


def note_late(state: State, symbol: str, days: Collection[date]) -> None:
    """Have the bars of a symbol wait for another read if one of these newly known ex-dates lies
    among them: they are on two levels.
    """
    for series in state.bars.of(symbol):
        among = [
            day
            for day in sorted(days)
            if day < state.trading_date and series.last_before(instant_of(day, time()))
        ]
        if series.asked and among:
            series.late_ex_date = among[-1]


def note_told(state: State, symbol: str) -> None:
    """The broker supplies ex-dates again: today's is applied at once, an earlier one is late."""
    seen, was_doubted = state.quotes.get(symbol), is_doubted(state, symbol)
    for series in state.bars.of(symbol):
        series.doubt = ""
    if seen is not None and state.phase_of(seen.quote.exchange).phase is not Phase.CLOSED:
        adjust(state, seen.quote)
    if was_doubted and not is_doubted(state, symbol):
        text = f"{symbol}: its ex-dates are known now, entries go on"
        state.note("HISTORY", text, symbol=symbol)


def trust(state: State, symbol: str) -> bool:
    """A person says that a symbol's earlier bars are right; return False if nobody doubts that."""
    if not is_doubted(state, symbol):
        return False
    belief = state.beliefs[symbol]
    for series in state.bars.of(symbol):
        if series.doubt and state.trading_date in belief.ex_dates:
            series.went_ex = state.trading_date  # a reference that comes later changes nothing
            series.gone_ex.append((span_of(state.now, DAY)[0], 1.0))
        series.doubt = ""
    belief.excused.add(_EX_DATE)
    text = f"{symbol}: its earlier bars are taken as they are, entries go on"
    state.note("HISTORY", text, symbol=symbol)
    return True


def end_day(state: State, belief: Belief, ended: date) -> None:
    """Have bars that waited for the reference of their ex-date until its end begin anew: they are
    on two levels.
    """
    if ended not in belief.ex_dates:
        return
    for series in state.bars.of(belief.symbol):
        if not series.doubt:
            continue
        series.doubt = ""
        if series.asked:
            series.late_ex_date = ended
            state.command(ReadBars(series.symbol, series.width, series.asked))
            continue
        count = series.go_ex(instant_of(ended, time()), None)
        does = f"{count:,} bars of before its ex-date {ended} are left out, its ratio is not known"
        state.note("HISTORY", f"{series.symbol}: {does}", symbol=series.symbol)


def keep_doubted(state: State, quote: Quote) -> None:
    """Store the state of a doubted symbol's day until its end: the next run has no other sign of
    it, and adjusts earlier bars by it. A person or the broker ends a doubt.
    """
    belief = state.beliefs.get(quote.symbol)
    if belief is None or belief.close is None or quote.reference in (None, belief.close):
        return
    calendar, today = state.rulebook.calendar, state.trading_date
    if not (calendar.covers(belief.close_day) and calendar.covers(today)):
        return
    is_of_the_day_before = calendar.next_trading_day(belief.close_day) == today
    if quote.reference and is_of_the_day_before and is_doubted(state, quote.symbol):
        state.command(KeepExDate(WentEx(quote.symbol, today, belief.close, quote.reference)))


def is_doubted(state: State, symbol: str) -> bool:
    """Return whether a symbol's bars may be on another level, which cannot be determined now."""
    return any(series.doubt for series in state.bars.of(symbol))


def doubt_of(state: State, plan: StrategyPlan, symbol: str) -> str:
    """Return why a strategy may not buy on its bars now, empty if it may."""
    series = state.bars.series(symbol, plan.wake.bar) if plan.wake.bar is not None else None
    return series.doubt if series is not None else ""


def _doubt(state: State, belief: Belief, exchange: Exchange, reference: int) -> None:
    """Doubt earlier bars if a reference is not the last close. UPCOM's is an average and never the
    close; bars of today only are on one level, and so are those that end at the reference.
    """
    if exchange is Exchange.UPCOM or belief.close is None or _EX_DATE in belief.excused:
        return
    symbol = belief.symbol
    for series in state.bars.of(symbol):
        last = series.last_before(span_of(state.now, DAY)[0])
        if series.doubt or last is None or last[1] == reference:
            continue
        series.doubt = (
            f"its reference is {reference:,} after a close of {belief.close:,} on "
            f"{belief.close_day}, so it may have gone ex, and the broker can't tell the ex-dates: "
            "earlier bars may be on another level. Nothing is bought by them until the broker "
            f'answers, or: bot resume {symbol} --reason "…". Sales go on'
        )
        numbers: Numbers = {"reference": reference, "close": belief.close}
        state.note("HISTORY", f"{symbol}: {series.doubt}", numbers, symbol=symbol)


def _await_reference(state: State, belief: Belief, series: BarSeries) -> None:
    """Doubt earlier bars on an ex-date whose reference, and so the fall, is not known."""
    last = series.last_before(span_of(state.now, DAY)[0])
    if series.doubt or last is None or _EX_DATE in belief.excused:
        return
    series.doubt = (
        "it goes ex today, and its quotes have no reference: earlier bars are on another level. "
        "Nothing is bought by them until a quote of today has one, or: "
        f'bot resume {series.symbol} --reason "…". Sales go on'
    )
    state.note("HISTORY", f"{series.symbol}: {series.doubt}", symbol=series.symbol)


def _is_awaited(state: State, series: BarSeries, close_day: date) -> bool:
    """Return whether the daily bar of the day before is still to come: where bars are events, it is
    shown when the next day's trading begins, and has to be adjusted too.
    """
    if not state.settings.takes_bars_whole or series.width < DAY:
        return False
    return series.last is None or series.last.start.astimezone(EXCHANGE_TZ).date() < close_day


def _adjust(state: State, series: BarSeries, exchange: Exchange, reference: int) -> None:
    midnight = span_of(state.now, DAY)[0]
    last = series.last_before(midnight)
    if last is None:
        return
    if last[1] == reference:  # already adjusted, or nothing fell
        series.gone_ex.append((midnight, 1.0))
        return
    started, close = last
    belief, day = state.beliefs[series.symbol], started.astimezone(EXCHANGE_TZ).date()
    is_close = (belief.close, belief.close_day) == (close, day)
    ratio = reference / close if is_close and exchange is not Exchange.UPCOM else None
    count = series.go_ex(midnight, ratio)
    if ratio is not None:
        series.gone_ex.append((midnight, ratio))
        state.command(KeepExDate(WentEx(series.symbol, state.trading_date, close, reference)))
    numbers: Numbers = {"reference": reference, "close": close, "bars": count, "ratio": ratio}
    went = f"{series.symbol} goes ex today: its reference is {reference:,} after {close:,}"
    does = "are left out, as the ratio is not known"
    if ratio is not None:
        does = f"count times {ratio:.4f} in indicators; prices of orders stay as quoted"
    series.history = f"{count:,} bars of before its ex-date {does}"
    state.note("HISTORY", f"{went}. {count:,} earlier bars {does}", numbers, symbol=series.symbol)
