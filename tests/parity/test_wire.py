"""The same story in process and over HTTP, by our carrier and by httpx, paced or not, twice over,
and on both databases.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from bot.broker import broker
from bot.broker.http import HttpxLink
from bot.broker.link import Link, Traffic
from bot.config.settings.load import load_settings
from bot.domain.entry import AttemptFinished, Entry, OrderResultSeen
from bot.protocol.endpoints.endpoint import Lane
from bot.runtime.run import run_bot
from bot.runtime.run_controls import RunOptions
from bot.runtime.start.broker import make_environment
from tests.staging import QUIET
from tests.story import Shown, once, tell, write_project

MINUTES = 6
FAULTS = [
    {"match": {"at": "09:21:30"}, "action": {"do": "too_many", "reset_s": 20}},
    {"match": {"at": "09:23:00"}, "action": {"do": "drop_2fa"}},
]


def _project(folder: Path, url: str | None = None, **settings: object) -> Path:
    resting = once(
        "resting",
        params={"price": 26_000},
        order={"size": {"shares": 100}, "type": "LIMIT", "price": "ask", "expire": "90s"},
    )
    return write_project(
        folder,
        scenario={**QUIET, "faults": FAULTS},
        strategies=[once(), resting],
        journal_url=url,
        **settings,
    )


def _told(entries: Sequence[Entry]) -> list[Entry]:
    """What is left when the wall clock's and the nonces' part is taken out."""
    return [_timeless(entry) for entry in entries]


def _timeless(entry: Entry) -> Entry:
    match entry:
        case AttemptFinished():
            return replace(entry, attempt_id="", latency_ms=0)
        case OrderResultSeen():
            return replace(entry, attempt_id="")
    return entry


async def _in_process(folder: Path, url: str | None = None) -> list[Entry]:
    config = _project(folder, url)
    story = await tell(config, minutes=MINUTES, answer_otp_after=timedelta(seconds=40))
    return _told(story.shown.entries)


@pytest.fixture(scope="module")
async def in_process(tmp_path_factory: pytest.TempPathFactory) -> list[Entry]:
    """The story as it is told in this process, on SQLite."""
    return await _in_process(tmp_path_factory.mktemp("in process"))


async def test_the_same_seed_tells_the_same_story_twice(
    tmp_path: Path, in_process: list[Entry]
) -> None:
    assert await _in_process(tmp_path) == in_process


@pytest.mark.wire
@pytest.mark.parametrize("is_all_httpx", [False, True], ids=["our carrier", "httpx"])
async def test_over_http_and_at_a_pace_it_is_the_same_story(
    tmp_path: Path,
    in_process: list[Entry],
    monkeypatch: pytest.MonkeyPatch,
    is_all_httpx: bool,
) -> None:
    shown, carried = Shown(), dict[Lane, Link]()
    connect_lanes = broker.connect_lanes

    def connected(base_url: str, *, traffic: Traffic, app: None) -> Mapping[Lane, Link]:
        if is_all_httpx:
            carried.update({lane: broker.connect(base_url, traffic=traffic) for lane in Lane})
        else:
            carried.update(connect_lanes(base_url, traffic=traffic, app=app))
        return carried

    monkeypatch.setattr(broker, "connect_lanes", connected)
    options = RunOptions(run_for=timedelta(minutes=MINUTES), answer_otp_after=timedelta(seconds=40))
    config = _project(tmp_path, sandbox={"scenario": "story.yaml", "speed": 100_000, "port": 0})
    await run_bot(load_settings(config), options, shown, make=make_environment)

    by_httpx = {lane for lane, link in carried.items() if isinstance(link, HttpxLink)}
    assert by_httpx == (set(Lane) if is_all_httpx else {Lane.OTHER})
    assert _told(shown.entries) == in_process


@pytest.mark.postgres
async def test_on_postgres_it_is_the_same_story(
    tmp_path: Path, postgres_url: str, in_process: list[Entry]
) -> None:
    assert await _in_process(tmp_path, postgres_url) == in_process
