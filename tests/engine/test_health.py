"""A clock that is set, a standstill, a full disk, reads that fail: what is said, what goes on."""

from dataclasses import replace
from datetime import timedelta

import pytest

from bot.cli.telling.languages import catalogue
from bot.config.limits import AccountSection
from bot.domain.entry import Decision, Note, RunState, StateChanged, Verdict
from bot.domain.message import (
    BrokerHealthChanged,
    ClockOffsetChanged,
    JournalHealthChanged,
    PlaceOrder,
    ReadAccount,
    ReadHealthChanged,
    ReadOrder,
    ReadTodaysOrders,
    TwoFactorMissing,
)
from bot.domain.operations import Action, ClockStepped, OperatorActed, StoodStill
from bot.engine.control_state import PRIORITY
from bot.engine.health import DETAIL, DETAIL_AGAIN
from bot.engine.settings import EngineSettings
from tests.engine.stage import PLAN, Stage

SPAN = timedelta(minutes=10)


def _alerts(stage: Stage) -> list[object]:
    notes = [one for one in stage.all(Note) if one.kind == "ALERT"]
    return [one.numbers["alert"] for one in notes]


def _stood_still() -> Stage:
    stage = Stage()
    stage.after(SPAN.total_seconds()).handle(StoodStill(stage.now, SPAN))
    return stage


def test_a_set_wall_is_told_and_shown_until_it_is_set_right():
    stage = Stage()

    stage.handle(ClockStepped(stage.now, timedelta(seconds=-600)))
    [text] = stage.engine.status().alerts
    stage.buy()
    stage.handle(ClockStepped(stage.now, timedelta()))

    assert "set back by 600.0 s" in text
    assert _alerts(stage) == ["CLOCK_STEPPED"]
    assert stage.engine.status().alerts == ()
    assert stage.all(PlaceOrder)


def test_after_a_standstill_orders_wait_until_everything_was_read_again():
    stage = _stood_still()
    reads = [one for one in stage.done if isinstance(one, ReadTodaysOrders | ReadAccount)]
    stage.quote()
    stage.request(lambda s: s.buy(100, limit=27_000))
    refused = (stage.engine.status().state, stage.decided())

    stage.book()
    half = stage.engine.status().state
    stage.account()
    stage.buy()

    assert [type(one) for one in reads] == [ReadTodaysOrders, ReadAccount]
    assert refused == (RunState.DEGRADED, (Verdict.BLOCKED, "DEGRADED"))
    assert half is RunState.DEGRADED
    assert stage.engine.status().state is RunState.RUNNING
    assert _alerts(stage) == ["STOOD_STILL"]


def test_a_read_that_began_before_the_standstill_ended_says_nothing():
    stage = _stood_still()

    stage.book(asked_at=stage.now - timedelta(seconds=1))
    stage.account()

    assert stage.engine.status().state is RunState.DEGRADED


def test_reads_that_get_lost_are_asked_for_again():
    stage = _stood_still()
    stage.account()

    due = stage.due()
    stage.pass_time((due - stage.now).total_seconds())

    assert due - stage.now <= timedelta()
    assert stage.new(ReadTodaysOrders)
    assert stage.new(ReadAccount) == []


def test_a_signal_of_before_a_standstill_never_becomes_an_order():
    stage = Stage()
    intent = stage.buy()

    stage.after(SPAN.total_seconds()).handle(StoodStill(stage.now, SPAN))

    assert stage.engine.reason_not_to_send(replace(intent)) is not None


# ------------------------------------------------------------------------------------- single reads


def _read(stage: Stage, kind: str, about: str = "", *, fails: str = "") -> None:
    event = ReadHealthChanged(stage.now, not fails, fails or "it works again", kind, about)
    stage.after(1).handle(event)


def told(stage: Stage) -> list[tuple[str, object]]:
    return [
        (one.kind, one.numbers.get("alert"))
        for one in stage.all(Note)
        if one.kind in ("ALERT", "RESUME")
    ]


def test_a_quote_that_cant_be_read_is_named_and_the_bot_goes_on() -> None:
    stage = Stage()

    _read(stage, "the quote", "VNM", fails="HTTP 500")

    assert stage.engine.status().state is RunState.RUNNING
    [standing] = stage.engine.status().alerts
    assert standing == (
        "the quote of VNM can't be read (HTTP 500); it is asked for again and again: no order goes "
        "by an old one, and it wakes no strategy. If it lasts, ask the broker"
    )
    assert told(stage) == [("ALERT", "READ_FAILS")]


def test_many_of_a_kind_are_one_alert_and_one_end() -> None:
    stage = Stage()
    symbols = [f"S{number}" for number in range(7)]

    for symbol in symbols:
        _read(stage, "the depth", symbol, fails="no answer within 8 s")
    [standing] = stage.engine.status().alerts
    for symbol in symbols:
        _read(stage, "the depth", symbol)
    _read(stage, "the depth", "S9")

    assert standing.startswith("the depth of S0, S1, S2, S3, S4 and 2 more can't be read (no answ")
    assert told(stage) == [("ALERT", "READ_FAILS"), ("RESUME", None)]
    assert stage.engine.status().alerts == ()


def test_it_is_told_again_when_it_fails_again() -> None:
    stage = Stage()

    for _ in range(2):
        _read(stage, "the account", fails="HTTP 500")
        _read(stage, "the account")

    assert told(stage) == [("ALERT", "READ_FAILS"), ("RESUME", None)] * 2


def test_a_quote_that_is_polled_no_more_is_not_said_to_work() -> None:
    stage = Stage()
    _read(stage, "the quote", "HPG", fails="HTTP 500")

    ended = ReadHealthChanged(stage.now, True, "", "the quote", "HPG", is_resting=True)
    stage.handle(ended)

    assert stage.engine.status().alerts == ()
    assert stage.last(Note).text == "the quote is not polled until a session begins"


def test_a_dead_detail_is_named_while_an_order_needs_it_and_tried_again() -> None:
    stage = Stage()
    stage.working()
    _read(stage, DETAIL, fails="HTTP 500")

    [standing] = stage.engine.status().alerts
    done = stage.pass_time(DETAIL_AGAIN.total_seconds())

    assert standing == (
        "the detail of an order can't be read (HTTP 500); it is asked for again and again: cancels "
        "go out all the same; cancels and fills go by the day order book, and no order is changed. "
        "If it lasts, ask the broker"
    )
    assert ReadOrder("ORD1", "details can't be read") in done


def test_a_dead_detail_is_tried_by_an_order_that_is_listed() -> None:
    stage = Stage(beside=[replace(PLAN, name="other")])
    stage.working()
    stage.request(lambda it: it.buy(200, limit=26_950), by="other")
    stage.accept(stage.last(PlaceOrder).intent, "ORD2")
    stage.engine._state.orders["ORD1"].shown.is_missing = True
    _read(stage, DETAIL, fails="it does not know ORD2, which the day order book shows")

    done = stage.pass_time(DETAIL_AGAIN.total_seconds())

    assert ReadOrder("ORD2", "details can't be read") in done


def test_a_dead_detail_that_no_order_needs_is_no_trouble() -> None:
    stage = Stage()
    _read(stage, DETAIL, fails="HTTP 500")

    done = stage.pass_time(DETAIL_AGAIN.total_seconds())

    assert stage.engine.status().alerts == ()
    assert [each for each in done if isinstance(each, ReadOrder)] == []


def _told_of(stage: Stage) -> list[tuple[str, object]]:
    notes = [one for one in stage.all(Note) if one.numbers.get("alert") == "READ_FAILS"]
    return [(str(one.numbers["read"]), one.numbers["about"]) for one in notes]


def test_a_second_symbol_that_fails_later_is_told_with_those_that_fail_beside_it() -> None:
    stage = Stage()
    _read(stage, "the quote", "HPG", fails="HTTP 404")
    stage.after(4 * 60)

    for symbol in ("SHS", "VNM"):
        _read(stage, "the quote", symbol, fails="HTTP 500")
    stage.pass_time((stage.due() - stage.now).total_seconds())
    for _ in range(9):
        _read(stage, "the quote", "SHS", fails="HTTP 500")

    assert _told_of(stage) == [("the quote", "HPG"), ("the quote", "HPG, SHS, VNM")]


def test_one_that_fails_now_and_then_beside_one_that_always_does_is_told_more_seldom() -> None:
    stage = Stage()
    _read(stage, "the quote", "HPG", fails="HTTP 404")

    for _ in range(180):
        _read(stage, "the quote", "SHS", fails="HTTP 500")
        stage.pass_time(58)
        _read(stage, "the quote", "SHS")

    assert _told_of(stage)[1:] == [("the quote", "HPG, SHS")] * 15


def test_what_fails_on_after_nothing_could_be_read_is_told_and_nothing_else() -> None:
    stage = Stage()
    _read(stage, "the account", fails="HTTP 500")
    stage.handle(BrokerHealthChanged(stage.now, is_healthy=False, detail="no connection"))
    _read(stage, "the quote", "HPG", fails="no connection")
    _read(stage, "the quote", "SHS", fails="no connection")
    stage.pass_time(60)
    before = _told_of(stage)

    stage.handle(BrokerHealthChanged(stage.now, is_healthy=True, detail="reads work again"))
    _read(stage, "the quote", "HPG", fails="HTTP 404")
    _read(stage, "the quote", "SHS")
    stage.pass_time(15)
    _read(stage, "the account", fails="HTTP 500")
    stage.pass_time(15)

    assert before == [("the account", "")]
    assert _told_of(stage) == [*before, ("the quote", "HPG"), ("the account", "")]


def test_an_account_that_is_unread_today_is_not_said_to_let_orders_go() -> None:
    stage = Stage(is_open=False)

    _read(stage, "the account", fails="HTTP 503")
    [before] = stage.engine.status().alerts
    stage.open()
    _read(stage, "the account", fails="HTTP 503")
    [after] = stage.engine.status().alerts

    assert "again and again: no order is sent until it has been read once today." in before
    assert "again and again: orders go on by the last cash and shares that were read" in after
    notes = [note for note in stage.all(Note) if note.numbers.get("alert") == "READ_FAILS"]
    assert notes[0].text == before


def test_an_account_that_grows_old_is_not_said_to_let_buys_go() -> None:
    stage = Stage(settings=EngineSettings(account_limits=AccountSection().to_domain()))

    _read(stage, "the account", fails="HTTP 500")
    [standing] = stage.engine.status().standing
    stage.after(120).quote()
    stage.request(lambda s: s.buy(100, limit=27_000, why="signal"))

    assert stage.last(Decision).code == "ACCOUNT_AGE"
    assert standing.text == (
        "the account can't be read (HTTP 500); it is asked for again and again: sales and cancels "
        "go on by the last cash and shares that were read, and by the bot's own fills; nothing is "
        "bought while these are older than 120 s. If it lasts, ask the broker"
    )
    assert catalogue("vi").told(standing.code, standing.facts) == (
        "Không đọc được tài khoản (lý do: HTTP 500). Bot hỏi lại liên tục; trong lúc đó: vẫn bán "
        "và huỷ lệnh theo tiền và chứng khoán đọc lần cuối và theo khớp lệnh của bot; không mua "
        "khi số liệu cũ hơn 120 giây. Nếu kéo dài, hãy hỏi công ty chứng khoán."
    )


def test_while_nothing_can_be_written_the_status_says_what_to_do() -> None:
    stage = Stage()
    why = "the journal has not answered for 5 s"
    stage.handle(JournalHealthChanged(stage.now, is_healthy=False, detail=why))
    stage.handle(BrokerHealthChanged(stage.now, is_healthy=False, detail="no connection"))

    during = stage.engine.status()
    stage.handle(JournalHealthChanged(stage.now, is_healthy=True, detail="it answers"))
    stage.handle(BrokerHealthChanged(stage.now, is_healthy=True, detail="reads work again"))

    assert [each.code for each in during.standing] == ["JOURNAL_AWAY", "BROKER_AWAY"]
    assert during.alerts[0].startswith(f"{why}: no order leaves")
    assert "df, bot db check" in during.alerts[0]
    assert stage.engine.status().standing == ()


def test_while_nothing_can_be_read_no_kind_is_named_beside_it() -> None:
    stage = Stage()
    stage.handle(BrokerHealthChanged(stage.now, is_healthy=False, detail="no connection"))

    _read(stage, "the account", fails="no connection")
    during = [each.code for each in stage.engine.status().standing]
    stage.handle(BrokerHealthChanged(stage.now, is_healthy=True, detail="reads work again"))

    assert during == ["BROKER_AWAY"]
    assert [each.partition(" (")[0] for each in stage.engine.status().alerts] == [
        "the account can't be read"
    ]


def _stage_in(state: RunState) -> Stage:
    """A stage in one of the states that hide that the broker is away."""
    stage = Stage(is_open=state is not RunState.STARTING)
    if state is RunState.NEEDS_2FA:
        stage.handle(TwoFactorMissing(stage.now, "OTP_SESSION_EXPIRED", "2FA"))
    elif state is not RunState.STARTING:
        stage.working()
        action = {RunState.HALTED: Action.HALT, RunState.STOPPING: Action.STOP}[state]
        stage.handle(OperatorActed(stage.now, action, "enough", "operator"))
    assert stage.engine.status().state is state
    return stage


@pytest.mark.parametrize("state", PRIORITY[: PRIORITY.index(RunState.DEGRADED)])
def test_a_broker_that_goes_away_in_a_stronger_state_is_told_and_so_is_its_return(
    state: RunState,
) -> None:
    stage = _stage_in(state)
    before = len(told(stage))

    for is_healthy, why in ((False, "no connection"), (True, "reads work again")):
        for _ in range(2):
            stage.handle(BrokerHealthChanged(stage.now, is_healthy=is_healthy, detail=why))

    assert told(stage)[before:] == [("ALERT", "BROKER_AWAY"), ("RESUME", None)]
    assert stage.all(Note)[-1].text == "the broker can be read again"
    assert stage.engine.status().state is state


@pytest.mark.parametrize("state", [RunState.RUNNING, RunState.PAUSED])
def test_a_broker_that_goes_away_is_told_by_the_state_where_that_changes(state: RunState) -> None:
    stage = Stage()
    if state is RunState.PAUSED:
        stage.handle(OperatorActed(stage.now, Action.PAUSE, "lunch", "operator"))
    before = len(stage.entries)

    stage.handle(BrokerHealthChanged(stage.now, is_healthy=False, detail="no connection"))
    stage.handle(BrokerHealthChanged(stage.now, is_healthy=True, detail="reads work again"))

    degraded, again = [one for one in stage.entries[before:] if isinstance(one, StateChanged)]
    assert (degraded.to_state, again.to_state) == (RunState.DEGRADED, state)
    assert told(stage) == []


def test_a_broker_that_goes_away_beside_another_trouble_is_told_and_so_is_its_return() -> None:
    stage = Stage()
    stage.handle(JournalHealthChanged(stage.now, is_healthy=False, detail="a full disk"))

    stage.handle(BrokerHealthChanged(stage.now, is_healthy=False, detail="no connection"))
    stage.handle(BrokerHealthChanged(stage.now, is_healthy=True, detail="reads work again"))

    assert told(stage) == [("ALERT", "BROKER_AWAY"), ("RESUME", None)]


# --------------------------------------------------------------------------- an offset of the clock


def _off(stage: Stage, seconds: float) -> None:
    stage.handle(ClockOffsetChanged(stage.now, timedelta(seconds=seconds)))


@pytest.mark.parametrize(
    ("seconds", "state", "is_shown"),
    [
        (4.9, RunState.RUNNING, False),
        (5, RunState.RUNNING, True),
        (-19.9, RunState.RUNNING, True),
        (20, RunState.DEGRADED, True),
        (-20, RunState.DEGRADED, True),
    ],
)
def test_a_clock_is_told_of_from_five_seconds_and_stops_orders_at_its_limit(
    seconds: float, state: RunState, is_shown: bool
) -> None:
    stage = Stage()

    _off(stage, seconds)

    status = stage.engine.status()
    assert status.state is state
    assert bool(status.alerts) is is_shown
    told = [note for note in stage.all(Note) if note.kind == "ALERT"]
    assert [note.numbers["alert"] for note in told] == ["CLOCK_OFFSET"] * is_shown


def test_a_clock_just_below_the_limit_is_not_told_of_as_at_it() -> None:
    stage = Stage()

    _off(stage, -19.9)

    words = "our clock is 19 s ahead of the broker's: orders still go on (from 20 s on none"
    assert stage.engine.status().alerts[0].startswith(words)


def test_a_clock_that_is_good_again_opens_the_gate_and_leaves_the_status() -> None:
    stage = Stage()
    _off(stage, 25)
    assert stage.engine.status().reason == "our clock is 25 s behind the broker's"

    _off(stage, 3)

    assert (stage.engine.status().state, stage.engine.status().alerts) == (RunState.RUNNING, ())
    assert stage.last(Note).text == "our clock agrees with the broker's again"


def test_a_clock_below_the_limit_again_is_still_told_of() -> None:
    stage = Stage()
    _off(stage, -25)
    [over] = stage.engine.status().alerts

    _off(stage, -15)
    status = stage.engine.status()

    assert over.startswith(
        "our clock is 25 s ahead of the broker's: no order is sent until it is below 20 s again, "
        "and cancels go on. Set the clock"
    )
    assert status.state is RunState.RUNNING
    text = (
        "our clock is 15 s ahead of the broker's: orders still go on (from 20 s on none is sent). "
        "Set the clock of this machine, find out why it is not synchronised, and restart the bot"
    )
    assert status.alerts == (text,)
