"""Earlier bars of a symbol that goes ex are put on today's level."""

from dataclasses import replace
from datetime import date, timedelta

import pytest

from bot.domain.entry import Decision, Note
from bot.domain.instrument import Exchange, Phase
from bot.domain.message import (
    InstrumentsRead,
    PhaseChanged,
    QuoteReceived,
    Reconciled,
    TradingDayStarted,
)
from bot.domain.operations import Action, OperatorActed
from bot.domain.plan import Wake
from bot.domain.quote import (
    Bar,
    BarsRead,
    ClosesRead,
    KeepExDate,
    LastClose,
    Quote,
    ReadBars,
    WentEx,
)
from bot.engine.operator import objection_to_resume
from bot.engine.status import status_of
from bot.strategy import BarView, Strategy
from tests.engine.stage import DAY, HPG, PLAN, Stage
from tests.rows import every_row

MINUTE = timedelta(minutes=1)
NIGHT = timedelta(hours=24)
GOES_EX = "HPG goes ex today: its reference is 27,000 after"


def _stage(*, close: int = 30_000, ex: bool = True) -> tuple[Stage, list[tuple[int, float]]]:
    """A bot that has closed 100 at 09:31; HPG goes ex today, its reference is 27,000."""
    seen = list[tuple[int, float]]()
    hooks: dict[str, object] = {
        "on_bar": lambda _, bar: seen.append((bar.close, float(bar.sma(3))))
    }
    stage = Stage(replace(PLAN, wake=Wake(bar=MINUTE)), hooks=hooks, is_open=False)
    ex_dates = frozenset({DAY} if ex else ())
    last = LastClose("HPG", close, DAY - timedelta(days=1), None, ex_dates)
    stage.handle(ClosesRead(stage.now, (last,)))
    return stage, seen


def _bars(stage: Stage, *closes: int) -> BarsRead:
    starts = [stage.now - NIGHT + number * MINUTE for number in range(len(closes))]
    bars = [Bar("HPG", start, 60, c, c, c, c, 1) for start, c in zip(starts, closes, strict=True)]
    return BarsRead(stage.now, "HPG", MINUTE, tuple(bars), 300)


def _told(stage: Stage) -> list[str]:
    return [each.text for each in stage.all(Note) if each.kind == "HISTORY"]


def test_earlier_closes_are_multiplied_for_indicators_and_bars_stay_as_quoted() -> None:
    stage, seen = _stage()
    stage.open()

    stage.handle(_bars(stage, 29_000, 30_000))
    stage.pass_time(60)

    assert seen == [(27_000, (29_000 * 0.9 + 27_000 + 27_000) / 3)]
    [told] = _told(stage)
    assert told.startswith(f"{GOES_EX} 30,000. 2 earlier bars count times 0.9000 in indicators")


def test_it_is_done_once_and_again_when_bars_are_read_again() -> None:
    stage, seen = _stage()
    stage.open()
    stage.handle(_bars(stage, 30_000, 30_000))
    stage.quote()

    stage.handle(_bars(stage, 30_000, 30_000))
    stage.pass_time(60)

    assert seen == [(27_000, 27_000.0)]


def test_a_history_that_is_adjusted_already_stays_as_it_is() -> None:
    stage, seen = _stage()
    stage.open()

    stage.handle(_bars(stage, 26_100, 27_000))
    stage.pass_time(60)

    assert (seen, _told(stage)) == ([(27_000, 26_700.0)], [])


def test_without_an_ex_date_nothing_is_adjusted() -> None:
    stage, seen = _stage(close=27_000, ex=False)
    stage.open()

    stage.handle(_bars(stage, 26_100, 27_300))
    stage.pass_time(60)

    assert (seen, _told(stage)) == ([(27_000, 26_800.0)], [])


def test_where_the_ratio_is_not_known_the_bars_of_before_are_left_out() -> None:
    stage, seen = _stage()
    stage.open()

    stage.handle(_bars(stage, 30_000, 29_500))
    stage.pass_time(60)

    [(_, average)] = seen
    assert average != average  # noqa: PLR0124  # NaN
    left_out = "2 earlier bars are left out, as the ratio is not known"
    assert _told(stage) == [f"{GOES_EX} 29,500. {left_out}"]


def test_the_average_price_that_is_upcoms_reference_is_no_ratio() -> None:
    stage, _ = _stage()
    stage.handle(InstrumentsRead(stage.now, (replace(HPG, exchange=Exchange.UPCOM),)))
    stage.handle(PhaseChanged(stage.now, Exchange.UPCOM, Phase.PROGRESS))
    stage.handle(_bars(stage, 30_000, 30_000))

    quote = Quote("HPG", Exchange.UPCOM, 27_000, 27_000, None, None, None, None, None, 1, stage.now)
    stage.handle(QuoteReceived(stage.now, quote))

    assert _told(stage)[0].endswith("are left out, as the ratio is not known")


def test_bars_of_before_stay_adjusted_when_earlier_ones_are_looked_for_on_a_later_day() -> None:
    stage, _ = _stage()
    stage.open()
    stage.handle(_bars(stage, 29_000, 30_000))
    stage.quote()
    stage.after(NIGHT.total_seconds())
    stage.handle(TradingDayStarted(stage.now, DAY + timedelta(days=1)))

    stage.handle(BarsRead(stage.now, "HPG", MINUTE, (), 300))

    series = stage.engine._state.bars.series("HPG", MINUTE)
    assert series is not None
    assert float(series.read({}, "sma", 3)) == (29_000 * 0.9 + 27_000 + 27_000) / 3


def test_what_went_ex_before_this_run_counts_as_it_was_seen_then() -> None:
    stage, seen = _stage(close=27_000, ex=False)
    stage.open()
    yesterday = DAY - timedelta(days=1)
    gone = ((yesterday, 0.8),)

    bars = _bars(stage, 29_000, 30_000)
    earlier = tuple(replace(each, start=each.start - NIGHT) for each in bars.bars[:1])
    stage.handle(replace(bars, bars=(*earlier, *bars.bars[1:]), ex_ratios=gone))
    stage.pass_time(60)

    assert seen == [(27_000, (29_000 * 0.8 + 30_000 + 27_000) / 3)]


def test_what_a_close_became_is_kept_for_the_next_run() -> None:
    stage, _ = _stage()
    stage.open()

    stage.handle(_bars(stage, 29_000, 30_000))

    kept = [each.went_ex for each in stage.commands if isinstance(each, KeepExDate)]
    assert kept == [WentEx("HPG", DAY, 30_000, 27_000)]


def test_a_history_that_is_adjusted_for_an_ex_date_of_this_run_is_not_adjusted_twice() -> None:
    stage, _ = _stage()
    stage.open()
    stage.handle(_bars(stage, 29_000, 30_000))
    stage.quote()
    stage.after(NIGHT.total_seconds())
    stage.handle(TradingDayStarted(stage.now, DAY + timedelta(days=1)))

    stage.handle(BarsRead(stage.now, "HPG", MINUTE, (), 300, ex_ratios=((DAY, 1.0),)))

    series = stage.engine._state.bars.series("HPG", MINUTE)
    assert series is not None
    assert [ratio for _, ratio in series.gone_ex] == [1.0]


def _learn(stage: Stage, *days: date) -> None:
    last = LastClose("HPG", 27_000, DAY - timedelta(days=1), None, frozenset(days))
    stage.handle(ClosesRead(stage.now, (last,)))


def test_nobody_decides_on_bars_whose_ex_date_is_learned_late_until_they_begin_anew() -> None:
    stage, seen = _stage(close=27_000, ex=False)
    stage.open()
    yesterday = DAY - timedelta(days=1)
    bars = _bars(stage, 30_000, 30_000)
    bars = replace(bars, bars=tuple(replace(b, start=b.start - NIGHT) for b in bars.bars))
    stage.handle(bars)

    _learn(stage, yesterday)
    stage.pass_time(60)
    waited = list(seen)
    stage.handle(replace(bars, ex_ratios=((yesterday, 0.9),)))
    stage.quote()
    stage.pass_time(60)

    [wait] = [each for each in stage.all(Decision) if each.code == "WARMING"]
    assert waited == []
    assert wait.why.startswith(f"bars of before its ex-date {yesterday} are on another level")
    assert [close for close, _ in seen] == [27_000]
    assert seen[0][1] == 27_000.0


def test_bars_of_before_an_ex_date_learned_late_go_where_its_ratio_stays_unknown() -> None:
    stage, seen = _stage(close=27_000, ex=False)
    stage.open()
    bars = _bars(stage, 30_000, 30_000)
    bars = replace(bars, bars=tuple(replace(b, start=b.start - NIGHT) for b in bars.bars))
    stage.handle(bars)
    stage.pass_time(60)

    _learn(stage, DAY - timedelta(days=1))
    stage.handle(replace(bars, bars=()))

    series = stage.engine._state.bars.series("HPG", MINUTE)
    assert series is not None
    assert (series.count, [close for close, _ in seen]) == (1, [27_000])
    assert "2 bars of before its ex-date" in _told(stage)[-1]


def _unread(stage: Stage, close: int, *ex_dates: date, is_unread: bool = True) -> None:
    last = LastClose("HPG", close, DAY - NIGHT, None, frozenset(ex_dates), is_unread)
    stage.handle(ClosesRead(stage.now, (last,)))


def _in_doubt(*, close: int = 28_000, bars: tuple[int, ...] = (27_500, 28_000)) -> Stage:
    """A bot whose broker can't tell the ex-dates; the reference is 27,000."""

    def on_bar(strategy: Strategy, bar: BarView) -> None:
        strategy.buy(100, limit=bar.close, why="cheap")

    hooks: dict[str, object] = {"on_bar": on_bar}
    stage = Stage(replace(PLAN, wake=Wake(bar=MINUTE)), hooks=hooks, is_open=False)
    _unread(stage, close)
    stage.open()
    if bars:
        stage.handle(_bars(stage, *bars))
    _minute(stage)
    return stage


def _minute(stage: Stage) -> None:
    """Let a bar close, with a quote shortly before."""
    stage.after(58).quote()
    stage.pass_time(2)


def _codes(stage: Stage) -> list[str]:
    return [each.code for each in stage.all(Decision)]


def test_nothing_is_bought_by_bars_that_may_be_unlevelled_while_the_broker_tells_no_ex_date() -> (
    None
):
    stage = _in_doubt()

    [held] = stage.all(Decision)
    assert held.code == "WARMING"
    assert held.why.startswith("its reference is 27,000 after a close of 28,000 on 2026-11-18")
    assert status_of(stage.engine._state).strategies[0].state == "warming"
    assert len([each for each in _told(stage) if "may have gone ex" in each]) == 1


def test_a_strategy_that_waits_for_ex_dates_sells_what_it_holds() -> None:
    def sell(strategy: Strategy, _: BarView) -> None:
        strategy.sell(100, limit=27_000, why="out")

    plan = replace(PLAN, wake=Wake(bar=MINUTE))
    stage = Stage(plan, hooks={"on_bar": sell}, is_open=False, sellable=100)
    _unread(stage, 28_000)
    stage.open()
    stage.handle(_bars(stage, 27_500, 28_000))
    _minute(stage)

    assert "WARMING" not in _codes(stage)
    assert stage.all(Decision)


def test_the_broker_s_word_ends_the_wait_and_levels_the_bars() -> None:
    stage = _in_doubt()

    _unread(stage, 28_000, DAY, is_unread=False)
    _minute(stage)

    assert _codes(stage) == ["WARMING", "OK"]
    assert any("2 earlier bars count times 0.9643" in each for each in _told(stage))
    assert _told(stage)[-1] == "HPG: its ex-dates are known now, entries go on"


def _without_reference() -> Stage:
    """A bot that would buy on each bar, on an ex-date whose quotes have no reference."""

    def on_bar(strategy: Strategy, bar: BarView) -> None:
        strategy.buy(100, limit=bar.close, why="cheap")

    stage = Stage(replace(PLAN, wake=Wake(bar=MINUTE)), hooks={"on_bar": on_bar}, is_open=False)
    _unread(stage, 30_000, DAY, is_unread=False)
    stage.handle(InstrumentsRead(stage.now, (HPG,)))
    stage.phase(Phase.PROGRESS)
    stage.account()
    stage.handle(Reconciled(stage.now))
    stage.quote(reference=None)
    stage.handle(_bars(stage, 29_000, 30_000))
    stage.after(58).quote(reference=None)
    stage.pass_time(2)
    return stage


def test_on_an_ex_date_nothing_is_bought_until_a_quote_has_a_reference() -> None:
    stage = _without_reference()

    [held] = stage.all(Decision)
    assert held.code == "WARMING"
    [told] = _told(stage)
    assert told.startswith("HPG: it goes ex today, and its quotes have no reference")

    stage.quote()
    _minute(stage)

    assert _codes(stage) == ["WARMING", "OK"]
    assert _told(stage)[-1].startswith(f"{GOES_EX} 30,000. 2 earlier bars count times 0.9000")


def test_a_reference_known_from_an_earlier_quote_of_the_day_levels_bars_read_later() -> None:
    stage, seen = _stage()
    stage.open()
    stage.quote(reference=None)

    stage.handle(_bars(stage, 29_000, 30_000))
    stage.pass_time(60)

    assert seen == [(27_000, (29_000 * 0.9 + 27_000 + 27_000) / 3)]


def test_a_person_s_word_ends_the_wait_too() -> None:
    stage = _in_doubt()
    objection = objection_to_resume(stage.engine._state, "HPG")

    stage.handle(OperatorActed(stage.now, Action.RESUME, "no dividend", "you", symbol="HPG"))
    _minute(stage)

    assert objection == ""
    assert _codes(stage) == ["WARMING", "OK"]


def test_a_person_s_word_ends_the_wait_for_a_reference() -> None:
    stage = _without_reference()

    stage.handle(OperatorActed(stage.now, Action.RESUME, "adjusted", "you", symbol="HPG"))
    stage.after(58).quote(reference=None)
    stage.pass_time(2)

    assert _codes(stage) == ["WARMING", "OK"]

    told = _told(stage)
    stage.quote()  # with a reference: they are not put on another level after all
    stage.pass_time(60)
    series = stage.engine._state.bars.series("HPG", MINUTE)
    assert series is not None
    assert _told(stage) == told
    assert [ratio for _, ratio in series.gone_ex] == [1.0]


@pytest.mark.parametrize("is_asked", [True, False])
def test_bars_that_waited_for_a_reference_all_day_begin_anew_on_the_next(is_asked: bool) -> None:
    stage, next_day = _without_reference(), DAY + timedelta(days=1)
    series = stage.engine._state.bars.series("HPG", MINUTE)
    assert series is not None
    series.asked = 2 if is_asked else 0

    stage.phase(Phase.CLOSED)
    stage.after(24 * 3600)
    stage.handle(TradingDayStarted(stage.now, next_day))

    assert (series.doubt, series.late_ex_date) == ("", DAY if is_asked else None)
    asks = [each.count for each in stage.all(ReadBars)]
    assert asks == ([2] if is_asked else [])
    if not is_asked:
        assert f"bars of before its ex-date {DAY} are left out" in _told(stage)[-1]


def _keeps(
    close_day: date = DAY - NIGHT, close: int = 28_000, *, resumes: bool = False
) -> list[WentEx]:
    """What is kept at the end of a day that began in doubt."""
    stage = _in_doubt()
    belief = stage.engine._state.beliefs["HPG"]
    belief.close, belief.close_day = close, close_day
    if resumes:
        stage.handle(OperatorActed(stage.now, Action.RESUME, "no", "you", symbol="HPG"))
    stage.phase(Phase.CLOSED)
    return [each.went_ex for each in stage.all(KeepExDate)]


def test_a_day_that_was_doubted_to_its_end_is_kept_for_the_next_run() -> None:
    assert _keeps() == [WentEx("HPG", DAY, 28_000, 27_000)]
    assert _keeps(resumes=True) == []
    assert _keeps(close=27_000) == []  # the day after, while a run that goes on still doubts
    assert _keeps(DAY - 2 * NIGHT) == []  # no reference of today follows from an older close
    assert _keeps(date(2019, 11, 19)) == []  # nor from one that no calendar knows


@every_row(
    "close, bars",
    [
        (28_000, ()),  # built from today's polls alone
        (27_000, (27_500, 27_000)),  # nothing fell
        (28_000, (26_500, 27_000)),  # adjusted already
    ],
)
def test_without_the_sign_of_an_ex_date_nobody_waits_for_ex_dates(
    close: int, bars: tuple[int, ...]
) -> None:
    assert "OK" in _codes(_in_doubt(close=close, bars=bars))
