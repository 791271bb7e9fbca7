"""A history of the broker as the bars that polling would have built, or refused with a reason."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final

import pytest

from bot.config.rulebook import load_rulebook
from bot.domain.instrument import EXCHANGE_TZ, Exchange, Instrument
from bot.domain.quote import Bar
from bot.protocol.values.series import PriceBar, PriceHistory
from bot.runtime.history.warming.sources import (
    asked_for,
    checked,
    filled,
    missing_days,
    resolution_of,
)
from bot.runtime.history.warming.warm_up import UnusableHistory

RULES: Final = load_rulebook()
HPG: Final = Instrument("HPG", Exchange.HOSE)
FIVE: Final = timedelta(minutes=5)
HOUR: Final = timedelta(hours=1)
DAY: Final = timedelta(days=1)


def _local(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=EXCHANGE_TZ).astimezone(UTC)


NOW: Final = _local("2026-11-19T10:02")


def _row(text: str, close: object = 27_000, **more: object) -> PriceBar:
    price = Decimal(str(close))
    prices = {"open": price, "high": price, "low": price, "volume": Decimal(100), **more}
    return PriceBar(_local(text), close=price, **prices)  # type: ignore[arg-type]


def _bars(*rows: PriceBar, step: timedelta = FIVE, symbol: str = "HPG") -> list[Bar]:
    return checked(RULES, HPG, PriceHistory(symbol, rows), step, NOW)


def _flat(text: str, close: int, volume: int = 0) -> Bar:
    return Bar("HPG", _local(text), 300, close, close, close, close, volume)


@pytest.mark.parametrize(
    ("minutes", "asked"),
    [(1, None), (2, None), (5, "5"), (10, "5"), (15, "15"), (45, "15"), (60, "30"), (240, "30")],
)
def test_wide_bars_are_asked_for_by_the_minutes_that_make_them(
    minutes: int, asked: str | None
) -> None:
    found = resolution_of(timedelta(minutes=minutes))

    assert (found and found[0]) == asked
    assert resolution_of(DAY) == ("1D", DAY)


def test_rows_are_bars_in_vnd_whatever_the_scale() -> None:
    thousands = _bars(_row("2026-11-19T09:15", "27.05"), _row("2026-11-19T09:20", "27.1"))
    whole = _bars(_row("2026-11-19T09:15", 27_050), _row("2026-11-19T09:20", 27_100))

    assert thousands == whole
    assert [bar.close for bar in whole] == [27_050, 27_100]


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([_row("2026-11-19T10:05")], "its bar of 2026-11-19 10:05 is of the future"),
        ([_row("2026-11-15T10:05")], "its bar of 2026-11-15 10:05 is of a day without trading"),
        ([_row("2026-09-02T10:05")], "its bar of 2026-09-02 10:05 is of a day without trading"),
        ([_row("2026-11-18T08:55")], "its bar of 2026-11-18 08:55 is of a time without trading"),
        ([_row("2026-11-18T10:03")], "its bar of 2026-11-18 10:03 does not begin on the grid"),
        ([_row("2026-11-18T10:05", 0)], "1 of its rows have no close"),
        ([_row("2026-11-18T10:05", volume=Decimal(-1))], "10:05 has a volume of -1"),
        (
            [_row("2026-11-18T10:05", high=Decimal(26_900))],
            "opens at 27,000 and closes at 27,000 with a low of 27,000 and a high of 26,900",
        ),
        (
            [_row("2026-11-18T10:05", high=Decimal(270_000))],
            "2026-11-18 10:05 has a low of 27,000 and a high of 270,000",
        ),
        (
            [_row("2026-11-18T10:05", volume=Decimal("1e30"))],
            "2026-11-18 10:05 has a figure that no bar can have",
        ),
        (
            [_row("2026-11-18T10:05", Decimal("1e20"))],
            "2026-11-18 10:05 has a figure that no bar can have",
        ),
        (
            [_row("2026-11-18T10:05"), _row("2026-11-18T10:05", 27_050)],
            "it has two bars of 2026-11-18 10:05",
        ),
        (
            [_row("2026-11-18T10:05", 5_000), _row("2026-11-18T10:10", 27_000)],
            "its close goes from 27,000 to 5,000 at 2026-11-18 10:05",
        ),
    ],
)
def test_what_cannot_be_true_refuses_the_whole_history(rows: list[PriceBar], says: str) -> None:
    with pytest.raises(UnusableHistory, match=says):
        _bars(_row("2026-11-18T09:15"), *rows)


def test_what_was_not_asked_for_and_the_bar_of_a_faster_clock_are_left_out() -> None:
    old, last = _row("1970-01-05T10:00"), _row("2026-11-19T10:00")
    next_one, later = _row("2026-11-19T10:03"), _row("2026-11-19T10:05")

    found = asked_for(
        PriceHistory("HPG", (old, last, next_one, later)), NOW - DAY, NOW + timedelta(seconds=59)
    )

    assert found.bars == (last, later)


def test_a_history_of_another_symbol_is_refused() -> None:
    with pytest.raises(UnusableHistory, match="it is of FPT"):
        _bars(_row("2026-11-18T09:15"), symbol="FPT")


def test_a_span_without_a_trade_is_a_flat_bar_in_trading_phases_and_none_at_lunch() -> None:
    rows = [_row("2026-11-18T11:15"), _row("2026-11-18T11:20", 27_100), _row("2026-11-18T13:05")]

    bars, gaps = filled(RULES, HPG, _bars(*rows, step=FIVE), FIVE)

    assert bars == [
        _flat("2026-11-18T11:15", 27_000, 100),
        _flat("2026-11-18T11:20", 27_100, 100),
        _flat("2026-11-18T11:25", 27_100),
        _flat("2026-11-18T13:00", 27_100),
        _flat("2026-11-18T13:05", 27_000, 100),
    ]
    assert gaps == []


def test_the_auctions_are_filled_as_polls_see_them() -> None:
    rows = [_row("2026-11-18T14:25"), _row("2026-11-18T14:45", 27_100), _row("2026-11-19T09:20")]

    bars, _ = filled(RULES, HPG, _bars(*rows), FIVE)

    assert [f"{bar.start.astimezone(EXCHANGE_TZ):%H:%M} {bar.close}" for bar in bars] == [
        "14:25 27000",
        "14:30 27000",
        "14:35 27000",
        "14:40 27000",
        "14:45 27100",
        "09:15 27100",
        "09:20 27000",
    ]


def test_a_part_of_a_day_without_any_row_is_a_gap_and_not_filled() -> None:
    rows = [_row("2026-11-17T14:45"), _row("2026-11-18T13:05"), _row("2026-11-19T09:15")]

    bars, gaps = filled(RULES, HPG, _bars(*rows), FIVE)

    assert gaps == ["gap 2026-11-18 morning"]
    assert not any(bar.start == _local("2026-11-18T10:00") for bar in bars)


@pytest.mark.parametrize(
    ("last", "gaps"),
    [
        (
            "2026-11-17T10:05",
            ["gap 2026-11-17 afternoon", "gap 2026-11-18 morning", "gap 2026-11-18 afternoon"],
        ),
        ("2026-11-18T11:15", ["gap 2026-11-18 afternoon"]),
        ("2026-11-18T14:25", []),
        ("2026-11-19T09:55", []),
    ],
)
def test_a_history_that_ends_too_early_lacks_the_parts_of_days_since(
    last: str, gaps: list[str]
) -> None:
    bars = _bars(_row(last))

    assert filled(RULES, HPG, bars, FIVE, NOW) == (bars, gaps)


def test_trading_days_without_a_row_are_named() -> None:
    rows = [_row(f"2026-11-{day}T00:00") for day in (12, 13, 17, 18)]

    bars = _bars(*rows, step=DAY)

    assert missing_days(RULES.calendar, bars, NOW) == ["gap 2026-11-16"]
    assert missing_days(RULES.calendar, [], NOW) == []
