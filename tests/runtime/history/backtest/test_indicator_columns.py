"""Indicators over columns are those of the bars one by one: the same floats, bit for bit."""

import struct

from hypothesis import given, settings
from hypothesis import strategies as st

from bot.engine.indicators import FUNCTIONS, IndicatorSet
from bot.runtime.history.backtest.indicator_columns import IndicatorColumns
from bot.strategy import Indicator

READS = st.tuples(st.sampled_from(sorted(FUNCTIONS)), st.integers(2, 12))


def bits(value: Indicator) -> bytes:
    return struct.pack("dd", value, value.previous)


@settings(max_examples=60, deadline=None)
@given(
    closes=st.lists(st.integers(1_000, 90_000), min_size=1, max_size=120),
    spans=st.lists(st.integers(1, 40), min_size=1, max_size=40),
    reads=st.dictionaries(st.integers(0, 120), st.lists(READS, max_size=4), max_size=40),
    skips=st.sets(st.integers(0, 120)),
)
def test_a_column_says_what_the_bars_one_by_one_do(
    closes: list[int],
    spans: list[int],
    reads: dict[int, list[tuple[str, int]]],
    skips: set[int],
) -> None:
    # Spans of bars are looked ahead at; some bars are moved over instead of being taken.
    one_by_one, columns = IndicatorSet(), IndicatorColumns()
    left, bar = list(spans), 0

    while bar < len(closes):
        span = left.pop() if left else 7
        columns.look_ahead(closes[bar : bar + span])
        for close in closes[bar : bar + span]:
            one_by_one.update(close)
            if bar in skips:
                columns.at += 1
            else:
                columns.update(close)
            for name, period in reads.get(bar, ()):
                expected, found = one_by_one.read(name, period), columns.read(name, period)

                assert bits(found) == bits(expected), (bar, name, period)
            bar += 1


def test_an_indicator_begun_late_knows_no_more_than_the_bars_that_are_kept() -> None:
    # EMA and RSI depend on where they begin: both begin on the last 5,002 closes.
    closes = [20_000 + 50 * (number * number % 97) for number in range(5_400)]
    one_by_one, columns = IndicatorSet(), IndicatorColumns()
    columns.look_ahead(closes[:5_200])

    for number, close in enumerate(closes):
        if number == 5_200:
            columns.look_ahead(closes[5_200:])
        one_by_one.update(close)
        columns.update(close)
        if number in {5_100, 5_300, 5_399}:
            for read in (("ema", 400), ("rsi", 30), ("sma", 5_000), ("rsi", 5_000)):
                assert bits(columns.read(*read)) == bits(one_by_one.read(*read)), (number, read)


def test_closes_before_an_ex_date_are_the_same_in_a_column() -> None:
    closes = [20_000 + 50 * (number * number % 97) for number in range(60)]
    one_by_one, columns = IndicatorSet(), IndicatorColumns()
    for close in closes[:40]:
        one_by_one.update(close)
        columns.update(close)
    columns.look_ahead(closes[40:])
    one_by_one = one_by_one.begun_again(0, 0.961_3)
    columns.begun_again(0, 0.961_3)

    for close in closes[40:]:
        one_by_one.update(close)
        columns.update(close)
        for name in FUNCTIONS:
            assert bits(columns.read(name, 14)) == bits(one_by_one.read(name, 14))
