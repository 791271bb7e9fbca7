"""What `bot reconcile` is told of the reads that it compares."""

from datetime import datetime, timedelta

from bot.domain.instrument import EXCHANGE_TZ
from bot.runtime.control.status import unread_fields
from bot.runtime.read_health import ACCOUNT, BOOK

NOW = datetime(2026, 10, 19, 10, tzinfo=EXCHANGE_TZ)
MINUTE = timedelta(minutes=1)


def test_a_read_that_is_older_than_three_of_its_periods_is_overdue() -> None:
    reads = {BOOK: NOW - 3 * MINUTE, ACCOUNT: NOW - 3 * MINUTE - timedelta(seconds=1)}

    assert unread_fields(reads, {}, every=MINUTE, now=NOW) == [
        {"read": ACCOUNT, "age_s": 181, "detail": ""}
    ]
    assert unread_fields(reads, {}, every=15 * MINUTE, now=NOW) == []


def test_a_read_that_fails_is_named_however_young_the_last_one_is() -> None:
    reads = {BOOK: NOW, ACCOUNT: None}
    failing = {BOOK: "HTTP 500", ACCOUNT: "timeout", "the quote": "HTTP 500"}

    assert unread_fields(reads, failing, every=MINUTE, now=NOW) == [
        {"read": BOOK, "age_s": 0, "detail": "HTTP 500"},
        {"read": ACCOUNT, "age_s": None, "detail": "timeout"},
    ]
