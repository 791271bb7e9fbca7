"""What `bot reconcile` is told of the reads that it compares."""

from datetime import datetime, timedelta

import pytest

from bot.domain.instrument import EXCHANGE_TZ, Exchange, Phase
from bot.runtime.control.status import reads_every, unread_fields
from bot.runtime.read_health import ACCOUNT, BOOK
from tests.engine.stage import RULEBOOK

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


@pytest.mark.parametrize(
    ("clock", "phase", "minutes"),
    [
        ((8, 59, 59), Phase.CLOSED, 15),
        ((9, 0, 20), Phase.OPEN, 15),
        ((9, 2, 59), Phase.OPEN, 15),
        ((9, 3, 0), Phase.OPEN, 1),
        ((11, 31, 0), Phase.BREAK, 1),
        ((13, 0, 20), Phase.PROGRESS, 1),
        ((14, 30, 20), Phase.PRE_CLOSED, 1),
        ((15, 0, 20), Phase.CLOSED, 15),
    ],
)
def test_a_read_of_before_the_opening_is_not_overdue_at_once(
    clock: tuple[int, int, int], phase: Phase, minutes: int
) -> None:
    hour, minute, second = clock
    now = NOW.replace(hour=hour, minute=minute, second=second)

    assert reads_every({Exchange.HOSE: phase}, RULEBOOK, now) == minutes * MINUTE


def test_a_read_that_was_missed_before_the_opening_is_overdue_after_it() -> None:
    now = NOW.replace(hour=9, minute=0, second=20)
    every = reads_every({Exchange.HOSE: Phase.OPEN}, RULEBOOK, now)
    read = {ACCOUNT: now - timedelta(minutes=15), BOOK: now - timedelta(minutes=46)}

    assert [row["read"] for row in unread_fields(read, {}, every=every, now=now)] == [BOOK]
