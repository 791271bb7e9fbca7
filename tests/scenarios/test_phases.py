"""A boundary at which the broker does not say the new phase: one failed or early read of it must
not cost a session.
"""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from bot.domain.entry import Decision, Note
from bot.domain.instrument import EXCHANGE_TZ, Phase
from bot.sandbox.api.reads import MarketReads
from tests.staging import QUIET
from tests.story import Story, once, tell, write_project

PATH = "/trading/market/session"
AT_ONE = {"verb": "GET", "path": PATH, "at": "12:59:50"}
FAILS = {"match": {**AT_ONE, "times": 3}, "action": {"do": "status", "status": 500}}
"""Three tries of one read."""
HANGS = {"match": {**AT_ONE, "times": 1}, "action": {"do": "hang", "seconds": 20}}
DEAD = {"match": {**AT_ONE, "times": 0}, "action": {"do": "status", "status": 503}}
EAGER = """
from bot import Strategy

class Eager(Strategy):
    def on_session(self, phase):
        self.skip(f"in {phase}")

    def on_quote(self, quote):
        self.buy(100, limit=26_000, why="eager")
"""


AT_A_BAR = """
from bot import Strategy

class AtABar(Strategy):
    clock: str

    def on_bar(self, bar):
        if f"{bar.start.hour + 7}:{bar.start.minute:02}" == self.clock:
            self.buy(700, limit=27_500, why="as it closes")
"""
"""A bar of one minute closes in the very second in which the phase turns."""


async def told(folder: Path, *faults: object, start: str = "12:55:00", minutes: int = 10) -> Story:
    scenario = {**QUIET, "start": start, "faults": faults}
    eager = once("eager", use="eager", params={}, wake={"quote": "10s", "session": True})
    config = write_project(folder, scenario=scenario, strategies=[eager])
    (folder / "strategies" / "eager.py").write_text(EAGER)
    return await tell(config, minutes=minutes)


def refused(story: Story) -> int:
    """For how many seconds of the afternoon's session orders were refused for the phase."""
    blocks = [each.at for each in story.shown.all(Decision) if each.code == "PHASE"]
    clocks = [each.astimezone(EXCHANGE_TZ) for each in blocks]
    afternoon = [each for each in clocks if each.hour == 13]
    return int((max(afternoon) - min(afternoon)).total_seconds()) if afternoon else 0


def sessions(story: Story) -> list[str]:
    return [each.why for each in story.shown.all(Decision) if each.why.startswith("in ")]


def alerts(story: Story) -> list[object]:
    notes = story.shown.all(Note)
    return [note.numbers.get("alert") for note in notes if note.kind == "ALERT"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("fault", [FAILS, HANGS], ids=["fails", "hangs"])
async def test_a_failed_read_at_a_boundary_is_made_again(tmp_path: Path, fault: object) -> None:
    story = await told(tmp_path, fault)

    assert refused(story) <= 25
    assert len(story.posts()) == 1
    assert f"in {Phase.PROGRESS}" in sessions(story)


async def test_without_any_read_the_timetable_holds_and_that_is_said(tmp_path: Path) -> None:
    story = await told(tmp_path, DEAD)

    assert refused(story) <= 10
    assert len(story.posts()) == 1
    assert f"in {Phase.PROGRESS}" in sessions(story)
    assert alerts(story) == ["READ_FAILS"]
    assert "it works" not in str(story.shown.all(Note))


async def test_a_broker_whose_phase_turns_late_is_asked_until_it_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = MarketReads.market_phase
    monkeypatch.setattr(
        MarketReads,
        "market_phase",
        lambda self, call: real(
            self, replace(call, market_at=call.market_at - timedelta(seconds=1))
        ),
    )

    story = await told(tmp_path)

    assert refused(story) <= 10
    assert len(story.posts()) == 1
    assert alerts(story) == []


@pytest.mark.parametrize(
    ("clock", "when", "account", "codes"),
    [
        ("11:28", {}, {"last_entry_s": 1}, ["OK"]),
        ("11:29", {}, {}, ["PHASE"]),
        ("14:28", {"sessions": ["continuous"]}, {}, ["OK"]),
        ("14:29", {"sessions": ["continuous"]}, {}, ["PHASE"]),
        ("14:28", {}, {"max_auction_share": "0.5%"}, ["OK"]),
        ("14:29", {}, {"max_auction_share": "0.5%"}, ["AUCTION_SHARE"]),
    ],
)
async def test_what_is_decided_as_a_phase_begins_goes_by_that_phase(
    tmp_path: Path, clock: str, when: object, account: object, codes: list[str]
) -> None:
    """At the broker it could not be taken back: over lunch it waits, in an auction it takes
    part."""
    start = f"{clock[:2]}:25:00"
    parameters = {"clock": clock}
    bars = once("bars", use="at_a_bar", params=parameters, wake={"bar": "1m"}, when=when)
    scenario, risk = {**QUIET, "start": start}, {"account": account}
    config = write_project(tmp_path, scenario=scenario, strategies=[bars], risk=risk)
    (tmp_path / "strategies" / "at_a_bar.py").write_text(AT_A_BAR)

    story = await tell(config, minutes=7)

    decided = [each.code for each in story.shown.all(Decision) if each.side is not None]
    assert decided == codes
    assert len(story.posts()) == codes.count("OK")
