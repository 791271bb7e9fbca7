"""A2: a token that ends in a session: announced before, and noticed without a write."""

from datetime import datetime, time, timedelta

import pytest

from bot.domain.entry import Decision, Note, RunState, Verdict
from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.message import PlaceOrder, TimePassed, TwoFactorMissing, TwoFactorReady
from bot.domain.operations import CodesCounted
from bot.engine.two_factor import ENDED, ON_ITS_WAY
from tests.engine.stage import START, Stage
from tests.engine.test_token_question import FRIDAY, SATURDAY, asked, begun_at, moment

END = START + timedelta(minutes=40)


def holds_token(stage: Stage, ends_at: datetime) -> None:
    stage.handle(TwoFactorReady(stage.now, ends_at, "token", ends_at))


def live_until(stage: Stage, until: datetime) -> None:
    """Go from one deadline of the engine to the next."""
    while (due := stage.engine.next_due()) is not None and due <= until:
        stage.now = due
        stage.handle(TimePassed(due))
    stage.now = until
    stage.handle(TimePassed(until))


def told_of_end(stage: Stage) -> list[Note]:
    notes = [each for each in stage.entries if isinstance(each, Note)]
    return [each for each in notes if each.numbers.get("alert") == "TWO_FACTOR_ENDING"]


@pytest.mark.one_strike
def test_a_token_that_ends_in_a_session_is_asked_for_twice_before_and_once_at_its_end() -> None:
    stage = Stage()
    stage.handle(CodesCounted(stage.now, 3, 5))

    holds_token(stage, END)
    live_until(stage, END)

    minutes = [(END - note.at) // timedelta(minutes=1) for note in told_of_end(stage)]
    assert minutes == [15, 5]
    assert [each.time() for each in asked(stage)] == [time(10, 9, 58)]
    assert all("3 of the day's 5 codes are left" in note.text for note in told_of_end(stage))
    assert told_of_end(stage)[0].text.startswith("the 2FA token ends at 10:10:00, in 15 min")


@pytest.mark.one_strike
def test_the_end_of_a_token_closes_the_gate_without_any_write() -> None:
    stage = Stage()

    holds_token(stage, END)
    live_until(stage, END - ON_ITS_WAY - timedelta(seconds=1))
    before = stage.engine.status().state
    live_until(stage, END - ON_ITS_WAY)

    assert (before, stage.engine.status().state) == (RunState.RUNNING, RunState.NEEDS_2FA)
    assert stage.engine.status().reason == f"needs 2FA ({ENDED})"
    assert stage.engine.status().token_until is None


def test_an_order_asked_for_after_the_end_is_blocked_by_us_and_never_met_by_a_refusal() -> None:
    stage = Stage()
    holds_token(stage, END)
    live_until(stage, END)

    stage.quote()
    stage.request(lambda strategy: strategy.buy(100, limit=27_000, why="as asked"))

    [decision] = stage.new(Decision)
    assert (decision.verdict, decision.code) == (Verdict.BLOCKED, "TWO_FACTOR")
    assert stage.all(PlaceOrder) == []


def test_a_new_token_in_time_ends_the_asking_and_no_order_waits() -> None:
    stage = Stage()
    holds_token(stage, END)
    live_until(stage, END - timedelta(minutes=10))

    holds_token(stage, moment(START.date(), time(23, 59, 59)))
    live_until(stage, END + timedelta(hours=1))

    assert len(told_of_end(stage)) == 1
    assert (asked(stage), stage.engine.status().state) == ([], RunState.RUNNING)


def test_a_token_given_up_by_hand_is_not_told_of_when_it_would_have_ended() -> None:
    stage = Stage()
    holds_token(stage, END)

    stage.handle(TwoFactorMissing(stage.now, "OTP_SESSION_REQUIRED", "dropped"))
    live_until(stage, END + timedelta(minutes=1))

    assert told_of_end(stage) == []
    assert len(asked(stage)) == 2


@pytest.mark.one_strike
def test_a_token_with_little_time_left_is_told_of_at_once() -> None:
    stage = Stage()

    holds_token(stage, stage.now + timedelta(minutes=3))

    assert [note.numbers["minutes"] for note in told_of_end(stage)] == [3]


def test_one_that_ends_soon_after_the_morning_question_is_told_of_then_and_not_at_night() -> None:
    stage = begun_at(moment(FRIDAY, time(7)))

    holds_token(stage, moment(FRIDAY, time(8, 20)))
    live_until(stage, moment(FRIDAY, time(8, 19)))

    assert [
        f"{n.at.astimezone(moment(FRIDAY, time()).tzinfo):%H:%M}" for n in told_of_end(stage)
    ] == ["08:15"]


@pytest.mark.parametrize(
    "ends_at",
    [
        moment(FRIDAY, time(23, 59, 59)),
        moment(FRIDAY, time(15)),
        moment(SATURDAY, time(10)),
        moment(FRIDAY, time(8, 15)),
    ],
    ids=["midnight", "the last close", "weekend", "the morning question"],
)
def test_a_token_that_ends_when_none_is_needed_is_not_told_of(ends_at: datetime) -> None:
    stage = begun_at(moment(FRIDAY, time(7)))

    holds_token(stage, ends_at)
    live_until(stage, ends_at + timedelta(minutes=1))

    assert (told_of_end(stage), asked(stage)) == ([], [])
    assert stage.engine.status().state is RunState.RUNNING


def test_a_question_says_how_many_codes_can_still_be_mailed() -> None:
    stage = Stage()
    stage.handle(CodesCounted(stage.now, 1, 5))

    stage.block_for_token(stage.buy())

    note = [each for each in stage.entries if isinstance(each, Note)][-1]
    assert note.text.endswith("Give a code or a token (1 of the day's 5 codes is left): bot otp")
    assert (note.numbers["codes_left"], note.numbers["codes_a_day"]) == (1, 5)


def test_a_question_of_a_new_day_does_not_say_how_many_codes_were_left_the_day_before() -> None:
    stage = begun_at(moment(FRIDAY, time(7)) - timedelta(days=1))
    stage.handle(CodesCounted(stage.now, 0, 5))
    stage.handle(TwoFactorMissing(stage.now, "OTP_SESSION_REQUIRED", "none"))

    live_until(stage, moment(FRIDAY, time(8, 15)))

    notes = [each for each in stage.entries if isinstance(each, Note)]
    texts = {
        note.at.astimezone(EXCHANGE_TZ).day: note.text
        for note in notes
        if note.numbers.get("alert") == "TWO_FACTOR_NEEDED"
    }
    assert "(none of the day's 5 codes are left)" in texts[19]
    assert "(5 of the day's 5 codes are left)" in texts[20]
