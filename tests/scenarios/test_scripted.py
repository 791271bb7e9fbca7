"""What the scenario of an embedded sandbox forces says so, on the screen and in the journal."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bot.cli.telling.narrator import Narrator
from tests.cli.stage import call
from tests.staging import QUIET
from tests.story import Story, once, tell, write_project

MARK = "(scripted by scenario story)"
DEEP: dict[str, Any] = {**QUIET, "name": "story"}


def lines_of(story: Story) -> list[str]:
    narrator = Narrator()
    return [line for entry in story.shown.entries for line in narrator.lines_of(entry)]


def line_of(story: Story, word: str) -> str:
    """The line of that word with what continues it, as one."""
    lines = lines_of(story)
    at = next(number for number, line in enumerate(lines) if line[9:].startswith(word))
    below = [line for line in lines[at + 1 : at + 3] if line.startswith(" ")]
    return " ".join([lines[at], *below])


def journalled(story: Story, table: str, column: str) -> list[str]:
    with closing(sqlite3.connect(story.loaded.state_dir / "journal.db")) as connection:
        return [row[0] for row in connection.execute(f"select {column} from {table}")]


async def told(
    folder: Path, *, minutes: float = 4, scenario: dict[str, Any] | None = None, **plan: object
) -> Story:
    config = write_project(folder, scenario=scenario or DEEP, strategies=[once(**plan)])
    return await tell(config, minutes=minutes)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("match", "action", "word", "table", "column"),
    [
        (
            {"verb": "POST", "path": "*/orders"},
            {"do": "reject", "code": "-900017"},
            "REJECT",
            "orders",
            "note",
        ),
        (
            {"verb": "POST", "path": "*/orders"},
            {"do": "status", "status": 400},
            "REJECT",
            "transitions",
            "note",
        ),
        (
            {"verb": "POST", "path": "*/orders"},
            {"do": "rst"},
            "UNKNOWN",
            "attempts",
            "reason",
        ),
        ({"at": "09:22:00"}, {"do": "too_many", "reset_s": 30}, "LIMIT", "notes", "text"),
        (
            {"verb": "POST", "path": "*/orders"},
            {"do": "drop_2fa", "code": "OTP_SESSION_EXPIRED"},
            "PAUSED",
            "auth_events",
            "detail",
        ),
    ],
    ids=["rejected", "refused", "lost", "limited", "token lost"],
)
async def test_what_a_fault_forces_says_so_in_its_line_and_its_row(
    tmp_path: Path,
    match: dict[str, object],
    action: dict[str, object],
    word: str,
    table: str,
    column: str,
) -> None:
    scenario = {**DEEP, "faults": [{"match": match, "action": action}]}

    story = await told(tmp_path, scenario=scenario)

    assert MARK in line_of(story, word)
    assert any(text.endswith(MARK) for text in journalled(story, table, column))


async def test_a_fill_of_a_part_before_scripted_levels_says_so(tmp_path: Path) -> None:
    symbol = {**DEEP["symbols"][0]}
    standstill = {"at": "09:20:00", "until": "09:40:00", "asks": [[27_050, 100]]}
    symbol["standstills"] = [{**standstill, "bids": [[26_900, 500]]}]

    story = await told(
        tmp_path,
        scenario={**DEEP, "symbols": [symbol]},
        params={"price": 27_100, "shares": 300},
    )

    assert MARK in line_of(story, "PARTIAL")
    assert MARK in journalled(story, "transitions", "note")


async def test_an_order_that_a_scripted_halt_refuses_says_so(tmp_path: Path) -> None:
    symbol = {**DEEP["symbols"][0], "halts": [{"at": "09:20", "until": "09:40"}]}

    story = await told(tmp_path, scenario={**DEEP, "symbols": [symbol]}, minutes=1)

    assert MARK in line_of(story, "REJECT")
    assert MARK in journalled(story, "orders", "note")


async def test_what_the_market_and_the_rules_do_carries_no_mark(tmp_path: Path) -> None:
    """A price outside the band is refused by the rules, the rest just trades."""
    other = once("wild", params={"price": 50_000}, limits={"max_order_value": 500_000_000})
    config = write_project(tmp_path, scenario=DEEP, strategies=[once(), other])

    story = await tell(config, minutes=5)

    assert not [line for line in lines_of(story) if "scripted" in line]


async def test_what_was_forced_is_told_by_those_who_look_later(tmp_path: Path) -> None:
    reject = {"match": {"verb": "POST", "path": "*/orders"}, "action": {"do": "reject"}}
    config = write_project(tmp_path, scenario={**DEEP, "faults": [reject]}, strategies=[once()])
    await tell(config, minutes=1)

    listed = call("orders", "-o", "wide", "-c", str(config)).out
    story = call("order", "L-0001", "--timeline", "-c", str(config)).out

    assert MARK in listed
    assert f'" {MARK}' in story, "beside the broker's words, not among them"
