"""What happened, in order of time, on both databases."""

from bot.domain.entry import REDUCED_SCOPE, AuthEvent, Note, RunState, StateChanged
from bot.journal.journal import Journal
from bot.journal.reading.events import EventKind, events
from tests.journal.facts import after

YESTERDAY = -86_400


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
