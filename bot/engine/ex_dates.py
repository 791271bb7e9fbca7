"""What went ex today: earlier bars are put on today's level, so that no average sees a fall.

The reference of an ex-date is the close of before, less what went ex. Their ratio multiplies the
closes of earlier bars for indicators; prices of orders, quotes and bars stay as quoted. A history
that is adjusted already closes at the reference: nothing is done then. Where the ratio is not known
the bars of before are left out, and that is said: UPCOM's reference is an average price, and a last
bar that is not the known close says nothing.
"""

from datetime import date

from bot.domain.bar_grid import DAY, span_of
from bot.domain.entry import Numbers
from bot.domain.instrument import EXCHANGE_TZ, Exchange
from bot.domain.quote import Quote
from bot.engine.bars import BarSeries
from bot.engine.state import State


def adjust(state: State, quote: Quote) -> None:
    """Adjust the bars of a symbol that goes ex today, once, by its reference."""
    belief = state.beliefs.get(quote.symbol)
    if belief is None or state.trading_date not in belief.ex_dates or quote.reference is None:
        return
    for series in state.bars.of(quote.symbol):
        if series.went_ex != state.trading_date and not _is_awaited(series, belief.close_day):
            series.went_ex = state.trading_date
            _adjust(state, series, quote.exchange, quote.reference)


def adjust_again(state: State, series: BarSeries) -> None:
    """Do what was done on earlier ex-dates of this run to bars that begin anew; today's follows."""
    today = span_of(state.now, DAY)[0]
    while series.gone_ex and series.gone_ex[-1][0] >= today:
        series.gone_ex.pop()
    for midnight, ratio in series.gone_ex:
        series.go_ex(midnight, ratio)


def _is_awaited(series: BarSeries, close_day: date) -> bool:
    """Tell whether the whole bar of the day before is still to come: it is shown when the next
    day's trading begins, and belongs to what is adjusted.
    """
    if not series.is_recorded or series.width < DAY or series.last is None:
        return False
    return series.last.start.astimezone(EXCHANGE_TZ).date() < close_day


def _adjust(state: State, series: BarSeries, exchange: Exchange, reference: int) -> None:
    midnight = span_of(state.now, DAY)[0]
    last = series.last_before(midnight)
    if last is None or last.close == reference:
        return
    belief, day = state.beliefs[series.symbol], last.start.astimezone(EXCHANGE_TZ).date()
    is_close = (belief.close, belief.close_day) == (last.close, day)
    ratio = reference / last.close if is_close and exchange is not Exchange.UPCOM else None
    count = series.go_ex(midnight, ratio)
    if ratio is not None:
        series.gone_ex.append((midnight, ratio))
    numbers: Numbers = {"reference": reference, "close": last.close, "bars": count, "ratio": ratio}
    went = f"{series.symbol} goes ex today: its reference is {reference:,} after {last.close:,}"
    does = "are left out, as the ratio is not known"
    if ratio is not None:
        does = f"count times {ratio:.4f} in indicators; prices of orders stay as quoted"
    series.history = f"{count:,} bars of before its ex-date {does}"
    state.note("HISTORY", f"{went}. {count:,} earlier bars {does}", numbers, symbol=series.symbol)
