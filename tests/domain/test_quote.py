"""When bars begin and end."""

from datetime import UTC, datetime, timedelta

import pytest

from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.quote import Bar, span_of, widened

MINUTE = timedelta(minutes=1)
HOUR = 60 * MINUTE


def _local(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-11-19T{text}").replace(tzinfo=EXCHANGE_TZ).astimezone(UTC)


@pytest.mark.parametrize(
    ("at", "width", "start", "end"),
    [
        ("09:15:00", MINUTE, "09:15", "09:16"),
        ("11:29:59", MINUTE, "11:29", "11:30"),
        ("14:45:00", 5 * MINUTE, "14:45", "14:50"),
        ("09:59:59", HOUR, "09:00", "10:00"),
        ("11:10:00", HOUR, "11:00", "12:00"),
        ("11:10:00", 2 * HOUR, "11:00", "13:00"),
        ("13:00:00", 2 * HOUR, "13:00", "15:00"),
        ("11:29:00", 90 * MINUTE, "10:30", "12:00"),
        ("11:29:00", 4 * HOUR, "09:00", "13:00"),
        ("13:00:00", 4 * HOUR, "13:00", "15:00"),
        ("11:20:00", 45 * MINUTE, "11:15", "12:00"),
        ("13:44:59", 45 * MINUTE, "13:00", "13:45"),
        ("10:00:00", 12 * HOUR, "09:00", "13:00"),
    ],
)
def test_a_bar_holds_no_two_parts_of_a_day(at: str, width: timedelta, start: str, end: str) -> None:
    assert span_of(_local(at), width) == (_local(start), _local(end))


@pytest.mark.parametrize("at", ["09:00:00", "11:45:00", "14:45:00"])
def test_a_bar_of_a_day_is_of_the_local_day_and_ends_when_the_exchanges_close(at: str) -> None:
    assert span_of(_local(at), 24 * HOUR) == (_local("00:00"), _local("15:00"))


def _bar(text: str, close: int, volume: int) -> Bar:
    return Bar("HPG", _local(text), 60, close - 10, close + 20, close - 30, close, volume)


def test_wider_bars_are_made_of_narrower_ones() -> None:
    minutes = [_bar("11:28", 100, 1), _bar("11:29", 110, 2), _bar("13:00", 90, 3)]

    assert list(widened(minutes, HOUR)) == [
        Bar("HPG", _local("11:00"), 3_600, 90, 130, 70, 110, 3),
        Bar("HPG", _local("13:00"), 3_600, 80, 110, 60, 90, 3),
    ]
    assert list(widened(minutes, 24 * HOUR)) == [
        Bar("HPG", _local("00:00"), 86_400, 90, 130, 60, 90, 6)
    ]
    assert list(widened([], HOUR)) == []
