"""What can't be read is named while it can't, whatever else works."""

from bot.domain.entry import Note, RunState
from bot.domain.message import BrokerHealthChanged, ReadHealthChanged
from tests.engine.stage import Stage


def read(stage: Stage, kind: str, about: str = "", *, fails: str = "") -> None:
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

    read(stage, "the quote", "VNM", fails="HTTP 500")

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
        read(stage, "the depth", symbol, fails="no answer within 8 s")
    [standing] = stage.engine.status().alerts
    for symbol in symbols:
        read(stage, "the depth", symbol)
    read(stage, "the depth", "S9")

    assert standing.startswith("the depth of S0, S1, S2, S3, S4 and 2 more can't be read (no answ")
    assert told(stage) == [("ALERT", "READ_FAILS"), ("RESUME", None)]
    assert stage.engine.status().alerts == ()


def test_it_is_told_again_when_it_fails_again() -> None:
    stage = Stage()

    for _ in range(2):
        read(stage, "the account", fails="HTTP 500")
        read(stage, "the account")

    assert told(stage) == [("ALERT", "READ_FAILS"), ("RESUME", None)] * 2


def test_while_nothing_can_be_read_no_kind_is_named_beside_it() -> None:
    stage = Stage()
    stage.handle(BrokerHealthChanged(stage.now, is_healthy=False, detail="no connection"))

    read(stage, "the account", fails="no connection")
    during = stage.engine.status().alerts
    stage.handle(BrokerHealthChanged(stage.now, is_healthy=True, detail="reads work again"))

    assert during == ()
    assert [each.partition(" (")[0] for each in stage.engine.status().alerts] == [
        "the account can't be read"
    ]
