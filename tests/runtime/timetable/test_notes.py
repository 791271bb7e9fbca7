"""The pulse, and what is said about jobs that run late or not at all."""

from dataclasses import replace
from datetime import UTC, datetime, time, timedelta

import pytest

from bot.clock import SimulatedClock
from bot.domain.entry import RunState
from bot.domain.instrument import Phase
from bot.domain.operations import Action, OperatorActed
from bot.domain.outcome import Unknown
from bot.engine.status import BotStatus
from bot.runtime.supervisor import Trouble
from bot.runtime.timetable.notes import MissedRuns, Pulse, overlap_note
from bot.runtime.timetable.schedule import Firing, Job, Timetable, WhenMissed, daily_at, every
from tests.cli.telling.told_whole import require_whole
from tests.engine.stage import Stage

MINUTES = timedelta(minutes=5)
START = datetime(2026, 11, 19, 7, 20, tzinfo=UTC)  # 14:20 in Vietnam
WOKE = START + timedelta(minutes=40)
SLEPT = "the machine slept"


def status(**changes: object) -> BotStatus:
    """A bot with one strategy that is on, in continuous trading."""
    stage = Stage()
    stage.quote()
    return replace(stage.engine.status(), **changes)  # type: ignore[arg-type]


def texts(*seen: BotStatus) -> list[str]:
    """What a pulse every five minutes says."""
    pulse = Pulse()
    return [pulse.beat(each, each.at + n * MINUTES).text for n, each in enumerate(seen)]


def test_a_pulse_tells_what_was_counted_since_the_one_before() -> None:
    first = status(counts={"quotes": 10, "skips": 3})

    assert texts(first, replace(first, counts={"quotes": 11, "skips": 5})) == [
        "1 on, 0 open · 10 quotes, 3 skips",
        "1 on, 0 open · 1 quote, 2 skips",
    ]


def test_a_pulse_tells_how_much_of_the_market_was_passed_over_since_the_one_before() -> None:
    pulse, seen = Pulse(), status(counts={"quotes": 10})

    first, second, third = (pulse.beat(seen, seen.at, passed_over=n) for n in (3, 3, 8))

    assert first.text == "1 on, 0 open · 10 quotes, 3 passed over for newer"
    assert "passed over" not in second.text
    assert third.text.endswith("5 passed over for newer")
    assert third.numbers["passed_over"] == 5


def test_the_counts_of_a_new_day_begin_again() -> None:
    first = status(counts={"quotes": 10})

    assert texts(first, replace(first, counts={"quotes": 2}))[1] == "1 on, 0 open · 2 quotes"


def test_a_pulse_after_a_halt_does_not_say_that_strategies_are_on() -> None:
    told = texts(status(state=RunState.HALTED, counts={"quotes": 10}))

    assert told == ["HALTED, no new orders, 0 open · 10 quotes"]


@pytest.mark.parametrize("outcome", [None, Unknown("no complete answer")])
def test_a_pulse_counts_an_order_without_an_answer_that_is_known(outcome: Unknown | None) -> None:
    stage = Stage()
    intent = stage.buy()
    stage.send(intent)
    if outcome is not None:
        stage.answer(intent, outcome)
    stage.handle(OperatorActed(stage.now, Action.STOP, "SIGTERM", "signal"))

    [told] = texts(replace(stage.engine.status(), counts={"quotes": 10}))

    lost = "with an outcome not known" if outcome else "being sent"
    assert told == f"STOPPING, no new orders, 0 open, 1 {lost} · 10 quotes"


def test_a_feed_that_has_dried_up_is_not_called_quiet() -> None:
    awake = status(counts={"quotes": 10}, phases={"HOSE": Phase.PROGRESS})

    assert texts(awake, awake, awake)[1:] == [
        "1 on, 0 open · no data for 5 min",
        "1 on, 0 open · no data for 10 min",
    ]


def test_where_no_data_is_due_a_pulse_says_why() -> None:
    lunch = status(counts={}, phases={"HOSE": Phase.BREAK})
    evening = status(counts={}, phases={"HOSE": Phase.CLOSED, "UPCOM": Phase.CLOSED})

    told = ["1 on, 0 open · lunch break", "1 on, 0 open · closed"]
    assert texts(lunch, evening) == told


def test_a_strategy_without_its_history_says_what_it_waits_for() -> None:
    seen = status(counts={"quotes": 10})
    warming = replace(seen.strategies[0], state="warming", reason="waiting for 20 bars (7 so far)")
    told = texts(replace(seen, strategies=(warming,)))

    assert told == ["1 waiting for 20 bars (7 so far), 0 open · 10 quotes"]


def test_a_trouble_is_known_from_its_begin_to_its_end() -> None:
    clock, shown = SimulatedClock(START), list[str]()
    trouble = Trouble(clock.now, shown.append)

    trouble.begin("the disk is full")
    clock.advance_to(START + timedelta(minutes=1))
    trouble.begin("the disk is away")
    while_it_lasts = (trouble.text, trouble.since)
    trouble.end("the disk is back")

    assert while_it_lasts == ("the disk is away", START)
    assert (trouble.text, trouble.since) == ("", None)
    assert shown == ["the disk is full", "the disk is away", "the disk is back"]


def nothing(_due: datetime) -> None:
    pass


def poll(name: str) -> Job:
    return Job(name, every(timedelta(seconds=5), start=START), nothing)


def firings(*jobs: Job, now: datetime = WOKE) -> list[Firing]:
    return list(Timetable(jobs, START).fire_due(now))


def test_a_sleep_over_the_closing_auction_is_a_row_for_the_timer_and_one_for_all_polls() -> None:
    timer = Job(
        "timer sma 14:40:00", daily_at(time(14, 40)), nothing, timedelta(0), WhenMissed.LIST
    )

    notes = MissedRuns().notes(firings(poll("quote FPT"), timer, poll("quote HPG")), SLEPT, WOKE)

    require_whole("TIMER_MISSED", notes[0].text)
    assert [note.text.partition(". ")[0] for note in notes] == [
        "timer sma 14:40:00, due 14:40:00: not run: the machine slept",
        "quote FPT and 1 other: 960 runs missed, 14:20:00 to 15:00:00: the machine slept",
    ]
    assert notes[0].numbers == {
        "alert": "TIMER_MISSED",
        "job": "timer sma 14:40:00",
        "first": "2026-11-19T07:40:00+00:00",
        "last": "2026-11-19T07:40:00+00:00",
        "count": 1,
        "why": SLEPT,
        "then": "not run",
    }
    assert "alert" not in notes[1].numbers


def test_what_runs_late_instead_is_no_alert() -> None:
    end = Job("day's end", daily_at(time(14, 40)), nothing, timedelta(0), WhenMissed.RUN_ONCE)

    [note] = MissedRuns().notes(firings(end), SLEPT, WOKE)

    assert note.text == "day's end, due 14:40:00: run once, late: the machine slept"
    assert "alert" not in note.numbers


def test_polls_that_come_late_again_and_again_are_told_once_a_minute_with_their_count() -> None:
    missed, told = MissedRuns(), list[str]()

    for second in range(10, 100, 10):
        now = START + timedelta(seconds=second)
        notes = missed.notes(firings(poll("quote FPT"), now=now)[:1], "busy", now)
        told += [note.text.partition(" runs")[0] for note in notes]

    assert told == ["quote FPT: 2", "quote FPT: 54"]


def test_a_run_that_is_late_and_still_good_is_told_as_late() -> None:
    day = Job("day", daily_at(time(14, 30)), nothing)

    notes = MissedRuns().notes(firings(day), SLEPT, WOKE)

    assert [(note.kind, note.text) for note in notes] == [
        ("SCHEDULE", "day came 1800.0 s late: the machine slept")
    ]
    assert notes[0].numbers == {
        "job": "day",
        "first": "2026-11-19T07:30:00+00:00",
        "last": "2026-11-19T07:30:00+00:00",
        "count": 1,
        "why": SLEPT,
        "then": "run, 1800.0 s late",
    }


def test_what_is_late_within_a_minute_of_late_polls_is_told_all_the_same() -> None:
    missed, day = MissedRuns(), Job("day", daily_at(time(14, 20, 30)), nothing)
    missed.notes(firings(poll("quote FPT"), now=START + timedelta(seconds=15)), "busy", START)

    soon = START + timedelta(seconds=40)
    notes = missed.notes(firings(day, poll("quote FPT"), now=soon), "busy", soon)
    later = START + timedelta(seconds=80)
    held_back = missed.notes(firings(poll("quote FPT"), now=later)[:1], "busy", later)

    assert [note.text for note in notes] == ["day came 10.0 s late: busy"]
    assert [note.numbers["count"] for note in held_back] == [8 + 16]


def test_late_polls_are_one_row_with_their_count() -> None:
    late = START + timedelta(seconds=3)

    notes = MissedRuns().notes(
        firings(poll("quote FPT"), poll("quote HPG"), now=late), "busy", late
    )

    assert [(note.text, note.numbers["count"]) for note in notes] == [
        ("quote FPT and 1 other came 3.0 s late: busy", 2)
    ]


def test_a_run_that_the_last_one_kept_away_is_told() -> None:
    note = overlap_note(poll("reconcile"), START, START)

    assert note.text == "reconcile, due 14:20:00: not run: the run before is still under way"


def test_what_a_short_trouble_has_held_back_is_told_though_nothing_is_late_again() -> None:
    missed = MissedRuns()
    missed.notes(firings(poll("quote FPT"), now=START + timedelta(seconds=15)), "busy", START)
    soon, pulse = START + timedelta(seconds=40), START + timedelta(minutes=5)

    held_back = missed.notes(firings(poll("quote FPT"), now=soon), "stood still", soon)
    told = missed.notes((), "", pulse)
    again = missed.notes((), "", pulse + timedelta(minutes=5))

    assert (held_back, again) == ([], [])
    assert [(note.numbers["count"], note.numbers["why"]) for note in told] == [(8, "stood still")]
