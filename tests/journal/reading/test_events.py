"""What happened, in order of time, on both databases."""

from datetime import UTC, datetime, timedelta

import pytest

from bot.domain.entry import (
    DAY_NOTE,
    PRUNED_NOTE,
    REDUCED_SCOPE,
    AuthEvent,
    Note,
    RunState,
    StateChanged,
)
from bot.journal.journal import Journal
from bot.journal.reading.events import NOT_COMPARED, EventKind, events, is_day_open
from bot.journal.reading.values import PRUNING
from tests.journal.facts import after

YESTERDAY = -86_400
ENDED = datetime(2026, 11, 19, 8, 15, tzinfo=UTC)  # 15:15 in Vietnam
NIGHT = ENDED + timedelta(hours=12)


async def test_the_last_day_s_story_is_told_of_the_kinds_that_are_asked_for(
    journal: Journal, db_url: str
) -> None:
    lines = (AuthEvent(after(YESTERDAY), "ready", "", "until 23:59"),)
    halt = StateChanged(after(5), RunState.RUNNING, RunState.HALTED, "prices", "operator")
    reduced = StateChanged(
        after(6), RunState.RUNNING, RunState.HALTED, "", "operator", REDUCED_SCOPE
    )
    alert = Note(after(5), "ALERT", "2FA needed", {"alert": "TWO_FACTOR_NEEDED"}, "HPG")
    note = Note(after(6), "PULSE", "nothing to do")
    timer = Note(after(7), "MISSED", "its timer was not run", {"alert": "TIMER_MISSED"})
    job = Note(after(8), "MISSED", "the nightly copy was not run", {"job": "copy"})
    typed = AuthEvent(after(4), "TYPED", "", "a code, by bot otp")
    await journal.write([*lines, alert, halt, reduced, note, typed, timer, job])

    whole = list(events(db_url, [*EventKind]))
    codes = list(events(db_url, [EventKind.TWO_FACTOR], after(YESTERDAY)))

    assert [(row.at, row.kind, row.what, row.code, row.about, row.text) for row in whole] == [
        (after(4), "2fa", "code typed", "", "", "a code, by bot otp"),
        (after(5), "state", "HALTED", "", "", "prices (by operator)"),
        (after(5), "alert", "ALERT", "TWO_FACTOR_NEEDED", "HPG", "2FA needed"),
        (after(6), "state", "REDUCING", "", "entries:all", "(by operator)"),
        (after(7), "alert", "MISSED", "TIMER_MISSED", "", "its timer was not run"),
    ]
    assert [row.what for row in codes] == ["ready", "code typed"]


async def test_a_journal_in_which_nothing_happened_tells_nothing(
    journal: Journal, db_url: str
) -> None:
    await journal.write([Note(after(6), "PULSE", "nothing to do")])

    assert list(events(db_url, [*EventKind])) == []


def _pulse(at: datetime) -> Note:
    return Note(at, "PULSE", "1 on, 0 open")


async def _begin(journal: Journal, at: datetime) -> int:
    return await journal.start_run(at=at, mode="sandbox", version="0.1.0", config_sha256="")


async def test_a_day_is_open_that_a_bot_saw_end_and_did_not_compare(
    journal: Journal, db_url: str
) -> None:
    await _begin(journal, after(0))
    await journal.write([_pulse(ENDED - timedelta(seconds=1))])
    assert not is_day_open(db_url, ENDED, NIGHT), "it was not there"
    await journal.write([Note(ENDED, PRUNED_NOTE, "old rows")])
    assert not is_day_open(db_url, ENDED, NIGHT)

    assert is_day_open(db_url, ENDED, ENDED + timedelta(seconds=40)), "it wrote something else"
    await journal.write([_pulse(ENDED + timedelta(minutes=1)), _pulse(NIGHT)])

    assert is_day_open(db_url, ENDED, NIGHT)


@pytest.mark.parametrize(
    ("kind", "numbers", "is_open"),
    [
        (DAY_NOTE, {"day": "2026-11-19"}, False),
        ("ALERT", {"alert": NOT_COMPARED, "day": "2026-11-19"}, False),
        (DAY_NOTE, {"day": "2026-11-18"}, True),
        ("ALERT", {"alert": NOT_COMPARED, "day": "2026-11-18"}, True),
        ("ALERT", {"alert": "DAY_UNSETTLED", "day": "2026-11-19"}, True),
    ],
)
async def test_what_is_told_of_a_day_closes_that_day_alone(
    journal: Journal, db_url: str, kind: str, numbers: dict[str, str], is_open: bool
) -> None:
    await _begin(journal, after(0))

    await journal.write([_pulse(ENDED), Note(ENDED, kind, "told", dict(numbers))])

    assert is_day_open(db_url, ENDED, ENDED) is is_open


async def test_a_day_is_not_open_to_a_bot_that_began_after_it(
    journal: Journal, db_url: str
) -> None:
    assert not is_day_open(db_url, ENDED, ENDED)
    await journal.end_run(await _begin(journal, after(0)), PRUNING, at=after(1))
    await _begin(journal, ENDED)
    await journal.write([_pulse(NIGHT - timedelta(hours=6)), _pulse(NIGHT)])

    assert not is_day_open(db_url, ENDED, NIGHT)
