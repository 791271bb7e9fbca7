"""An ill order route of the broker raises an alert; an answer lost now and then does not."""

from dataclasses import replace
from datetime import timedelta

import pytest

from bot.domain.entry import Note
from bot.domain.message import TradingDayStarted
from bot.domain.order import Intent
from bot.domain.outcome import Accepted, NotSent, Outcome, Refused, Unknown
from bot.domain.recovery import PlaceSeen, Recovery
from tests.engine.orders.test_refusals import _told
from tests.engine.stage import DAY, START, Stage, report_of, result_of

LOST, LATE, GOOD, NO = "lost", "late", "good", "refused"


class Ill:
    """A broker that answers orders one after another as told; what is lost is found."""

    def __init__(self, stage: Stage | None = None) -> None:
        self.stage, self.number = stage or Stage(), 0

    def answers(self, *how: str) -> None:
        for each in how:
            self.number += 1
            self.stage.after(70).quote()
            intent = self.stage.buy(100, limit=26_000 + 50 * self.number)
            self._answer(intent, each, f"ORD{self.number}")

    def _answer(self, intent: Intent, how: str, order_id: str) -> None:
        stage = self.stage
        stage.send(intent)
        latency_ms = {LOST: 10_000, LATE: 9_000}.get(how, 40)
        finished = replace(stage.finished_of(intent), latency_ms=latency_ms)
        outcome: Outcome = Accepted(result_of(intent, order_id))
        if how == LOST:
            outcome = Unknown("no complete answer within 10 s")
        elif how == NO:
            outcome = Refused("-100013", "not enough cash", 200)
        elif how == "not sent":
            outcome = NotSent("connection refused")
        stage.after(latency_ms / 1000).answer(intent, outcome, finished)
        if how in {LOST, LATE, GOOD}:
            stage.after(1).book(report_of(intent, order_id, executed=intent.quantity))

    def standing(self) -> list[str]:
        return [each.code for each in self.stage.engine.status().standing]


def test_the_third_late_or_lost_answer_of_five_is_told_of_at_once() -> None:
    broker = Ill()

    broker.answers(LATE, GOOD, LOST)
    assert broker.standing() == []
    broker.answers(LATE)

    [told] = broker.stage.engine.status().standing
    assert told.code == "PLACES_ILL"
    assert "of the last 4, 1 had no answer that proves anything and 2 took 5 s or more" in told.text
    assert _told(broker.stage) == ["PLACES_ILL"]


def test_it_is_over_with_three_good_answers_in_a_row_and_does_not_flap_before() -> None:
    broker = Ill()
    broker.answers(LATE, LATE, LATE)

    for _ in range(4):
        broker.answers(GOOD, GOOD, LATE)
        assert broker.standing() == ["PLACES_ILL"]
    broker.answers(GOOD, NO, GOOD)

    assert (broker.standing(), _told(broker.stage)) == ([], ["PLACES_ILL"])
    texts = [note.text for note in broker.stage.all(Note)]
    assert texts.count("the broker answers orders in time again") == 1


def test_a_lost_answer_now_and_then_is_no_illness() -> None:
    broker = Ill()

    for _ in range(4):
        broker.answers(LOST, GOOD, GOOD, LATE, GOOD)

    assert (broker.standing(), _told(broker.stage)) == ([], [])


def test_what_was_not_sent_says_nothing_about_the_answers() -> None:
    broker = Ill()

    broker.answers(LATE, LATE, "not sent", "not sent", "not sent")
    assert broker.standing() == []
    broker.answers(LATE)

    assert broker.standing() == ["PLACES_ILL"]


def test_another_day_begins_without_it() -> None:
    broker = Ill()
    broker.answers(LATE, LATE, LATE)

    broker.stage.after(86_400)
    broker.stage.handle(TradingDayStarted(broker.stage.now, DAY + timedelta(days=1)))

    assert "PLACES_ILL" not in broker.standing()


def test_a_restart_goes_on_with_it_and_with_its_end() -> None:
    bad, good = PlaceSeen(START, False, 9_000), PlaceSeen(START, False, 40)
    lost = replace(bad, is_lost=True)

    broker = Ill(Stage(recovery=Recovery(DAY, places_seen=(bad, lost, good, bad, good))))
    assert broker.standing() == ["PLACES_ILL"]
    broker.answers(GOOD, GOOD)

    assert broker.standing() == []
    stage = Stage(recovery=Recovery(DAY, places_seen=(bad, lost, good, good, good)))
    assert Ill(stage).standing() == []


def test_one_late_answer_of_before_a_restart_is_no_illness() -> None:
    late, good = PlaceSeen(START, False, 9_000), PlaceSeen(START, False, 40)

    stage = Stage(recovery=Recovery(DAY, places_seen=(good, late, good)))

    assert Ill(stage).standing() == []


@pytest.mark.parametrize(("latency_ms", "is_told"), [(4_999, False), (5_000, True)])
def test_an_answer_is_late_from_five_seconds_on(latency_ms: int, is_told: bool) -> None:
    seen = (PlaceSeen(START, False, latency_ms),) * 3

    stage = Stage(recovery=Recovery(DAY, places_seen=seen))

    assert (Ill(stage).standing() == ["PLACES_ILL"]) is is_told


def test_what_is_told_of_late_answers_names_how_many_they_were_and_the_slowest() -> None:
    lost, slow = PlaceSeen(START, True, 10_000), PlaceSeen(START, False, 60_460)

    stage = Stage(recovery=Recovery(DAY, places_seen=(lost, slow, replace(slow, latency_ms=9_000))))

    [told] = stage.engine.status().standing
    counts = {"of": 3, "lost": 1, "late": 2, "slowest_s": 60.5, "late_s": 5}
    assert told.facts == {"since": START.isoformat(), **counts}


@pytest.mark.parametrize(("good", "is_told"), [(2, True), (3, False)])
def test_three_bad_answers_are_told_of_among_the_last_five_and_not_among_six(
    good: int, is_told: bool
) -> None:
    bad, fine = PlaceSeen(START, False, 9_000), PlaceSeen(START, False, 40)
    seen = (bad, *[fine] * (good - 1), bad, fine, bad)

    stage = Stage(recovery=Recovery(DAY, places_seen=seen))

    assert (Ill(stage).standing() == ["PLACES_ILL"]) is is_told


def test_answers_of_the_day_before_count_no_more() -> None:
    broker = Ill()
    broker.answers(LATE, LATE)

    broker.stage.after(86_400)
    broker.stage.handle(TradingDayStarted(broker.stage.now, DAY + timedelta(days=1)))

    assert not broker.stage.engine._state.place_answers.last
