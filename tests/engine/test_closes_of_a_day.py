"""What is journalled as the close of a day is certainly from after the closing auction."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Final

import pytest

from bot.domain.entry import Note
from bot.domain.instrument import Phase
from bot.domain.message import InstrumentsRead, QuoteReceived, Reconciled, TradingDayStarted
from bot.domain.plan import Wake
from bot.domain.quote import ClosesRead, LastClose
from bot.domain.recovery import Recovery
from bot.strategy import Strategy
from tests.engine.stage import DAY, HPG, PLAN, Stage
from tests.engine.test_belief import CLOSE, QUOTE, YESTERDAY, alerts, staged

Seen = tuple[str, Phase | int] | tuple[str, Phase | int, str]
"""When a phase is announced or a price is shown, and the price's own time, if it has one."""
AUCTION: Final[Seen] = ("14:30:00", Phase.PRE_CLOSED)
DEALS: Final[Seen] = ("14:45:00", Phase.PUT_THROUGH)
CLOSES: Final[Seen] = ("15:00:00", Phase.CLOSED)
NO_CLOSE: dict[str, list[Seen]] = {
    "asked for in the auction": [AUCTION, ("14:44:59", 27_000), DEALS, CLOSES],
    "the machine slept over the end of the auction": [
        AUCTION,
        ("14:39:50", 27_000),
        ("15:05:00", Phase.CLOSED),
    ],
    "an unknown word for a phase at ten": [("10:30:00", 27_500), ("10:30:01", Phase.CLOSED)],
    "an unknown word, and prices go on": [("10:30:01", Phase.CLOSED), ("11:00:00", 27_500)],
    "a node behind": [AUCTION, DEALS, ("14:45:01", 27_000, "14:29:58"), CLOSES],
    "no own time, and asked for too soon": [AUCTION, DEALS, ("14:45:39", 27_000), CLOSES],
    "an auction that ends late": [
        AUCTION,
        ("14:49:00", Phase.PRE_CLOSED),
        ("14:49:50", 27_000, "14:49:49"),
        ("14:50:00", Phase.PUT_THROUGH),
        CLOSES,
    ],
    "of another day": [AUCTION, DEALS, CLOSES, ("15:01:00", 27_000, f"{YESTERDAY}T14:45")],
    "the phase of the morning": [("08:45:00", Phase.CLOSED), ("08:50:00", 27_000)],
}
A_CLOSE: dict[str, list[Seen]] = {
    "its own time": [AUCTION, DEALS, ("14:45:01", 27_100, "14:45:00"), CLOSES],
    "asked for late": [AUCTION, DEALS, ("14:45:40", 27_100), CLOSES],
    "nothing traded in the auction": [AUCTION, DEALS, ("14:45:40", 27_100, "14:29:58"), CLOSES],
    "better after the close": [AUCTION, ("14:40:00", 27_000), CLOSES, ("15:00:40", 27_100)],
    "a start in the evening": [("20:00:00", Phase.CLOSED), ("20:00:01", 27_100)],
    "a broker whose clock is behind": [
        AUCTION,
        ("14:45:05", Phase.PRE_CLOSED),
        ("14:45:10", Phase.PUT_THROUGH),
        ("14:45:50", 27_100),
        CLOSES,
    ],
}


def told(stage: Stage) -> list[tuple[object, object]]:
    """The closes that were journalled."""
    notes = [note for note in stage.all(Note) if note.kind == "CLOSE"]
    return [(note.numbers["day"], note.numbers["close"]) for note in notes]


def local(clock: str) -> datetime:
    """A time of the day, or another one, as clocks in Vietnam show it."""
    whole = clock if "T" in clock else f"{DAY}T{clock}"
    return datetime.fromisoformat(f"{whole}+07:00").astimezone(UTC)


def see(stage: Stage, clock: str, event: Phase | int, stamp: str = "") -> None:
    stage.now = local(clock)
    if isinstance(event, Phase):
        stage.phase(event)
    else:
        shown = replace(QUOTE, last=event, updated_at=local(stamp) if stamp else None)
        stage.handle(QuoteReceived(stage.now, shown))


@pytest.mark.parametrize("name", NO_CLOSE)
def test_a_price_that_may_be_from_before_the_end_of_the_auction_is_no_close(name: str) -> None:
    stage = Stage(is_open=False)
    stage.now = local("08:40:00")
    stage.handle(ClosesRead(stage.now, (CLOSE,)))
    for seen in NO_CLOSE[name]:
        see(stage, *seen)

    assert told(stage) == []


@pytest.mark.parametrize("name", A_CLOSE)
def test_a_price_that_is_certainly_from_after_it_is_the_close_and_is_noted_once(name: str) -> None:
    stage = staged()
    for seen in A_CLOSE[name]:
        see(stage, *seen)
    see(stage, "20:10:00", 27_100)

    assert told(stage) == [("2026-11-19", 27_100)]


def test_a_quote_that_is_read_for_the_close_wakes_no_strategy() -> None:
    class Hears(Strategy):
        def on_quote(self, quote: object) -> None:
            heard.append(quote)

    heard: list[object] = []
    plan = replace(PLAN, wake=Wake(quote=timedelta(seconds=1)))
    stage = Stage(plan, is_open=False, hooks={"on_quote": Hears.on_quote})
    stage.handle(ClosesRead(stage.now, (CLOSE,)))
    stage.handle(InstrumentsRead(stage.now, (HPG,)))
    stage.account()
    stage.handle(Reconciled(stage.now))
    see(stage, *AUCTION)
    see(stage, "14:31:00", 27_000)
    see(stage, *CLOSES)
    see(stage, "15:01:00", 27_100)

    assert len(heard) == 1
    assert told(stage) == [("2026-11-19", 27_100)]


@pytest.mark.parametrize("is_restarted", [False, True])
def test_the_same_close_is_judged_alike_whether_the_bot_ran_overnight_or_not(
    *, is_restarted: bool
) -> None:
    stage, tomorrow = staged(), date(2026, 11, 20)
    see(stage, *AUCTION)
    see(stage, *DEALS)
    see(stage, "14:45:40", 27_000)
    see(stage, *CLOSES)
    closes = stage.engine.noted_closes()
    stage = Stage(recovery=Recovery(tomorrow), is_open=False) if is_restarted else stage
    stage.now = datetime(2026, 11, 20, 2, 30, tzinfo=UTC)
    stage.handle(TradingDayStarted(stage.now, tomorrow))
    stage.handle(ClosesRead(stage.now, closes))
    stage.phase(Phase.PROGRESS)

    quote = replace(QUOTE, last=30_900, reference=28_900, floor=26_900, ceiling=30_900)
    stage.handle(QuoteReceived(stage.now, replace(quote, updated_at=stage.now)))

    assert closes == (LastClose("HPG", 27_000, DAY),)
    assert [note.numbers["kind"] for note in alerts(stage)] == ["OFF_CLOSE"]
