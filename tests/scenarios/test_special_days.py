"""Days that are not like others: one that ends early, and one that no calendar knows."""

from datetime import date, datetime, timedelta
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from bot.domain.entry import DAY_NOTE, AuthEvent, Decision, Fill, Note, Transition
from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.order import OrderState
from tests.staging import QUIET
from tests.story import Story, once, tell, write_project

DAY = date(2026, 11, 19)


def local(at: datetime) -> str:
    return f"{at.astimezone(EXCHANGE_TZ):%H:%M}"


def rules(folder: Path, **changes: object) -> str:
    YAML(typ="safe").dump(changes, folder / "market.yaml")
    return "market.yaml"


def phases(story: Story) -> list[tuple[str, str]]:
    notes = [each for each in story.shown.all(Note) if each.kind == "PHASE"]
    return [(local(each.at), each.text) for each in notes if "HOSE" in each.text]


async def test_a_day_that_ends_early_is_closed_summed_up_and_its_orders_lapse(
    tmp_path: Path,
) -> None:
    closes = [{"date": DAY.isoformat(), "at": "10:00", "name": "trading system down"}]
    early = rules(tmp_path, early_closes=closes)
    scenario = {**QUIET, "start": "09:50:00"}
    resting = once(params={"price": 26_000})
    config = write_project(tmp_path, scenario=scenario, strategies=[resting], market_rules=early)

    story = await tell(config, minutes=30)

    assert [text for at, text in phases(story) if at == "10:00"]
    [summary] = [each for each in story.shown.all(Note) if each.kind == DAY_NOTE]
    assert local(summary.at) == "10:15"
    assert story.shown.all(Fill) == []
    last = story.shown.all(Transition)[-1]
    assert (last.to_state, local(last.at)) == (OrderState.EXPIRED, "10:00")


@pytest.mark.long
async def test_where_the_calendar_ends_it_is_told_ahead_and_nothing_is_traded_after(
    tmp_path: Path,
) -> None:
    scenario = {**QUIET, "day": date(2027, 12, 31), "start": "14:50:00"}
    config = write_project(tmp_path, scenario=scenario, strategies=[once()])

    hours = (timedelta(days=3) + timedelta(hours=20)).total_seconds() / 60
    story = await tell(config, minutes=hours, answer_otp_after=timedelta(minutes=1))

    unknown = "is in no year of the calendar, which ends on 2027-12-31: nothing is traded"
    told = [
        (f"{each.at.astimezone(EXCHANGE_TZ):%m-%d %H:%M}", each.numbers["found"])
        for each in story.shown.all(Note)
        if each.numbers.get("alert") == "MORNING_CHECK"
    ]
    assert told == [
        ("12-31 14:50", "the calendar ends on 2027-12-31: no day after is traded"),
        *((f"01-{day} 08:40", f"2028-01-{day} {unknown}") for day in ("03", "04")),
    ]
    assert [at for at, _ in phases(story) if at not in {"14:50", "15:00"}] == []
    asked = [each for each in story.shown.all(AuthEvent) if each.kind == "needed"]
    assert asked == []
    assert story.shown.all(Decision) == []
