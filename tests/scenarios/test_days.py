"""Days in one run: what belongs to a day begins anew each morning, and shares arrive at T+2.

`NIGHTS=2 pytest …` goes on into the third day, to the settlement of what was bought on the first.
"""

import os
from datetime import date, datetime, time, timedelta

import pytest

from bot.domain.entry import AccountSeen, AuthEvent, Decision, Fill
from bot.domain.instrument import EXCHANGE_TZ
from tests.story import Story, once, tell, write_project

NIGHTS = int(os.environ.get("NIGHTS", "1"))
DAYS = [date(2026, 11, 17), date(2026, 11, 18), date(2026, 11, 19)][: NIGHTS + 1]
START = time(14, 0)
END = {1: time(9, 45), 2: time(13, 30)}[NIGHTS]
SCENARIO = {
    "day": DAYS[0],
    "start": START.isoformat(),
    "symbols": [{"symbol": "HPG", "exchange": "HOSE", "reference": 27_000, "trade_chance": 0.05}],
    "quota": "PRO",
}
EAGER = """
from bot import Strategy


class Eager(Strategy):
    def on_timer(self, timer):
        self.buy(why="eager")
"""


def local(at: datetime) -> datetime:
    return at.astimezone(EXCHANGE_TZ)


def moment(day: date, at: time) -> datetime:
    return datetime.combine(day, at, EXCHANGE_TZ)


@pytest.fixture(scope="module")
async def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    folder = tmp_path_factory.mktemp("days")
    eager = once(
        "eager",
        use="eager",
        params={},
        wake={"timer": ["09:30", "09:40", "14:10", "14:12"]},
        when={"sessions": ["continuous"]},
        order={"size": {"shares": 100}, "type": "LIMIT", "price": "last +3 ticks"},
        limits={"max_order_value": 500_000_000, "max_orders_per_day": 1},
    )
    config = write_project(folder, scenario=SCENARIO, strategies=[eager])
    (folder / "strategies" / "eager.py").write_text(EAGER)
    span = moment(DAYS[-1], END) - moment(DAYS[0], START)
    minutes = span.total_seconds() / 60
    return await tell(config, minutes=minutes, answer_otp_after=timedelta(minutes=1))


@pytest.mark.long
async def test_a_limit_of_a_day_begins_anew_each_morning(story: Story) -> None:
    verdicts = [
        (local(each.at).date(), each.code) for each in story.shown.all(Decision) if each.checks
    ]

    assert verdicts[:4] == [(day, code) for day in DAYS[:2] for code in ("OK", "MAX_ORDERS")]


async def test_each_day_has_its_own_orders_and_fills(story: Story) -> None:
    days = [local(fill.at).date() for fill in story.shown.all(Fill)]

    assert days == DAYS
    assert len(story.broker_orders()) == len(DAYS)


async def test_a_token_ends_with_its_day_and_a_new_one_is_asked_for(story: Story) -> None:
    needed = [local(each.at) for each in story.shown.all(AuthEvent) if each.kind == "needed"]

    assert needed == [moment(day, time(8, 15)) for day in DAYS[1:]]


@pytest.mark.skipif(NIGHTS < 2, reason="NIGHTS=2 asks for the third day")
async def test_what_was_bought_can_be_sold_from_13_00_of_the_second_day(story: Story) -> None:
    settled = [
        local(each.at)
        for each in story.shown.all(AccountSeen)
        if any(holding.sellable for holding in each.snapshot.holdings.values())
    ]

    assert settled[0] == moment(DAYS[2], time(13))
