"""Two gears, one truth: what is found for many more pairs by `python -m …backtest.gears 1000`."""

from dataclasses import replace
from datetime import time, timedelta
from types import MethodType
from typing import ClassVar

import pytest

from bot.config.strategies.invoke import invoke
from bot.domain.entry import Fill
from bot.domain.instrument import Phase
from bot.domain.plan import Wake
from bot.domain.quote import Quote
from bot.runtime.history.bars import DayFrame
from bot.sandbox.markets.mirror.model import FillName
from bot.strategy import BarView, Context, Strategy
from tests.runtime.history.backtest.gears import (
    BUSY,
    DAYS,
    QUIET,
    SLOW,
    difference,
    first_difference,
    main,
    plain_spec_of,
    played,
    spec_of,
)
from tests.runtime.history.backtest.listed import MINUTE, Written, backtest, bar


@pytest.mark.parametrize("seed", [3, 9, 11, 51, 1009])
def test_both_gears_decide_order_and_earn_the_same(seed: int) -> None:
    # Seeds that have found something: timers, bars without a quote, warm-up, auctions,
    # a holder who waits for bars.
    assert difference(spec_of(seed)) == ""


@pytest.mark.parametrize("seed", [1, 2, 4, 7])
def test_both_gears_are_one_where_hooks_are_foreseen(seed: int) -> None:
    assert difference(plain_spec_of(seed)) == ""


@pytest.mark.parametrize("seed", [61, 158, 374, 422])
def test_both_gears_stop_after_the_same_loss(seed: int) -> None:
    spec = (plain_spec_of if seed % 2 else spec_of)(seed)

    slow, fast = played(spec, SLOW), played(spec)

    assert first_difference(slow, fast) == ""
    assert any("lost today" in each for each in slow[0].assumptions)


@pytest.mark.parametrize("seed", [8, 12, 13, 17])
def test_both_gears_are_one_where_much_is_traded(seed: int) -> None:
    spec = (plain_spec_of if seed % 2 else spec_of)(seed, BUSY)

    slow, fast = played(spec, SLOW), played(spec)

    assert first_difference(slow, fast) == ""
    assert slow[0].fills


def test_pairs_that_hardly_trade_prove_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    one_of_three, one_of_one = main(3, 37, shape=QUIET), main(1, 37, shape=QUIET)

    told = capsys.readouterr().out
    assert (one_of_three, one_of_one) == (1, 0)
    assert "1 fills in 1 pairs; 0 of them differ" in told
    assert told.count("TOO LITTLE SHOWN: fewer than half of the pairs have a fill") == 1


def test_a_difference_of_one_tick_in_one_bar_is_found() -> None:
    spec = spec_of(3)
    [symbol] = spec.source.symbols()
    chunks = spec.source.chunks(symbol, spec.first, spec.last)
    bars = [each for chunk in chunks for each in chunk.bars()]
    other = replace(bars[-1], close=bars[-1].close + 50)
    planted = replace(spec, source=Written([*bars[:-1], other], spec.source.width))

    assert first_difference(played(spec, SLOW), played(spec)) == ""
    assert first_difference(played(spec, SLOW), played(planted)) != ""


@pytest.mark.parametrize(("seed", "number"), [(9, 1), (51, 1), (51, 2), (1009, 1)])
def test_both_gears_put_earlier_bars_on_the_level_of_an_ex_date(seed: int, number: int) -> None:
    spec = spec_of(seed)
    source = spec.source
    days = sorted({each for each in DAYS if spec.first <= each <= spec.last})
    bars = [
        each
        for symbol in source.symbols()
        for chunk in source.chunks(symbol, spec.first, spec.last)
        for each in chunk.bars()
    ]
    frames = {days[min(number, len(days) - 1)]: DayFrame(ex_ratio=0.97)}
    goes_ex = replace(spec, source=Written(bars, source.width, frames))

    slow, fast = played(goes_ex, SLOW), played(goes_ex)

    assert first_difference(slow, fast) == ""
    assert len(days) == 1 or first_difference(slow, played(spec)) != ""


class Looker(Strategy):
    def on_bar(self, bar: BarView) -> None:
        assert self.quote is not None
        self.note.append((bar.close, self.quote.last))

    note: ClassVar[list[tuple[int, int]]] = []


@pytest.mark.parametrize("why_slow", [SLOW, ""])
def test_a_price_that_did_not_fall_on_its_ex_date_is_not_believed_in_either_gear(
    why_slow: str,
) -> None:
    bars = [bar(f"09:{minute}", 27_000, day=day) for day in DAYS[3:5] for minute in (20, 21, 22)]
    source = Written(bars, frames={DAYS[4]: DayFrame(ex_ratio=0.9)})
    Looker.note.clear()

    backtest(Looker, [], source=source, first=DAYS[3], why_slow=why_slow)

    assert Looker.note[-1] == (27_000, 24_300)


class RangeLooker(Strategy):
    def on_bar(self, _bar: BarView) -> None:
        assert self.quote is not None
        self.note.append((self.quote.open, self.quote.high, self.quote.low))

    note: ClassVar[list[tuple[int | None, int | None, int | None]]] = []


@pytest.mark.parametrize("prices", [{"open": 40_000}, {"high": 40_000}, {"low": 20_000}])
@pytest.mark.parametrize("why_slow", [SLOW, ""])
def test_a_days_price_outside_its_band_is_not_believed_in_either_gear(
    prices: dict[str, int], why_slow: str
) -> None:
    bars = [bar(f"09:{minute}", 27_000, day=day) for day in DAYS[3:5] for minute in (20, 21, 22)]
    bars[4] = replace(bars[4], **prices)  # type: ignore[arg-type]
    RangeLooker.note.clear()

    backtest(RangeLooker, bars, first=DAYS[3], why_slow=why_slow)

    assert {price for seen in RangeLooker.note for price in seen if price} == {27_000}


class ByQuote(Strategy):
    def on_quote(self, quote: Quote) -> None:
        self.skip(f"{quote.last}")


def test_a_strategy_that_each_quote_wakes_is_played_slowly_and_says_why() -> None:
    bars = [bar(f"09:{minute}", 27_000, day=DAYS[3]) for minute in range(20, 30)]

    by_quote = backtest(ByQuote, bars, wake=Wake(quote=MINUTE))
    by_bar = backtest(Strategy, bars, wake=Wake(bar=timedelta(minutes=5)))

    assert by_quote.why_slow == "ByQuote wakes by each quote (wake.quote), not by bars alone"
    assert by_bar.why_slow == ""


class Keeper(Strategy):
    """Asks bars that it has kept for what needs more history than there is, now and then."""

    def __init__(self, context: Context | None = None) -> None:
        super().__init__(context)
        self.kept: list[BarView] = []

    def on_bar(self, bar: BarView) -> None:
        self.kept.append(bar)
        if len(self.kept) % 9 == 0:
            self.buy(100, why="the next bars are the engine's own")
        elif len(self.kept) % 5 == 0:
            self.kept[-4].sma(5_000)

    def on_fill(self, _fill: Fill) -> None:
        self.kept[-1].sma(5_000)


def test_a_bar_that_was_kept_says_the_same_in_both_gears() -> None:
    bars = [bar(f"{9 + at // 60:02}:{at % 60:02}", 27_000, day=DAYS[3]) for at in range(20, 110)]

    slow = backtest(Keeper, bars, first=DAYS[3], why_slow=SLOW)
    fast = backtest(Keeper, bars, first=DAYS[3])

    assert fast.fills == slow.fills
    assert fast.counts == slow.counts
    assert slow.counts["WARMING"] == 51


class Fractional(Strategy):
    def on_bar(self, bar: BarView) -> None:
        bar.sma(5)
        if bar.start.date() != DAYS[3]:  # its whole column is known by now
            bar.sma(10 / 2)  # type: ignore[arg-type]


def test_a_period_that_is_no_whole_number_is_the_same_fault_in_both_gears() -> None:
    bars = [bar(f"09:{minute}", 27_000, day=day) for day in DAYS[3:5] for minute in range(20, 40)]

    slow, fast = (
        backtest(Fractional, bars, first=DAYS[3], invoke=invoke, why_slow=why) for why in (SLOW, "")
    )

    assert (fast.decisions, fast.counts) == (slow.decisions, slow.counts)
    assert fast.counts["EXCEPTION"] == 3


class Clockwatcher(Strategy):
    def on_bar(self, _bar: BarView) -> None:
        self.buy(100, why=f"{self.now}")


def test_bars_before_the_day_begins_are_shown_at_its_beginning_in_both_gears() -> None:
    bars = [bar(clock, 27_000, day=DAYS[3]) for clock in ("08:00", "08:10", "09:20")]

    slow = backtest(Clockwatcher, bars, first=DAYS[3], why_slow=SLOW)
    fast = backtest(Clockwatcher, bars, first=DAYS[3])

    assert fast.decisions == slow.decisions


def _at_10_200(self: Strategy, bar: BarView) -> None:
    if bar.close == 10_200:
        self.buy(100, market="MTL")


class Silent(Strategy):
    def on_bar(self, bar: BarView) -> None:
        if bar.close > 1_000_000:
            self.buy(100, market="MTL")


class Other(Strategy):
    on_bar = _at_10_200


class PutsInAHook(Silent):
    def on_timer(self, _timer: time) -> None:
        self.on_bar = MethodType(_at_10_200, self)  # type: ignore[method-assign]


class HasNoHookOfItsClass(Strategy):
    def on_timer(self, _timer: time) -> None:
        self.on_bar = MethodType(_at_10_200, self)  # type: ignore[method-assign]


class BecomesAnother(Silent):
    def on_timer(self, _timer: time) -> None:
        self.__class__ = Other  # type: ignore[assignment]


class ChangesItsClass(Silent):
    def on_timer(self, _timer: time) -> None:
        type(self).on_bar = _at_10_200  # type: ignore[method-assign]


class ClosesWrongly(Strategy):
    def on_bar(self, bar: BarView) -> None:
        if bar.close == 10_200:
            self.close(reason="none of its words")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("kind", "acts"),
    [
        (PutsInAHook, True),
        (HasNoHookOfItsClass, False),
        (BecomesAnother, True),
        (ChangesItsClass, True),
        (ClosesWrongly, False),
    ],
)
def test_a_hook_that_takes_another_s_place_is_the_one_that_is_called(
    kind: type[Strategy], acts: bool
) -> None:
    bars = [bar(f"09:{20 + m}", 10_000 + 50 * (m % 5)) for m in range(40)]
    wake = Wake(bar=timedelta(minutes=1), timers=(time(9, 30, 30),))

    slow, fast = (
        backtest(type(kind.__name__, (kind,), {}), bars, wake=wake, invoke=invoke, why_slow=why)
        for why in (SLOW, "")
    )

    assert bool(fast.orders) == acts
    assert fast.orders == slow.orders
    assert (fast.fills, fast.counts) == (slow.fills, slow.counts)


class BuysAtTheClose(Strategy):
    def on_session(self, phase: Phase) -> None:
        if phase is Phase.PRE_CLOSED:
            self.buy(3_000, market="ATC", why="the close")


@pytest.mark.parametrize("fill", ["depth", "queue"])
def test_an_auction_within_a_longer_bar_shares_the_volume_of_that_bar(fill: FillName) -> None:
    hour, volumes = timedelta(hours=1), {"09:00": 100_000, "13:00": 3_000, "14:00": 400_000}
    bars = [replace(bar(at, 27_000, volume=v), seconds=3_600) for at, v in volumes.items()]
    wake = Wake(bar=hour, on_phase=True)

    slow, fast = (
        backtest(BuysAtTheClose, [], source=Written(bars, hour), fill=fill, wake=wake, why_slow=why)
        for why in (SLOW, "")
    )

    assert [(each.quantity, each.price) for each in fast.fills] == [(3_000, 27_000)]
    assert fast.fills == slow.fills
