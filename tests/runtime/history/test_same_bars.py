"""The same trades give the same bars: built live from quotes, read for warm-up, in a backtest."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Final

import pytest

from bot.config.rulebook import load_rulebook, load_symbols
from bot.domain.instrument import EXCHANGE_TZ, Exchange, Instrument, Phase
from bot.domain.quote import Bar, Quote, span_of, widened
from bot.engine.bars import Bars
from bot.engine.market import BAR_PHASES, STILL_PHASES
from bot.protocol.values.series import PriceBar, PriceHistory
from bot.runtime.history.backtest.market import Market
from bot.runtime.history.store.bar_writing import write_bars
from bot.runtime.history.store.store import ListedBars
from bot.runtime.history.warming.sources import StoredBars, checked, filled

RULES: Final = load_rulebook()
HPG: Final = Instrument("HPG", Exchange.HOSE)
DAY: Final = date(2026, 11, 19)
TEN: Final = timedelta(seconds=10)
MINUTE: Final = timedelta(minutes=1)
FIVE: Final = timedelta(minutes=5)

Trade = tuple[datetime, int, int]
"""When, at what price, how many shares."""


def _at(clock: str) -> datetime:
    return datetime.fromisoformat(f"{DAY} {clock}").replace(tzinfo=EXCHANGE_TZ).astimezone(UTC)


def _trades(seed: int) -> list[Trade]:
    """A day: an opening auction, trades with pauses of up to ten minutes, a closing auction."""
    random, price = Random(seed), 27_000
    made = [(_at("09:15"), price, 5_000)]
    for begin, end in (("09:15:20", "11:29:30"), ("13:00:10", "14:29:30")):
        at = _at(begin)
        while at < _at(end):
            price += random.choice((-50, 0, 50))
            made.append((at, price, 100 * random.randint(1, 9)))
            at += random.choice((TEN, 4 * TEN, MINUTE * 3, MINUTE * 10))
    return [*made, (_at("14:45"), price + 100, 8_000)]


def _minutes(trades: Sequence[Trade]) -> list[Bar]:
    ticks = (
        Bar("HPG", at.replace(second=0), 60, price, price, price, price, volume)
        for at, price, volume in trades
    )
    return list(widened(ticks, MINUTE))


def _live(trades: Sequence[Trade], width: timedelta) -> list[Bar]:
    """Poll every ten seconds, as the engine takes quotes in."""
    bars, found, left = Bars(), list[Bar](), list(trades)
    bars.want("HPG", width)
    at, last, volume = _at("09:00"), 26_900, 0
    while at < _at("15:00"):
        while left and left[0][0] <= at:
            _, last, more = left.pop(0)
            volume += more
        phase = RULES.phase_at(Exchange.HOSE, at)
        quote = Quote("HPG", Exchange.HOSE, last, None, None, None, None, None, None, volume, None)
        found += [bar for _, bar in bars.ended(at)]
        if phase in BAR_PHASES:
            bars.add(at, quote)
        elif phase in STILL_PHASES:
            bars.look(at, quote, forms=phase is not Phase.OPEN)
        at += TEN
    return [*found, *(bar for _, bar in bars.ended(at))]


def _warmed(trades: Sequence[Trade], width: timedelta) -> list[Bar]:
    """What the broker's history call makes of its rows of five minutes."""
    rows = []
    for bar in widened(_minutes(trades), FIVE):
        prices = map(Decimal, (bar.open, bar.high, bar.low, bar.close, bar.volume))
        rows.append(PriceBar(bar.start, *prices))
    bars = checked(RULES, HPG, PriceHistory("HPG", tuple(rows)), FIVE, _at("15:00"))
    return list(widened(filled(RULES, HPG, bars, FIVE)[0], width))


async def _stored(trades: Sequence[Trade], width: timedelta, folder: Path) -> list[Bar]:
    """What the store makes of minutes."""
    write_bars(
        folder / "bars" / "1m" / "HPG.csv.gz", ListedBars(_minutes(trades)).chunks("HPG", DAY, DAY)
    )
    found = await StoredBars(folder, RULES).read(HPG, width, 300, _at("15:00"))
    assert found is not None
    return list(found.bars)


def _tested(trades: Sequence[Trade], width: timedelta) -> list[Bar]:
    """What a strategy is shown in a backtest over minutes."""
    bars = _minutes(trades)
    day_after = replace(bars[0], start=bars[0].start + timedelta(days=1))  # shows bars of a day
    source = ListedBars([*bars, day_after])
    market = Market(RULES, load_symbols(), source, {"HPG": [width]}, {"HPG": HPG})
    days = market.days(DAY, DAY + timedelta(days=1))
    instants = (day.instant(second) for day in days for second in day.seconds)
    shown = (bar for instant in instants for bar in (*instant.shown, *instant.held))
    return [bar for bar in shown if bar.start < _at("15:00")]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("minutes", [1, 5, 45, 60, 240, 1_440])
async def test_live_warm_up_and_backtest_have_the_same_bars(
    minutes: int, seed: int, tmp_path: Path
) -> None:
    trades, width = _trades(seed), timedelta(minutes=minutes)

    live = _live(trades, width)

    assert live[-1].close == trades[-1][1]
    assert sum(bar.volume for bar in live) == sum(volume for *_, volume in trades)
    assert all(span_of(bar.start, width)[0] == bar.start for bar in live)
    assert _tested(trades, width) == live
    assert await _stored(trades, width, tmp_path) == live
    if width >= FIVE:
        assert _warmed(trades, width) == live


@pytest.mark.parametrize("minutes", [1, 5, 60])
async def test_bars_stamped_beside_their_session_count_in_it_also_for_a_warm_up(
    minutes: int, tmp_path: Path
) -> None:
    clocks = ("09:14", "09:15", "09:16", "11:28", "11:30", "12:59", "13:01", "14:29", "14:45")
    prices = range(27_000, 27_000 + 50 * len(clocks), 50)
    trades = [(_at(clock), price, 1_000) for clock, price in zip(clocks, prices, strict=True)]
    width = timedelta(minutes=minutes)

    stored = await _stored(trades, width, tmp_path)

    assert stored == _tested(trades, width)
    assert not {_at("09:14"), _at("11:30"), _at("12:59")} & {bar.start for bar in stored}


def test_a_row_that_the_broker_stamps_at_the_end_of_a_session_is_of_its_last_bar() -> None:
    clocks = ("11:20", "11:25", "11:30", "13:00", "14:45")
    trades = [(_at(clock), 27_000 + 50 * at, 1_000) for at, clock in enumerate(clocks)]

    warmed = _warmed(trades, FIVE)

    assert warmed == [bar for bar in _tested(trades, FIVE) if bar.start >= _at("11:20")]
    assert [bar.volume for bar in warmed][:2] == [1_000, 2_000]


def _of_acv(clock: str, price: int, volume: int, days: int = 0) -> Bar:
    start = _at(clock) - timedelta(days=days)
    return Bar("ACV", start, 300, price, price, price, price, volume)


def test_before_its_first_trade_a_upcom_share_is_flat_at_its_reference() -> None:
    acv = Instrument("ACV", Exchange.UPCOM)
    before = [_of_acv("10:00", 54_000, 100_000, 1), _of_acv("14:55", 52_000, 100, 1)]
    today = [_of_acv("09:40", 52_100, 500), _of_acv("09:55", 52_100, 500)]
    reference = 54_000  # of 53,998
    bars, live, at = Bars(), list[Bar](), _at("09:00")
    bars.want("ACV", FIVE)

    while at <= _at("10:00"):
        traded = [bar for bar in today if bar.start <= at]
        last, volume = traded[-1].close if traded else reference, sum(b.volume for b in traded)
        live += [bar for _, bar in bars.ended(at)]
        others = (None, None, None, None, None, volume, None)
        bars.add(at, Quote("ACV", Exchange.UPCOM, last, reference, *others))
        at += TEN
    warmed = filled(RULES, acv, [*before, *today], FIVE)[0]
    source = ListedBars([*before, *today], width=FIVE)
    market = Market(RULES, load_symbols(), source, {"ACV": [FIVE]}, {"ACV": acv})
    days = market.days(DAY - timedelta(days=1), DAY)
    tested = [bar for day in days for second in day.seconds for bar in day.instant(second).shown]

    assert [bar.close for bar in live] == [reference] * 8 + [52_100] * 4
    for found in (warmed, tested):
        assert [bar for bar in found if _at("09:00") <= bar.start < _at("10:00")] == live
