"""Earlier bars of a symbol that goes ex are put on today's level."""

from dataclasses import replace
from datetime import timedelta

from bot.domain.bar_news import BarsRead
from bot.domain.entry import Note
from bot.domain.instrument import Exchange, Phase
from bot.domain.message import PhaseChanged, QuoteReceived, TradingDayStarted
from bot.domain.plan import Wake
from bot.domain.quote import Bar, ClosesRead, LastClose, Quote
from tests.engine.stage import DAY, PLAN, Stage

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
