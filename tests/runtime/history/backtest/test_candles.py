"""Bars put together into candles."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np

from bot.runtime.history.backtest.candles import Candles, candles_of
from bot.runtime.history.bars import BarColumns
from tests.backtest_results import FIRST, WavyBars, at

MIDNIGHT = int(at(FIRST, "07:00").timestamp())
"""Of the first day, in exchange-local seconds."""


@dataclass(frozen=True)
class Chunked(WavyBars):
    """Seven minutes from 09:58 on, in chunks of three."""

    def chunks(self, symbol: str, _first: date, _last: date) -> Iterator[BarColumns]:
        start = int(at(FIRST, "09:58").timestamp()) + 60 * np.arange(7, dtype=np.int64)
        opened = np.array([10, 11, 12, 13, 14, 15, 16])
        high = opened + np.array([5, 0, 0, 9, 0, 0, 0])
        low = opened - np.array([0, 3, 0, 0, 0, 4, 0])
        for part in (slice(0, 3), slice(3, 6), slice(6, 7)):
            columns = (each[part] for each in (start, opened, high, low, opened + 1, opened))
            yield BarColumns(symbol, 60, *columns)


def test_few_bars_are_their_own_candles() -> None:
    found = candles_of(Chunked(), "FPT", FIRST, FIRST, limit=300)

    assert (found.seconds, found.bars, len(found.rows)) == (60, 7, 7)
    assert found.rows[0] == (MIDNIGHT + 9 * 3_600 + 58 * 60, 10, 15, 10, 11)


def test_a_candle_that_two_chunks_share_is_one() -> None:
    found = candles_of(Chunked(), "FPT", FIRST, FIRST + timedelta(days=6), limit=300)

    ten = MIDNIGHT + 36_000
    rows = ((ten - 300, 10, 15, 8, 12), (ten, 12, 22, 11, 17))
    assert found == Candles("FPT", 300, 7, rows)


def test_a_day_begins_at_its_local_midnight() -> None:
    found = candles_of(Chunked(), "FPT", FIRST, FIRST + timedelta(days=365), limit=300)

    assert found == Candles("FPT", 86_400, 7, ((MIDNIGHT, 10, 22, 8, 17),))


def test_a_symbol_without_bars_has_no_candles() -> None:
    assert candles_of(WavyBars(), "HPG", FIRST, FIRST) == Candles("HPG", 60, 0, ())


def test_the_bars_around_a_trade_come_as_they_are() -> None:
    traded = MIDNIGHT + 36_000

    found = candles_of(
        Chunked(), "FPT", FIRST, FIRST + timedelta(days=6), limit=300, around=[traded]
    )

    assert found.near == {
        traded: (
            (traded - 120, 10, 15, 10, 11),
            (traded - 60, 11, 11, 8, 12),
            (traded, 12, 12, 12, 13),
        )
    }
