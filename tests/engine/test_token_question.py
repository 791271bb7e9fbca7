"""When a person is asked for the 2FA token: before the open, on trading days, never a flood."""

from collections.abc import Iterator
from datetime import date, datetime, time, timedelta

import pytest

from bot.domain.entry import Note, RunState
from bot.domain.hours import hours_at
from bot.domain.instrument import EXCHANGE_TZ, Exchange
from bot.domain.message import (
    BrokerHealthChanged,
    PlaceOrder,
    TimePassed,
    TwoFactorMissing,
    TwoFactorReady,
)
from bot.domain.outcome import TWO_FACTOR_CODES, NotSent
from bot.domain.recovery import Recovery
from bot.engine.two_factor import LEAD, WORDS
from bot.runtime.timetable.schedule import BeforeOpening, Job, Timetable
from tests.engine.stage import DAY, RULEBOOK, Stage

HOSE = frozenset({Exchange.HOSE})
REQUIRED = "OTP_SESSION_REQUIRED"
FRIDAY, SATURDAY, HOLIDAY = date(2026, 11, 20), date(2026, 11, 21), date(2026, 11, 24)
"""Vietnam Culture Day is a Tuesday; Monday before it is a trading day."""


def moment(day: date, at: time) -> datetime:
    return datetime.combine(day, at, EXCHANGE_TZ)


def asked(stage: Stage) -> list[datetime]:
    notes = [each for each in stage.entries if isinstance(each, Note)]
    return [
        note.at.astimezone(EXCHANGE_TZ)
        for note in notes
        if note.numbers.get("alert") == "TWO_FACTOR_NEEDED"
    ]


def missing(stage: Stage, code: str = REQUIRED) -> None:
    stage.handle(TwoFactorMissing(stage.now, code, "no token"))


def live_through(stage: Stage, until: datetime, *, answers: bool) -> None:
    """Go from one due instant to the next, as the shell does: the job, and the engine's own."""

    def ask(due: datetime) -> None:
        stage.now = due
        missing(stage)
        if answers:
            stage.now = due + timedelta(minutes=1)
            end = datetime.combine(due.astimezone(EXCHANGE_TZ).date(), time(23, 59, 59))
            stage.handle(TwoFactorReady(stage.now, end.replace(tzinfo=EXCHANGE_TZ), "code"))

    table = Timetable([Job("2FA question", BeforeOpening(RULEBOOK, HOSE, LEAD), ask)], stage.now)
    for at in _instants(stage, table):
        if at > until:
            return
        table.fire_due(at)
        stage.now = max(stage.now, at)
        stage.handle(TimePassed(stage.now))


def _instants(stage: Stage, table: Timetable) -> Iterator[datetime]:
    while True:
        dues = [due for due in (table.next_due(), stage.engine.next_due()) if due is not None]
        yield min(dues)


def begun_at(at: datetime) -> Stage:
    stage = Stage(recovery=Recovery(DAY), is_open=False)
    stage.now = at
    stage.open()
    return stage


def test_a_week_with_a_holiday_asks_once_before_each_open_and_on_no_free_day() -> None:
    stage = begun_at(moment(FRIDAY, time(8)))

    live_through(stage, moment(date(2026, 11, 27), time(0)), answers=True)

    days = [date(2026, 11, day) for day in (20, 23, 25, 26)]
    assert asked(stage) == [moment(day, time(8, 15)) for day in days]


def test_a_question_that_nobody_answers_is_asked_a_bounded_number_of_times_a_day() -> None:
    stage = begun_at(moment(FRIDAY, time(8)))

    live_through(stage, moment(date(2026, 11, 23), time(8, 20)), answers=False)

    times = [(8, 15), (8, 20), (9, 0), (9, 15), (10, 15), (11, 15), (11, 30), (12, 30), (13, 0)]
    times += [(14, 0), (14, 30)]
    friday = [moment(FRIDAY, time(hour, minute)) for hour, minute in times]
    monday = [moment(date(2026, 11, 23), time(8, minute)) for minute in (15, 20)]
    assert asked(stage) == friday + monday


@pytest.mark.parametrize(
    "at",
    [
        moment(SATURDAY, time(10)),
        moment(HOLIDAY, time(9, 30)),
        moment(FRIDAY, time(15, 30)),
    ],
    ids=["weekend", "holiday", "evening"],
)
def test_a_missing_token_asks_nothing_while_no_session_is_ahead_today(at: datetime) -> None:
    stage = begun_at(at)

    missing(stage)

    assert asked(stage) == []
    assert stage.engine.status().state is RunState.RUNNING


def test_a_start_on_a_trading_day_asks_at_once() -> None:
    stage = begun_at(moment(FRIDAY, time(7, 30)))

    missing(stage)

    assert asked(stage) == [stage.now]
    assert stage.engine.status().state is RunState.NEEDS_2FA
    assert stage.due() == moment(FRIDAY, time(8, 15))


def test_a_refusal_closes_the_gate_and_asks_whatever_the_hour() -> None:
    stage = Stage()
    intent = stage.buy()
    stage.now = moment(DAY, time(23, 0))

    stage.block_for_token(intent)

    assert asked(stage) == [stage.now]
    assert stage.engine.status().state is RunState.NEEDS_2FA


def test_many_refusals_at_once_are_one_question() -> None:
    stage = Stage()
    first, second = stage.buy(), stage.buy(200, 26_950)

    stage.block_for_token(first)
    stage.block_for_token(second)

    assert len(asked(stage)) == 1


def test_a_token_ends_the_question_and_a_wrong_one_asks_again() -> None:
    stage = Stage()
    stage.block_for_token(stage.buy())
    stage.after(30).quote()
    stage.token()
    assert stage.engine.status().state is RunState.RUNNING

    again = stage.all(type(stage.buy()))[-1:] or [stage.buy(200, 26_950)]
    stage.after(1).block_for_token(again[-1], "OTP_SESSION_INVALID")

    last = [each for each in stage.entries if isinstance(each, Note)][-1]
    assert len(asked(stage)) == 2
    assert WORDS["OTP_SESSION_INVALID"] in last.text
    assert stage.engine.status().reason == "needs 2FA (OTP_SESSION_INVALID)"


def test_the_question_names_the_open_orders_that_cannot_be_cancelled_meanwhile() -> None:
    stage = Stage()
    stage.working(300, 26_900)
    stage.block_for_token(stage.buy(100, 26_950))

    note = [each for each in stage.entries if isinstance(each, Note)][-1]

    assert "ORD1 BUY 300 HPG" in note.text
    assert (note.numbers["orders"], note.numbers["ids"]) == (1, "ORD1")


def test_each_of_the_four_codes_has_words_of_its_own() -> None:
    assert set(WORDS) == TWO_FACTOR_CODES
    assert len(set(WORDS.values())) == len(TWO_FACTOR_CODES)


def test_the_hours_of_a_day_end_with_the_last_phase_that_takes_orders() -> None:
    found = hours_at(RULEBOOK, HOSE | {Exchange.HNX}, moment(FRIDAY, time(12)))
    after = hours_at(RULEBOOK, HOSE, moment(FRIDAY, time(14, 45)))

    assert found is not None
    assert after is not None
    local = [each.astimezone(EXCHANGE_TZ).time() for each in (found.opens, found.closes)]
    assert local == [time(9), time(15)]
    assert after.day == date(2026, 11, 23)


def test_where_no_calendar_says_when_it_opens_nobody_is_asked() -> None:
    assert hours_at(RULEBOOK, frozenset(), moment(FRIDAY, time(12))) is None


def test_a_write_that_was_kept_back_for_want_of_a_token_closes_the_gate_at_any_hour() -> None:
    stage = begun_at(moment(SATURDAY, time(10)))

    stage.handle(TwoFactorMissing(stage.now, REQUIRED, "it ended before a write", is_needed=True))

    assert stage.engine.status().state is RunState.NEEDS_2FA


def test_an_order_that_met_a_token_s_end_is_held_and_goes_out_with_the_next_one() -> None:
    stage = Stage()
    intent = stage.buy()
    stage.send(intent)

    missing(stage, "OTP_SESSION_EXPIRED")
    stage.answer(intent, NotSent("TWO_FACTOR: there is no token that has not ended"))
    assert [each.code for each in stage.engine.status().held] == ["OTP_SESSION_EXPIRED"]
    stage.after(1).quote()
    stage.token()

    assert [each.intent.follows for each in stage.all(PlaceOrder)] == [None, "L-0001"]


@pytest.mark.parametrize(
    ("is_away", "says"),
    [(False, "quotes, positions and journal go on"), (True, "nothing can be read either")],
)
def test_a_question_says_what_goes_on_without_a_token(is_away: bool, says: str) -> None:
    stage = begun_at(moment(DAY, time(9, 30)))
    if is_away:
        stage.handle(BrokerHealthChanged(stage.now, is_healthy=False, detail="no connection"))

    missing(stage)

    [text] = [note.text for note in stage.new(Note) if note.kind == "ALERT"]
    assert f"No order, change or cancel is sent without a token; {says}. Give a code" in text
