import math
from dataclasses import replace
from datetime import timedelta
from random import Random

import numpy as np
import pytest
import talib

from bot.config.strategies.invoke import invoke
from bot.domain.entry import Decision, Note, RunState, Verdict
from bot.domain.instrument import Exchange, Phase
from bot.domain.message import BarClosed, PhaseChanged, PlaceOrder, QuoteReceived
from bot.domain.order import Side
from bot.domain.plan import Wake
from bot.domain.quote import Bar, BarsRead, KeepBar, Quote, ReadBars, span_of
from bot.engine.bars import Bars, BarSeries, reach_of
from bot.engine.indicators import FUNCTIONS, IndicatorSet
from bot.engine.state import Position
from bot.strategy import Indicator
from tests.engine.stage import PLAN, START, Stage
from tests.rows import every_row

MINUTE = timedelta(minutes=1)


def _quote(last, volume=0):
    return Quote("HPG", Exchange.HOSE, last, None, None, None, None, None, None, volume, None)


def _at(seconds):
    return START + timedelta(seconds=seconds)


def _bar(number, close):
    return Bar("HPG", START + number * MINUTE, 60, close, close, close, close, 100)


def _closed(series, at):
    bar = series.close_if_due(at)
    assert bar is not None
    return bar


def test_a_bar_is_built_from_quotes_and_the_growth_of_the_days_volume():
    series = BarSeries("HPG", MINUTE)

    for seconds, last, volume in [(5, 27_000, 900), (20, 27_100, 1_000), (59, 26_950, 1_300)]:
        assert series.close_if_due(_at(seconds)) is None
        series.add(_at(seconds), _quote(last, volume))

    bar = series.close_if_due(_at(60))
    assert bar == Bar("HPG", START, 60, 27_000, 27_100, 26_950, 26_950, 400)
    assert series.close_if_due(_at(61)) is None


def test_the_volume_between_two_bars_belongs_to_the_later_one():
    series = BarSeries("HPG", MINUTE)
    series.add(_at(59), _quote(27_000, 1_000))
    series.close_if_due(_at(60))

    series.add(_at(60), _quote(27_000, 1_500))

    assert _closed(series, _at(120)).volume == 500


def test_what_a_quote_shows_that_comes_after_its_bar_has_closed_is_in_the_next_bar():
    stage, _ = _bars_stage(on_bar=lambda self, bar: self.skip(f"{bar.open:,} {bar.volume:,}"))
    start = stage.now
    stage.after(10).quote(27_000, volume=2_000)
    asked = stage.after(49).now
    stage.pass_time(1)

    stage.handle(QuoteReceived(asked, replace(_quote(27_100, 2_500), updated_at=asked), stage.now))
    stage.after(10).quote(27_100, volume=2_600)
    stage.pass_time(50)

    bars = [(each.at - start, each.why) for each in stage.all(Decision)]
    assert bars == [(MINUTE, "27,000 1,000"), (2 * MINUTE, "27,100 600")]


def test_volume_grows_from_nothing_too():
    series = BarSeries("HPG", MINUTE)
    series.add(_at(0), _quote(27_000, 0))

    series.add(_at(1), _quote(27_000, 500))

    assert _closed(series, _at(60)).volume == 500


def test_a_quote_without_a_volume_is_no_growth_and_hides_none():
    series = BarSeries("HPG", MINUTE)
    for seconds, volume in [(1, None), (2, 5_000), (3, None), (4, 5_300)]:
        series.add(_at(seconds), _quote(27_000 + seconds * 50, volume))

    bar = _closed(series, _at(60))

    assert (bar.open, bar.close, bar.volume) == (27_050, 27_200, 300)
    assert series.seen_from is None


def test_quotes_without_a_volume_form_bars_that_were_seen_in_whole():
    series = BarSeries("HPG", MINUTE)
    for seconds in (5, 55):
        series.add(_at(seconds), _quote(27_000, None))
    _closed(series, _at(60))

    series.add(_at(80), _quote(27_050, None))

    assert _closed(series, _at(120)).volume == 0
    assert series.seen_from is None


def test_a_days_first_volume_after_a_quote_without_one_is_its_growth():
    series = BarSeries("HPG", MINUTE)
    series.add(_at(0), _quote(27_000, 9_000))
    _closed(series, _at(60))
    series.grown(_at(20 * 3_600), _quote(27_000, None))

    assert series.grown(_at(20 * 3_600 + 10), _quote(27_000, 400)) == 400


def test_a_new_days_volume_is_no_negative_growth():
    series = BarSeries("HPG", MINUTE)
    series.add(_at(0), _quote(27_000, 9_000))

    series.add(_at(1), _quote(27_000, 10))

    assert _closed(series, _at(60)).volume == 0


def test_a_span_without_a_quote_has_no_bar():
    series = BarSeries("HPG", MINUTE)
    series.add(_at(5), _quote(27_000))

    assert _closed(series, _at(500)).start == START
    assert series.close_if_due(_at(600)) is None


def test_a_price_of_zero_forms_no_bar():
    series = BarSeries("HPG", MINUTE)

    series.add(_at(5), _quote(0))

    assert series.forming is None


def test_an_old_bar_changes_nothing():
    series = BarSeries("HPG", MINUTE)
    series.take(_bar(1, 27_000))

    assert not series.take(_bar(1, 28_000))
    assert (series.count, series.last) == (1, _bar(1, 27_000))


@pytest.mark.parametrize("seconds", [1, 59, 61, 3_599])
def test_bars_lie_on_the_grid_of_their_width(seconds):
    start, end = span_of(_at(seconds), MINUTE)

    assert (start.second, start <= _at(seconds) < end) == (0, True)


def test_a_forming_bar_knows_its_end():
    minute, five = BarSeries("HPG", MINUTE), BarSeries("HPG", 5 * MINUTE)

    for series in (minute, five):
        series.add(_at(90), _quote(27_000))

    ends = [series.forming and series.forming.end for series in (minute, five)]
    assert ends == [_at(120), _at(300)]


@pytest.mark.parametrize("seed", range(20))
def test_the_bars_of_all_symbols_end_as_if_each_series_were_asked_at_every_instant(seed):
    dice, wanted = Random(seed), [(s, n * MINUTE) for s in "ABC" for n in (1, 2, 3)]
    dice.shuffle(wanted)
    bars, asked = Bars(), [BarSeries(symbol, width) for symbol, width in wanted]
    for symbol, width in wanted:
        bars.want(symbol, width)
        bars.want(symbol, width)

    for second in range(0, 1_800, 7):
        at, quote = _at(second), replace(_quote(dice.randint(90, 110)), symbol=dice.choice("ABC"))
        ended = [bar for _, bar in bars.ended(at)]
        assert ended == [bar for each in asked if (bar := each.close_if_due(at)) is not None]
        if dice.random() < 0.2:
            late = at - timedelta(seconds=dice.choice([0, 0, 90]))
            bars.add(late, quote)
            for each in asked:
                if each.symbol == quote.symbol:
                    each.add(late, quote)
        if dice.random() < 0.02:
            whole = replace(_bar(second, 100), symbol=quote.symbol)
            series = bars.series(quote.symbol, MINUTE)
            assert series is not None
            double = next(e for e in asked if (e.symbol, e.width) == (quote.symbol, MINUTE))
            double.is_recorded, double.forming = True, None
            assert bars.take_whole(series, whole) is double.take(whole)
        ends = [each.forming.end for each in asked if each.forming is not None]
        assert bars.next_end(at) == min((end for end in ends if end > at), default=None)


def test_a_symbol_without_wanted_bars_has_none():
    bars = Bars()
    bars.want("HPG", MINUTE)

    assert (bars.has("HPG"), bars.has("FPT")) == (True, False)
    assert bars.series("HPG", 2 * MINUTE) is None


# ---------------------------------------------------------------------------------- indicators


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_an_indicator_equals_the_batch_function_bit_for_bit(name):
    closes = [27_000 + round(500 * math.sin(i / 3)) for i in range(120)]
    batch = getattr(talib, name.upper())(np.array(closes, float), timeperiod=14)
    early, late = IndicatorSet(), IndicatorSet()
    for number, close in enumerate(closes):
        early.update(close)
        late.update(close)
        value = early.read(name, 14)
        assert value == batch[number] or (math.isnan(value) and math.isnan(batch[number]))
        if number and not math.isnan(batch[number - 1]):
            assert value.previous == batch[number - 1]

    assert late.read(name, 14) == batch[-1]
    assert late.read(name, 14).previous == batch[-2]


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
@pytest.mark.parametrize("period", [2, 5, 14, 50])
def test_after_its_reach_it_does_not_matter_where_an_indicator_began(name, period):
    dice, closes = Random(period), [27_000]
    closes += [closes[-1] + 50 * dice.randint(-4, 4) for _ in range(2_000)]
    long, short, above = IndicatorSet(), IndicatorSet(), []
    reach = reach_of(f"{name}({period})")
    for close in closes[: -reach - 200]:
        long.update(close)
    long.read(name, period)

    for number, close in enumerate(closes[-reach - 200 :]):
        long.update(close)
        short.update(close)
        one, other = long.read(name, period), short.read(name, period)
        if number > reach:
            assert math.isclose(one, other, rel_tol=1e-7)
            level = 50 if name == "rsi" else close
            above.append(one > level)
            assert above[-1] == (other > level)

    assert len(set(above)) == 2


@pytest.mark.parametrize("seed", range(20))
def test_after_an_ex_date_averages_of_a_price_that_stands_still_are_that_price(seed):
    dice, price = Random(seed), 52_000
    long, short = IndicatorSet(), IndicatorSet()
    for number in range(80):
        price += 100 * dice.randint(-1, 1)
        long.update(price)
        if number >= 40:
            short.update(price)
    long.read("sma", 20)
    long, short = (each.begun_again(0, 49_850 / price) for each in (long, short))
    long.read("sma", 20)

    closes = [49_850 + 50 * dice.randint(-9, 9) for _ in range(30)]
    for number, close in enumerate([*closes, *closes[-1:] * 30]):
        long.update(close)
        short.update(close)
        fast, slow = long.read("sma", 5), long.read("sma", 20)
        if number == 7:
            short.read("sma", 20)
        assert slow == short.read("sma", 20)
        if number >= 50:
            assert {float(fast), float(slow)} == {closes[-1]}


def test_without_a_bar_an_indicator_is_not_a_number():
    assert math.isnan(IndicatorSet().read("sma", 5))


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_the_longest_period_has_a_value_and_one_before_also_where_it_is_read_late(name):
    series = BarSeries("HPG", MINUTE)
    for number in range(5_100):
        series.take(_bar(number, 20_000 + 50 * (number * number % 97)))

    read = series.read({}, name, 5_000)

    assert not math.isnan(read)
    assert not math.isnan(read.previous)


@pytest.mark.parametrize("period", [1, 0, -3, 5_001])
def test_a_period_out_of_range_is_refused(period):
    with pytest.raises(ValueError, match="2 to 5000"):
        IndicatorSet().read("sma", period)


@pytest.mark.parametrize("period", [10.0, True, "10", None, np.int64(10)])
def test_a_period_that_is_no_whole_number_is_refused_also_before_there_is_history(period):
    with pytest.raises(TypeError, match="wanted a whole number of bars, found"):
        IndicatorSet().read("sma", period)


def test_a_period_that_is_no_whole_number_is_a_fault_of_its_plug_in_and_halts_nobody():
    def on_bar(strategy, bar):
        if bar.close > bar.sma(20 / 2):
            strategy.buy(100)

    class Called(Stage):
        def _invoke(self, strategy, hook, argument):
            return invoke(strategy, hook, argument)

    stage = Called(replace(PLAN, wake=Wake(bar=timedelta(minutes=1))), hooks={"on_bar": on_bar})
    for _ in range(2):
        stage.after(60).quote()

    assert stage.decided() == (Verdict.FAILED, "EXCEPTION")
    assert stage.engine.status().state is RunState.RUNNING


@every_row(
    ("fast", "slow", "above", "below"),
    [
        (Indicator(11, 9), Indicator(10, 10), True, False),
        (Indicator(11, 10), Indicator(10, 10), True, False),
        (Indicator(9, 11), Indicator(10, 10), False, True),
        (Indicator(11, 11), Indicator(10, 10), False, False),
        (Indicator(10, 9), Indicator(10, 10), False, False),
        (Indicator(11, math.nan), Indicator(10, 10), False, False),
        (Indicator(math.nan), Indicator(10, 10), False, False),
        (Indicator(31, 29), 30, True, False),
    ],
)
def test_crossing_needs_both_bars(fast, slow, above, below):
    assert (fast.crossed_above(slow), fast.crossed_below(slow)) == (above, below)


def test_an_indicator_reads_like_a_number():
    assert f"{Indicator(131_960.4, 1):,.0f}" == "131,960"


# ------------------------------------------------------------------------- through the engine


def _bars_stage(**attributes):
    seen = []
    hooks = {"on_bar": lambda _, bar: seen.append((bar.close, bar.sma(2))), **attributes}
    return Stage(replace(PLAN, wake=Wake(bar=MINUTE)), hooks=hooks), seen


def test_a_bar_closes_by_the_first_event_after_its_end():
    stage, seen = _bars_stage()
    assert stage.engine.next_due() == START + MINUTE

    stage.after(30).quote(27_100)
    stage.pass_time(30)

    assert [close for close, _ in seen] == [27_100]


def test_a_quote_at_the_boundary_belongs_to_the_next_bar():
    stage, seen = _bars_stage()

    stage.after(60).quote(27_500)

    assert [close for close, _ in seen] == [27_000]


def test_a_cold_indicator_makes_the_call_a_skip():
    stage, _ = _bars_stage()

    stage.pass_time(60)
    assert stage.decided() == (Verdict.SKIPPED, "WARMING")
    [waiting] = stage.engine.status().strategies
    assert (waiting.state, waiting.reason) == ("warming", "waiting for 2 bars (1 so far)")
    stage.quote()
    stage.pass_time(60)

    decision = stage.last(Decision)
    assert (decision.code, decision.why) == ("NO_SIGNAL", "SMA2 27,000")
    assert decision.numbers == {"sma(2)": 27_000.0}
    assert stage.engine.status().strategies[0].state == "on"


def test_over_lunch_quotes_form_no_bar():
    stage, seen = _bars_stage()
    stage.pass_time(60)
    stage.phase(Phase.BREAK)

    stage.after(1).quote()
    stage.pass_time(120)

    assert len(seen) == 1


def test_recorded_bars_replace_those_from_quotes():
    stage, seen = _bars_stage()

    stage.handle(BarClosed(stage.now, _bar(-1, 27_200)))
    stage.after(1).quote()
    stage.pass_time(60)

    assert [close for close, _ in seen] == [27_200]


def test_warm_up_bars_wake_nobody_and_fill_the_indicators():
    stage, seen = _bars_stage()

    for number in range(-5, 0):
        stage.handle(BarClosed(stage.now, _bar(number, 27_200), warm_up=True))
    assert seen == []
    stage.pass_time(60)

    assert [(close, float(sma)) for close, sma in seen] == [(27_000, 27_100.0)]


def test_a_declared_warm_up_is_waited_for():
    stage, seen = _bars_stage(warm_up=2)

    stage.pass_time(60)
    assert stage.last(Decision).why == "1 of 2 bars seen"
    stage.quote()
    stage.pass_time(60)

    assert len(seen) == 1


def test_bars_before_reconciled_count_and_wake_nobody():
    stage = Stage(replace(PLAN, wake=Wake(bar=MINUTE)), is_open=False)
    stage.handle(PhaseChanged(stage.now, Exchange.HOSE, Phase.PROGRESS))

    stage.handle(BarClosed(stage.now, _bar(-1, 27_200)))

    assert stage.all(Decision) == []


# ----------------------------------------------------------------------------- earlier bars


def _read(stage, *bars, **more):
    wanted = more.pop("wanted", 300)
    stage.handle(BarsRead(stage.now, "HPG", MINUTE, bars, wanted, **more))


def test_earlier_bars_warm_a_strategy_and_wake_nobody():
    stage, seen = _bars_stage()

    _read(stage, *(_bar(number, 27_200) for number in range(-5, 0)))
    assert seen == []
    stage.pass_time(60)

    assert [(close, float(sma)) for close, sma in seen] == [(27_000, 27_100.0)]


def test_earlier_bars_that_come_late_stand_before_our_own():
    stage, seen = _bars_stage()
    stage.pass_time(60)
    stage.quote(27_100)

    _read(stage, _bar(-2, 27_400), _bar(-1, 27_300))
    stage.pass_time(60)

    assert [float(sma) for _, sma in seen][1:] == [27_050.0]
    assert stage.engine.status().strategies[0].state == "on"


def test_what_a_history_has_of_the_forming_bar_is_put_into_it():
    stage, _ = _bars_stage(on_bar=lambda self, bar: self.skip(f"{bar.open} {bar.high} {bar.low}"))

    _read(stage, _bar(-1, 27_200), forming=Bar("HPG", START, 60, 26_900, 27_900, 26_800, 27_000, 5))
    stage.pass_time(60)

    assert stage.last(Decision).why == "26900 27900 26800"


def test_a_bar_seen_from_its_middle_on_wakes_nobody_and_its_close_counts():
    stage, seen = _bars_stage()
    series = stage.engine._state.bars.series("HPG", MINUTE)
    assert series is not None
    series.forming = series._looked_at = None

    stage.after(30).quote(27_500, volume=900)
    stage.pass_time(30)

    assert (seen, series.count) == ([], 1)
    assert stage.last(Decision).why == (
        "this bar was seen from 09:30:30 on only: its close counts, nothing more of it"
    )


def test_a_read_further_back_than_was_asked_for_asks_for_more_once():
    stage, _ = _bars_stage(on_bar=lambda _, bar: bar.sma(400))
    _read(stage, _bar(-1, 27_200))

    asked = []
    for _ in range(3):
        stage.pass_time(60)
        asked += [each for each in stage.done if isinstance(each, ReadBars)]
        stage.quote()

    assert asked == [ReadBars("HPG", MINUTE, 401)]


def test_bars_are_kept_for_the_next_start_where_earlier_ones_are_looked_for():
    stage, _ = _bars_stage()
    stage.pass_time(60)
    assert not any(isinstance(each, KeepBar) for each in stage.commands)

    _read(stage)
    stage.quote()
    stage.pass_time(60)

    kept = [each.bar.start for each in stage.commands if isinstance(each, KeepBar)]
    assert kept == [START + MINUTE]


def test_who_holds_something_and_waits_for_bars_is_an_alert_at_once_and_stays_one():
    stage, _ = _bars_stage(warm_up=20)
    stage.engine._state.strategies["test"].positions["HPG"] = Position(100, 2_700_000)

    _read(stage, _bar(-1, 27_200), lacks="gap 2026-11-18 afternoon")

    [alert] = [each for each in stage.all(Note) if each.kind == "ALERT"]
    assert alert.text.startswith(
        "test holds 100 HPG and cannot decide to sell: it has 1 of 20 bars (gap 2026-11-18 aft"
    )
    assert alert.text in stage.engine.status().alerts
    stage.pass_time(60)
    assert stage.last(Decision).why == "2 of 20 bars seen (gap 2026-11-18 afternoon)"


def test_who_waits_for_bars_can_sell_by_each_hook_but_on_bar():
    stage = Stage(replace(PLAN, wake=Wake(bar=MINUTE)), hooks={"warm_up": 20}, sellable=100)
    stage.engine._state.strategies["test"].positions["HPG"] = Position(100, 2_700_000)
    stage.pass_time(60)
    stage.quote()

    stage.request(lambda strategy: strategy.close(limit=26_900))  # as on_timer would

    assert stage.last(Decision).code == "OK"
    sold = stage.last(PlaceOrder).intent
    assert (sold.side, sold.quantity, sold.limit_price) == (Side.SELL, 100, 26_900)
    assert stage.engine.status().alerts[0].startswith("test holds 100 HPG and cannot decide to")


def test_a_history_that_cannot_be_read_stays_in_the_alerts_until_it_is():
    stage, _ = _bars_stage()

    _read(stage, lacks="it can't be read", is_asked_again=True)
    [alert] = stage.engine.status().alerts
    assert alert.startswith("earlier bars of HPG: it can't be read. test goes on with the bars of")
    _read(stage, _bar(-1, 27_200))

    assert stage.engine.status().alerts == ()


def test_the_price_of_the_closing_auction_is_in_a_bar_and_old_prices_are_in_none():
    stage, seen = _bars_stage()
    stage.after(10).quote(27_100, volume=1_000)
    stage.pass_time(50)
    stage.phase(Phase.PUT_THROUGH)

    stage.after(5).quote(27_300, volume=5_000)
    stage.after(10).quote(27_300, volume=5_000)
    stage.pass_time(50)
    stage.after(10).quote(27_300, volume=5_000)
    stage.pass_time(60)

    assert [close for close, _ in seen] == [27_100, 27_300]


def test_the_first_bar_of_a_day_has_the_volume_of_the_opening_auction():
    stage, _ = _bars_stage(on_bar=lambda self, bar: self.skip(f"{bar.volume}"))
    stage.pass_time(60)
    stage.engine._state.beliefs["HPG"].has_traded = False
    stage.phase(Phase.OPEN)
    stage.quote(27_000, volume=0)
    stage.phase(Phase.PROGRESS)

    stage.after(5).quote(27_100, volume=700)
    stage.pass_time(60)

    assert stage.last(Decision).why == "700"


@pytest.mark.parametrize("late_s", [0, 1, 5, 29])
def test_the_first_bar_opens_with_the_auction_however_late_the_broker_says_that_it_is_over(late_s):
    stage, _ = _bars_stage(
        on_bar=lambda self, bar: self.skip(f"{bar.start:%H:%M} {bar.open:,} {bar.volume:,}")
    )
    stage.now = START + timedelta(days=1, minutes=-15, seconds=-20)  # 09:14:40
    stage.phase(Phase.OPEN)
    stage.quote(27_000, volume=0)
    stage.after(10).quote(27_000, volume=50_000)  # negotiated

    stage.after(10).phase(Phase.PROGRESS if late_s == 0 else Phase.OPEN)
    stage.quote(27_300, volume=850_000)
    stage.after(late_s).phase(Phase.PROGRESS)
    stage.after(1).quote(27_200, volume=860_000)
    stage.pass_time(60)

    said = [each.why for each in stage.all(Decision) if each.why.startswith("02:1")]
    assert said == ["02:15 27,300 810,000"]


def test_a_new_days_first_bar_has_all_that_was_traded_in_it_so_far():
    series = BarSeries("HPG", MINUTE)
    series.add(_at(0), _quote(27_000, 9_000))
    series.close_if_due(_at(60))

    series.add(_at(18 * 3_600), _quote(27_000, 9_500))

    assert _closed(series, _at(18 * 3_600 + 60)).volume == 9_500


def test_who_holds_something_and_reads_what_has_no_value_is_an_alert_once():
    stage, _ = _bars_stage()
    stage.engine._state.strategies["test"].positions["HPG"] = Position(100, 2_700_000)

    stage.pass_time(60)
    [alert] = [each for each in stage.all(Note) if each.kind == "ALERT"]
    assert alert.numbers["alert"] == "WARMING_POSITION"
    assert alert.text in stage.engine.status().alerts
    stage.quote()
    stage.pass_time(60)

    assert stage.engine.status().alerts == ()


def test_a_bar_opens_with_its_first_trade_and_not_at_the_price_of_before():
    series = BarSeries("HPG", MINUTE)
    series.add(_at(50), _quote(27_000, 900))
    series.close_if_due(_at(60))

    series.add(_at(60), _quote(27_000, 900))
    series.add(_at(90), _quote(27_200, 1_000))
    series.add(_at(100), _quote(27_300, 1_100))
    traded = _closed(series, _at(120))
    series.add(_at(120), _quote(27_300, 1_100))
    flat = _closed(series, _at(180))

    prices = 27_200, 27_300, 27_200, 27_300
    assert traded == Bar("HPG", START + MINUTE, 60, *prices, 200)
    assert flat == Bar("HPG", START + 2 * MINUTE, 60, 27_300, 27_300, 27_300, 27_300, 0)


@pytest.mark.parametrize(
    "before", [None, -18 * 3_600], ids=["a run's first bar", "the first bar of a day"]
)
def test_before_a_symbols_first_trade_of_the_day_no_bar_opens_at_an_earlier_price(before):
    series = BarSeries("HPG", MINUTE)
    if before is not None:
        series.add(_at(before), _quote(27_000, 9_000))
        series.close_if_due(_at(before + 60))

    series.add(_at(0), _quote(27_000, 0))
    series.add(_at(35), _quote(28_000, 100))

    assert _closed(series, _at(60)) == Bar("HPG", START, 60, 28_000, 28_000, 28_000, 28_000, 100)


def test_the_price_of_before_is_none_of_a_bar_whose_beginning_a_history_knows():
    series = BarSeries("HPG", MINUTE)
    series.add(_at(50), _quote(27_000, 900))
    series.close_if_due(_at(60))
    series.add(_at(60), _quote(27_000, 900))

    series.seed((), Bar("HPG", START + MINUTE, 60, 27_300, 27_400, 27_300, 27_350, 500))
    series.add(_at(90), _quote(27_350, 1_400))

    prices = 27_300, 27_400, 27_300, 27_350
    assert _closed(series, _at(120)) == Bar("HPG", START + MINUTE, 60, *prices, 1_000)
