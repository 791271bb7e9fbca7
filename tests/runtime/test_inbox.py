"""What goes first into the engine, what makes room for newer, and what never does."""

import asyncio
from dataclasses import replace
from datetime import datetime, time, timedelta
from random import Random
from typing import get_args

import pytest

from bot.domain.entry import Note
from bot.domain.instrument import Exchange
from bot.domain.message import (
    Event,
    FaultFound,
    NonceBurnt,
    Noted,
    OrderRead,
    QuoteReceived,
    Recovered,
    SendStarted,
    TimePassed,
    TimerFired,
)
from bot.domain.operations import Action, CancelAsked, OperatorActed
from bot.domain.outcome import Resolution
from bot.domain.quote import Quote
from bot.domain.recovery import Recovery
from bot.runtime.activity import Activity
from bot.runtime.inbox import ASKS_MAX, BY_ARRIVAL, BY_URGENCY, Inbox, Ranking, Urgency
from tests.staging import DAY, START

QUOTE = Quote("HPG", Exchange.HOSE, 27_000, 27_000, 28_850, 25_150, None, None, None, 1_000, START)
PAUSE = OperatorActed(START, Action.PAUSE, "lunch", "operator")


def _quote(symbol: str, seconds: float = 0) -> QuoteReceived:
    return QuoteReceived(START + timedelta(seconds=seconds), replace(QUOTE, symbol=symbol))


def _note(number: int) -> Noted:
    return Noted(START, Note(START, "PULSE", str(number)))


def _inbox(ranking: Ranking = BY_URGENCY) -> Inbox:
    inbox = Inbox(Activity())
    inbox.rank(ranking)
    return inbox


def _all_of(inbox: Inbox) -> list[Event]:
    taken = []
    while (event := inbox.take()) is not None:
        taken.append(event)
        inbox.done()
    return taken


def test_every_event_has_its_urgency() -> None:
    assert set(BY_URGENCY.urgency) == set(BY_ARRIVAL.urgency) == set(get_args(Event))


def test_an_operator_comes_before_answers_these_before_reads_and_those_before_the_market() -> None:
    inbox = _inbox()
    row, sent = OrderRead(START, "ORD1", None), SendStarted(START, "L-0001")
    for event in (_quote("HPG"), row, sent):
        inbox.post(event)
    inbox.ask(PAUSE)

    assert _all_of(inbox) == [PAUSE, sent, row, _quote("HPG")]


def test_of_a_symbols_quotes_only_the_newest_waits_in_the_place_of_the_oldest() -> None:
    inbox = _inbox()
    for event in (_quote("HPG"), _quote("SHS"), _quote("HPG", 2), _quote("HPG", 1)):
        inbox.post(event)

    assert _all_of(inbox) == [_quote("HPG", 2), _quote("SHS")]
    assert inbox.passed_over == 2
    inbox.post(_quote("HPG", 3))
    assert _all_of(inbox) == [_quote("HPG", 3)]


def test_a_flood_of_one_symbol_keeps_no_other_from_its_turn() -> None:
    inbox, seen = _inbox(), list[str]()
    inbox.post(_quote("HPG"))
    inbox.post(_quote("SHS"))

    for second in range(4):
        event = inbox.take()
        assert isinstance(event, QuoteReceived)
        seen.append(event.quote.symbol)
        inbox.post(_quote("HPG", second))
        inbox.post(_quote("HPG", second + 0.5))

    assert seen == ["HPG", "SHS", "HPG", "HPG"]


def test_of_the_time_that_passes_only_the_newest_is_looked_at_and_nothing_is_said() -> None:
    inbox = _inbox()
    inbox.post(TimePassed(START))
    inbox.post(TimePassed(START + timedelta(seconds=1)))

    assert _all_of(inbox) == [TimePassed(START + timedelta(seconds=1))]
    assert inbox.passed_over == 0


@pytest.mark.parametrize("ranking", [BY_URGENCY, BY_ARRIVAL])
def test_what_was_not_heard_is_neither_market_nor_time(ranking: Ranking) -> None:
    inbox = _inbox(ranking)
    for event in (_quote("HPG"), TimePassed(START), PAUSE, _note(1)):
        inbox.post(event)

    assert (sum(inbox.waiting.values()), inbox.unheard) == (4, 2)


def test_timers_lines_and_rows_of_orders_all_have_their_turn() -> None:
    inbox = _inbox()
    timers: list[Event] = [TimerFired(START, "s", time(10, minute)) for minute in range(3)]
    rows: list[Event] = [OrderRead(START, "ORD1", None)] * 3
    lines: list[Event] = [_note(number) for number in range(3)]
    for event in (*timers, *rows, *lines):
        inbox.post(event)

    assert _all_of(inbox) == [*lines, *rows, *timers]


def test_until_the_start_is_over_everything_keeps_its_order_and_then_goes_first() -> None:
    inbox = Inbox(Activity())
    first = Recovered(START, Recovery(DAY))
    started: list[Event] = [first, _quote("HPG"), _quote("HPG"), SendStarted(START, "L-0001")]
    for event in started:
        inbox.post(event)
    inbox.ask(PAUSE)
    inbox.rank(BY_URGENCY)
    inbox.ask(replace(PAUSE, reason="later"))

    assert _all_of(inbox) == [*started, PAUSE, replace(PAUSE, reason="later")]


def test_on_a_stepped_clock_only_what_is_asked_from_outside_goes_first() -> None:
    inbox = _inbox(BY_ARRIVAL)
    burnt = NonceBurnt(START, "L-0001", Resolution.FRESH, "")
    posted: list[Event] = [_quote("HPG"), burnt, _quote("HPG"), PAUSE, _note(1)]
    for event in posted:
        inbox.post(event)
    inbox.ask(replace(PAUSE, reason="now"))

    assert _all_of(inbox) == [replace(PAUSE, reason="now"), *posted]


def test_what_is_taken_may_be_kept_to_the_urgent() -> None:
    inbox = _inbox()
    inbox.post(_quote("HPG"))

    assert inbox.take(Urgency.OPERATOR) is None
    inbox.ask(PAUSE)
    assert inbox.take(Urgency.OPERATOR) == PAUSE


def test_with_too_many_asks_waiting_only_those_that_make_the_bot_safer_are_taken() -> None:
    inbox = _inbox()
    ask = CancelAsked(START, "ORD1", "operator", "by hand")

    assert all(inbox.ask(ask) for _ in range(ASKS_MAX))
    refused = [inbox.ask(ask), inbox.ask(replace(PAUSE, action=Action.RESUME))]
    safer = [
        inbox.ask(replace(PAUSE, action=each)) for each in (Action.PAUSE, Action.HALT, Action.STOP)
    ]

    assert (refused, safer) == ([False, False], [True, True, True])
    assert inbox.waiting[Urgency.OPERATOR] == ASKS_MAX + 3


async def test_it_is_idle_again_when_all_that_was_not_passed_over_is_done() -> None:
    activity = Activity()
    inbox = Inbox(activity)
    inbox.rank(BY_URGENCY)
    waiting = asyncio.ensure_future(inbox.arrival())
    await asyncio.sleep(0)
    assert not waiting.done()

    inbox.post(_quote("HPG"))
    inbox.post(_quote("HPG", 1))
    await waiting

    _all_of(inbox)
    assert activity.is_idle


def test_whatever_comes_the_order_within_an_urgency_is_kept_and_only_the_market_passed_over() -> (
    None
):
    """Against a slow double: sort what came by urgency, and leave out the older ones."""
    dice = Random(7)
    makers = (
        lambda at: FaultFound(at, "here", None),  # type: ignore[arg-type]
        lambda at: SendStarted(at, "L-0001"),
        lambda at: OrderRead(at, "ORD1", None),
        lambda at: _at(_quote("HPG"), at),
        lambda at: _at(_quote("SHS"), at),
        TimePassed,
    )
    for _ in range(50):
        inbox = _inbox()
        came: list[Event] = [
            dice.choice(makers)(START + timedelta(seconds=second)) for second in range(40)
        ]
        for event in came:
            inbox.post(event)

        assert _all_of(inbox) == _slowly(came)


def _at(quote: QuoteReceived, at: datetime) -> QuoteReceived:
    return replace(quote, at=at)


def _slowly(came: list[Event]) -> list[Event]:
    def line_of(event: Event) -> object:
        key_of = BY_URGENCY.newest.get(type(event))
        return key_of(event) if key_of else id(event)

    newest = {line_of(event): event for event in came}
    kept = list({line_of(event): newest[line_of(event)] for event in came}.values())
    return sorted(kept, key=lambda event: BY_URGENCY.urgency[type(event)])


def test_what_comes_before_anybody_looks_holds_no_clock() -> None:
    early, activity = Activity(), Activity()
    inbox = Inbox(early)
    inbox.post(_note(1))

    was_idle = activity.is_idle
    inbox.counted_in(activity)
    is_held = not activity.is_idle
    inbox.take()
    inbox.done()

    assert (was_idle, is_held, activity.is_idle) == (True, True, True)
