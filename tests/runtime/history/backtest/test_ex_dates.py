"""Over an ex-date a strategy decides in a backtest as it does live."""

from dataclasses import replace
from datetime import date, timedelta

import pytest

from bot.domain.instrument import Exchange
from bot.domain.plan import Wake
from bot.domain.quote import Bar, BarsRead, ClosesRead, LastClose
from bot.runtime.history.bars import DayFrame
from bot.strategy import BarView, Strategy
from tests.engine.stage import PLAN, Stage
from tests.runtime.history.backtest.listed import DAY, MINUTE, Written, backtest, bar

BEFORE = DAY - timedelta(days=1)
DAILY = Wake(bar=timedelta(days=1))
PRICES = (27_000, 27_100, 27_150, 26_900, 27_050)
"""From 09:30 on, after a day at 30,000; the reference is 27,000."""
SILENT = 15
"""Minutes of trading before."""
Decided = list[tuple[date, int, float, str]]


class Above(Strategy):
    """Says of each bar whether it lies above its average, and notes it."""

    decided: Decided

    def on_bar(self, bar: BarView) -> None:
        average = bar.sma(20)
        says = "above" if bar.close > average else "below"
        self.decided.append((bar.start.date(), bar.close, float(average), says))


def _above() -> type[Above]:
    return type("Above", (Above,), {"decided": []})


def _over_the_ex_date(*, why_slow: bool) -> Decided:
    strategy = _above()
    if why_slow:  # whoever hears quotes is played by the whole engine
        strategy = type("Above", (strategy,), {"on_quote": lambda _self, _quote: None})
    start = [bar("14:20", 30_000, day=BEFORE)]
    bars = [bar(f"09:{30 + number}", price) for number, price in enumerate(PRICES)]
    source = Written([*start, *bars], frames={DAY: DayFrame(ex_ratio=0.9)})
    wake = Wake(bar=MINUTE, quote=MINUTE if why_slow else None)
    result = backtest(strategy, [], source=source, first=BEFORE, wake=wake)
    assert bool(result.why_slow) is why_slow, "the gear that was meant"
    return strategy.decided


def _live() -> Decided:
    strategy = _above()
    hooks: dict[str, object] = {"decided": strategy.decided, "on_bar": strategy.on_bar}
    stage = Stage(replace(PLAN, wake=Wake(bar=MINUTE)), hooks=hooks, is_open=False)
    last = LastClose("HPG", 30_000, BEFORE, None, frozenset({DAY}))
    stage.handle(ClosesRead(stage.now, (last,)))
    nightly = [stage.now - timedelta(hours=20) + number * MINUTE for number in range(25)]
    silent = [stage.now - number * MINUTE for number in range(15, 0, -1)]
    history = [(start, 30_000) for start in nightly] + [(start, 27_000) for start in silent]
    bars = [Bar("HPG", start, 60, *(close,) * 4, 100) for start, close in history]
    stage.open()
    stage.handle(BarsRead(stage.now, "HPG", MINUTE, tuple(bars), 300))
    for price in PRICES:
        stage.quote(price)
        stage.pass_time(60)
    return strategy.decided


@pytest.mark.parametrize("why_slow", [False, True])
def test_a_strategy_decides_over_an_ex_date_as_it_does_live(*, why_slow: bool) -> None:
    live = _live()

    decided = _over_the_ex_date(why_slow=why_slow)

    today = [each for each in decided if each[0] == DAY]
    silent, traded = today[:SILENT], today[SILENT : SILENT + len(PRICES)]
    assert traded == live
    assert [says for *_, says in live] == ["below", "above", "above", "below", "above"]
    assert {(close, says) for _, close, _, says in silent} == {(27_000, "below")}


def test_the_bar_of_the_whole_day_before_is_put_on_the_level_too() -> None:
    class Daily(Strategy):
        def on_bar(self, bar: BarView) -> None:
            seen.append((bar.close, float(bar.sma(2))))

    seen = list[tuple[int, float]]()
    days = [date(2026, 11, 17), BEFORE, DAY, date(2026, 11, 20)]
    prices = [29_000, 30_000, 27_300, 27_300]
    bars = [bar("14:20", price, day=day) for day, price in zip(days, prices, strict=True)]
    source = Written(bars, frames={DAY: DayFrame(ex_ratio=0.9)})

    backtest(Daily, [], source=source, first=days[0], wake=DAILY)

    assert seen[1:] == [(30_000, 29_500.0), (27_300, (27_000 + 27_300) / 2)]


@pytest.mark.parametrize("why_slow", ["", "as asked"])
def test_an_ex_date_on_the_second_day_of_a_backtest_puts_the_first_bar_on_its_level(
    *, why_slow: str
) -> None:
    class Daily(Strategy):
        def on_bar(self, bar: BarView) -> None:
            seen.append((bar.close, float(bar.sma(2))))

    seen = list[tuple[int, float]]()
    days = [BEFORE, DAY, date(2026, 11, 20)]
    bars = [
        bar("14:20", price, day=day)
        for day, price in zip(days, (30_000, 27_300, 27_300), strict=True)
    ]
    source = Written(bars, frames={DAY: DayFrame(ex_ratio=0.9)})

    backtest(Daily, [], source=source, first=BEFORE, wake=DAILY, why_slow=why_slow)

    assert seen[1:] == [(27_300, (27_000 + 27_300) / 2)]


def test_a_move_to_another_exchange_leaves_the_bars_of_before_as_they_are() -> None:
    seen = list[float]()

    class Seen(Strategy):
        def on_bar(self, bar: BarView) -> None:
            if bar.volume:
                seen.append(float(bar.sma(3)))

    days = date(2025, 1, 16), date(2025, 1, 17)
    bars = [bar(f"14:{minute}", 21_000, symbol="BSR", day=days[0]) for minute in range(20, 28)]
    bars += [bar("09:15", 24_000, symbol="BSR", day=days[1])]

    backtest(Seen, bars, first=days[0], exchange=Exchange.UPCOM)

    assert seen[-1] == (21_000 + 21_000 + 24_000) / 3


def test_a_first_day_before_a_move_is_no_move() -> None:
    days = date(2025, 1, 3), date(2025, 1, 6)
    bars = [bar("14:20", 21_000, symbol="BSR", day=day) for day in days]

    # what is known of a symbol is where the last day has it
    result = backtest(Strategy, bars, first=days[1], exchange=Exchange.HOSE)

    assert "moved to" not in " ".join(result.assumptions)


@pytest.mark.parametrize("why_slow", ["", "as asked"])
@pytest.mark.parametrize(
    ("reference", "price"),
    [
        (25_650, 25_000),  # a dividend of 5 % whose ratio the data does not name
        (28_000, 29_000),  # bars without the closing auction
    ],
)
def test_where_the_data_has_another_reference_than_the_last_bars_close_exits_leave(
    reference: int, price: int, *, why_slow: str
) -> None:
    class Exits(Strategy):
        def on_bar(self, bar: BarView) -> None:
            if bar.volume and bar.start.date() == DAY:
                self.sell(100, limit=price, why="stop")

    bars = [bar("14:20", 27_000, day=BEFORE)]
    bars += [bar(f"10:{minute}", price) for minute in range(10, 14)]
    source = Written(bars, frames={DAY: DayFrame(reference=reference)})

    result = backtest(
        Exits, [], source=source, first=BEFORE, holdings={"HPG": 1_000}, why_slow=why_slow
    )

    assert bool(result.why_slow) is bool(why_slow)
    assert sum(fill.quantity for fill in result.fills) == 300


def test_a_fall_of_more_than_the_band_that_the_data_does_not_name_is_still_held() -> None:
    class Exits(Strategy):
        def on_bar(self, bar: BarView) -> None:
            if bar.volume and bar.start.date() == DAY:
                self.sell(100, limit=20_000, why="stop")

    bars = [bar("14:20", 27_000, day=BEFORE), bar("10:10", 20_000), bar("10:11", 20_000)]
    source = Written(bars, frames={DAY: DayFrame(reference=20_000)})

    result = backtest(Exits, [], source=source, first=BEFORE, holdings={"HPG": 1_000})

    assert {each.code for each in result.decisions} == {"HELD_DATA"}


@pytest.mark.parametrize(
    ("symbol", "reference"),
    [
        ("ACV", None),
        ("ACV", 9_900),  # UPCOM: the average of the day before was 10,400
        ("HPG", 9_500),
    ],
)
def test_the_fall_that_is_paid_counts_from_the_close(symbol: str, reference: int | None) -> None:
    bars = [
        bar("10:00", 10_400, volume=1_000_000, day=BEFORE, symbol=symbol),
        bar("14:20", 10_000, day=BEFORE, symbol=symbol),
        bar("10:00", 9_900, symbol=symbol),
    ]
    source = Written(bars, frames={DAY: DayFrame(reference=reference, ex_ratio=0.95)})

    result = backtest(Strategy, [], source=source, first=BEFORE, holdings={symbol: 1_000})

    assert any("the 500 VND that a share fell by were paid" in e for e in result.assumptions)
    assert result.equity[-1].cash == 100_000_000 + 1_000 * 500


@pytest.mark.parametrize(("reference", "level"), [(None, 10_400), (10_200, 10_200)])
def test_a_upcom_share_is_flat_at_the_reference_of_its_data_first(
    reference: int | None, level: int
) -> None:
    closes = list[int]()

    class Sees(Strategy):
        def on_bar(self, bar: BarView) -> None:
            closes.append(bar.close)

    day = date(2026, 11, 19)
    bars = [
        bar("10:00", 10_400, volume=1_000_000, day=date(2026, 11, 18), symbol="ACV"),
        bar("14:59", 10_000, volume=100, day=date(2026, 11, 18), symbol="ACV"),
        bar("09:10", 10_000, volume=1_000, day=day, symbol="ACV"),
    ]
    source = Written(bars, frames={day: DayFrame(reference=reference)})

    backtest(Sees, [], source=source, exchange=Exchange.UPCOM, first=day)

    assert closes[:11] == [level] * 10 + [10_000]
