"""The day in one entry: what became of orders and money, and what is left for tomorrow."""

from datetime import datetime, time, timedelta

from bot.domain.entry import DAY_NOTE, Note
from bot.domain.instrument import EXCHANGE_TZ, Phase
from bot.domain.message import TradingDayStarted
from bot.domain.operations import TradingDayEnded
from tests.engine.stage import DAY, Stage, report_of

END = datetime.combine(DAY, time(15, 15), EXCHANGE_TZ)


def ended(stage: Stage) -> None:
    """The market has closed, and the day's end is due."""
    stage.phase(Phase.CLOSED)
    stage.now = END.astimezone(stage.now.tzinfo)
    stage.handle(TradingDayEnded(stage.now, DAY))


def summaries(stage: Stage) -> list[Note]:
    return [each for each in stage.entries if isinstance(each, Note) and each.kind == DAY_NOTE]


def test_a_day_with_a_fill_is_summed_up_to_the_vnd_with_what_is_open() -> None:
    stage = Stage(cash=50_000_000)
    filled = report_of(stage.working(100, 27_000, "ORD1"), "ORD1", executed=100)
    stage.after(1).book(filled)
    stage.after(1).quote(27_100)

    ended(stage)
    stage.after(1).book(filled)
    stage.cash = 50_000_000 - 2_704_050
    stage.sellable = 0
    stage.account(total=100)

    (note,) = summaries(stage)
    assert note.text == (
        "1 order: 1 filled · realised -4,050 VND after fees and tax 4,050 · still open HPG 100, "
        "unrealised +10,000 · cash 47,295,950 · nothing waits for you"
    )
    assert note.numbers == {
        "day": "2026-11-19",
        "orders filled": 1,
        "realised": 0,
        "fees_and_tax": 4_050,
        "net": -4_050,
        "unrealised": 10_000,
        "open_positions": 1,
        "open_value": 2_710_000,
        "cash": 47_295_950,
        "due": 0,
        "needs": "",
        "last HPG": 27_100,
    }


def test_an_order_that_is_still_on_its_way_counts_as_open() -> None:
    stage = Stage(cash=50_000_000)
    intent = stage.buy(100, 27_000)
    stage.send(intent)

    ended(stage)
    stage.after(1).book()
    stage.account()

    (note,) = summaries(stage)
    assert note.numbers["orders open"] == 1


def test_a_day_that_nobody_compared_is_summed_up_before_the_next_begins() -> None:
    stage = Stage(cash=50_000_000)

    ended(stage)
    assert summaries(stage) == []
    stage.now += timedelta(hours=17)
    stage.handle(TradingDayStarted(stage.now, DAY + timedelta(days=1)))

    (note,) = summaries(stage)
    assert note.numbers["day"] == "2026-11-19"
