from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from bot.protocol import fields as wire
from tests.rows import every_row


def read(kind: Any, value: object) -> Any:
    return TypeAdapter(kind).validate_python(value)


def written(kind: Any, value: object) -> Any:
    return TypeAdapter(kind).dump_python(value, mode="json")


@every_row(
    ("kind", "sent", "found"),
    [
        (wire.Number, "68500.50", Decimal("68500.5")),
        (wire.NumberOrNone, "", None),
        (wire.Vnd, Decimal("10.5"), 11),
        (wire.Vnd, Decimal("-10.5"), -11),
        (wire.Vnd, "25500", 25_500),
        (wire.Truth, "Y", True),
        (wire.Truth, 0, False),
        (wire.Day, "2026-08-21T00:00:00", date(2026, 8, 21)),
        (wire.DayOrNone, "", None),
        (wire.Stamp, "2026-08-21T14:30:15+07:00", datetime(2026, 8, 21, 7, 30, 15, tzinfo=UTC)),
        (wire.Stamp, "2026-08-21T14:30:15", datetime(2026, 8, 21, 7, 30, 15, tzinfo=UTC)),
        (wire.Stamp, "2026-08-21T07:30:15Z", datetime(2026, 8, 21, 7, 30, 15, tzinfo=UTC)),
        (wire.Stamp, "2026-08-21", datetime(2026, 8, 20, 17, tzinfo=UTC)),
        (wire.UnixSeconds, "10", datetime(1970, 1, 1, 0, 0, 10, tzinfo=UTC)),
        (wire.UnixMs, 10_500, datetime(1970, 1, 1, 0, 0, 10, 500_000, tzinfo=UTC)),
        (wire.SlashedDay, "1/8/2026", date(2026, 8, 1)),
        (wire.SlashedDay, "32/8/2026", None),
        (wire.CommaPercent, "4,4%", Decimal("4.4")),
        (wire.CommaPercent, 4, Decimal(4)),
        (wire.CommaPercent, "NaN", None),
        (wire.Texts, ["a", None, 5], ("a",)),
    ],
)
def test_a_field_is_read_in_every_form_that_sources_show(kind, sent, found):
    assert read(kind, sent) == found


@every_row(
    ("kind", "sent"),
    [
        (wire.Number, "1e5"),
        (wire.Number, True),
        (wire.Vnd, 2**70),
        (wire.Vnd, "many"),
        (wire.Truth, []),
        (wire.Day, 20260821),
        (wire.Stamp, "9999-12-31T23:59:59-23:00"),
        (wire.Stamp, "soon"),
        (wire.UnixSeconds, 1_787_191_200_000),
        (wire.UnixMs, -1),
        (wire.Texts, "a"),
    ],
)
def test_nonsense_is_refused(kind, sent):
    with pytest.raises(ValidationError):
        read(kind, sent)


@pytest.mark.parametrize(
    ("kind", "value", "sent"),
    [
        (wire.Number, Decimal("68500.0"), 68_500),
        (wire.Number, Decimal("0.44"), 0.44),
        (wire.Stamp, datetime(2026, 8, 21, 7, 30, 15, tzinfo=UTC), "2026-08-21T14:30:15+07:00"),
        (wire.SlashedDay, date(2026, 8, 1), "1/8/2026"),
        (wire.CommaPercent, Decimal("4.4"), "4,4%"),
        (wire.UnixMs, datetime(1970, 1, 1, 0, 0, 10, 500_000, tzinfo=UTC), 10_500),
    ],
)
def test_a_field_is_written_in_the_form_of_the_document(kind, value, sent):
    found = written(kind, value)

    assert (found, type(found)) == (sent, type(sent))
