"""What the page of metrics counts."""

from datetime import UTC, datetime

from bot.domain.entry import Note
from bot.domain.operations import DiskSeen
from bot.engine.health import LOW_BYTES
from bot.runtime.health.readings import LABELS_MAX, Counts, exposed, labelled
from tests.engine.stage import Stage

NOW = datetime(2026, 11, 19, 2, 30, tzinfo=UTC)


def alert(code: str) -> Note:
    return Note(NOW, "ALERT", "something", {"alert": code})


def test_alerts_of_the_engine_are_counted_by_code_and_other_notes_are_not() -> None:
    counts, stage = Counts(), Stage()
    stage.handle(DiskSeen(stage.now, LOW_BYTES - 1))
    stage.handle(DiskSeen(stage.now, LOW_BYTES))
    stage.handle(DiskSeen(stage.now, LOW_BYTES - 1))

    for note in stage.all(Note):
        counts.see(note)

    assert dict(counts.alerts) == {"DISK_LOW": 2}
    assert counts.notes["RESUME"] == 1


def test_a_timer_that_was_missed_counts_as_an_alert_and_another_job_does_not() -> None:
    counts = Counts()

    counts.see(Note(NOW, "MISSED", "14:20 was not run", {"alert": "TIMER_MISSED"}))
    counts.see(Note(NOW, "MISSED", "the nightly copy was not run", {}))

    assert dict(counts.alerts) == {"TIMER_MISSED": 1}


def test_codes_without_end_are_told_apart_up_to_a_bound() -> None:
    counts = Counts()

    for number in range(LABELS_MAX + 7):
        counts.see(alert(f"CODE_{number}"))

    assert (len(counts.alerts), counts.alerts["other"]) == (LABELS_MAX + 1, 7)


def test_a_large_count_with_a_label_keeps_its_last_digit() -> None:
    page = exposed([labelled("x_total", "counter", "X.", "code", {"A": 1_234_567.0})])

    assert page.splitlines()[-1] == 'x_total{code="A"} 1234567'
