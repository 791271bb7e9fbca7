"""The usual day's polls show its close, on each exchange, and it is journalled."""

import itertools
from dataclasses import fields
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from bot.domain.entry import Note
from bot.domain.instrument import Exchange, Instrument
from bot.domain.message import InstrumentsRead, PhaseChanged, QuoteReceived
from bot.domain.quote import ClosesRead, LastClose, Quote
from bot.runtime.timetable.feeds import Feeds, Poll
from tests.engine.stage import RULEBOOK, Stage
from tests.engine.test_belief import YESTERDAY

LAST_TRADE = {Exchange.HOSE: "14:45:00", Exchange.HNX: "14:45:00", Exchange.UPCOM: "14:59:58"}
"""Of the closing auction, or the last of the day."""


def local(clock: str) -> datetime:
    return datetime.fromisoformat(f"2026-11-19T{clock}+07:00")


def quote_at(exchange: Exchange, at: datetime, *, is_stamped: bool) -> Quote:
    """What a node shows: 27,000 from before the last trade, and 27,100 from then on."""
    ended = local(LAST_TRADE[exchange])
    traded = at if exchange is Exchange.UPCOM else min(at, local("14:29:58"))
    last, stamp = (27_100, ended) if at >= ended else (27_000, traded)
    own = stamp if is_stamped else None
    return Quote("ABC", exchange, last, 27_000, None, None, None, None, None, 1_000, own)


@pytest.mark.parametrize("seconds", [10, 45, 150])
@pytest.mark.parametrize("behind", [0, 30])
@pytest.mark.parametrize("is_stamped", [True, False])
@pytest.mark.parametrize("exchange", [Exchange.HOSE, Exchange.HNX, Exchange.UPCOM])
def test_the_close_of_a_usual_day_is_journalled(
    exchange: Exchange, seconds: int, behind: int, *, is_stamped: bool
) -> None:
    polled = list[str]()
    listed = {"ABC": Instrument("ABC", exchange)}
    spawn = SimpleNamespace(spawn=lambda _, name: polled.append(name))
    parts: dict[str, Any] = dict.fromkeys(each.name for each in fields(Feeds))
    parts |= {"rulebook": RULEBOOK, "instruments": listed, "tasks": spawn}
    parts["polls"] = SimpleNamespace(due=lambda *_, **__: None, rest=lambda _: None)
    rests = SimpleNamespace(rest=lambda *_: None)
    parts["reads"] = SimpleNamespace(
        quote=lambda _: None, depth=None, is_under_way=lambda _: False, health=rests
    )
    feeds, poll = Feeds(**parts), Poll("quote", "ABC", timedelta(seconds=seconds))
    stage = Stage(is_open=False)
    at = stage.now = local("14:20:07")
    stage.handle(InstrumentsRead(at, tuple(listed.values())))
    stage.handle(ClosesRead(at, (LastClose("ABC", 27_000, YESTERDAY),)))

    polls = itertools.takewhile(
        lambda each: each < local("15:15:00"), (at + poll.interval * n for n in itertools.count())
    )
    for due in polls:
        stage.now = due
        stage.handle(PhaseChanged(due, exchange, RULEBOOK.phase_at(exchange, due)))
        polled.clear()
        feeds._poll(poll, due)
        shown = quote_at(exchange, due - timedelta(seconds=behind), is_stamped=is_stamped)
        for _ in polled:
            stage.handle(QuoteReceived(due, shown))

    notes = [note for note in stage.all(Note) if note.kind == "CLOSE"]
    assert [(note.symbol, note.numbers["close"]) for note in notes] == [("ABC", 27_100)]
    assert [note.text for note in stage.all(Note) if note.kind == "ALERT"] == []
