"""The line that says that the bot lives, and how."""

from dataclasses import replace
from datetime import timedelta

from bot.clock import SimulatedClock
from bot.domain.entry import RunState
from bot.domain.instrument import Phase
from bot.engine.status import BotStatus
from bot.runtime.pulse import Pulse, Trouble
from tests.engine.stage import START, Stage

MINUTES = timedelta(minutes=5)


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
