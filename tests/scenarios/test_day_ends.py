"""A day's last comparison outlives a restart: it is made once, by the run that comes to it, and a
day that nobody compared is told of once.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time, timedelta
from pathlib import Path

import pytest

from bot.config.scenario_file import load_scenario
from bot.config.settings.load import Loaded, load_settings
from bot.domain.entry import DAY_NOTE, MISSED_NOTE, PRUNED_NOTE, Entry, Fill, Note
from bot.domain.local_time import instant_of, local_of
from bot.journal.database.schema import migrate
from bot.journal.journal import Journal
from bot.journal.reading.events import NOT_COMPARED
from bot.runtime.run import run_bot
from bot.runtime.run_controls import RunOptions
from bot.runtime.worlds.environment import EnvironmentSpec
from bot.runtime.worlds.paper_account import Beginning
from bot.runtime.worlds.sandbox import wake_sandbox
from bot.sandbox.faults.script import FaultScript
from bot.sandbox.sandbox import Sandbox
from tests.journal.facts import but
from tests.journal.reading.test_folding import NO
from tests.paper_story import SteppedPaper, real_broker, tell_paper
from tests.sandbox.client import scenario as real_scenario
from tests.staging import DAY, QUIET
from tests.story import InProcessEnvironment, Shown, once, write_project

START = time(14, 25, 20)
"""A pulse comes every five minutes from here, one 20 s after the day's end."""
BOOK: Mapping[str, object] = {"verb": "GET", "path": "*/order-book", "times": 0}
ENDED_BEFORE = "day's end, due 15:15:00: run once, late: the bot stopped before it was done"
DOWN_THEN = "day's end, due 15:15:00: run once, late: the bot was down"


def _project(folder: Path, start: time = START, **settings: object) -> Path:
    """From 15:14 on the day order book contradicts the fill of the day: that takes 60 s to judge,
    and after 15:20 it agrees.
    """
    match = {**BOOK, "at": "15:14:00", "until": "15:20:00"}
    fault = {"match": match, "action": {"do": "set_fields", "fields": {"execqtty": -5}}}
    scenario = {**QUIET, "start": start.isoformat(), "faults": [fault]}
    return write_project(folder, scenario=scenario, strategies=[once()], **settings)  # type: ignore[arg-type]


@dataclass
class Seen(Shown):
    """A screen that says when it was told of its first entry, and calls `end` at the first pulse
    after the day's end.
    """

    begun: asyncio.Event = field(default_factory=asyncio.Event)
    end: Callable[[], object] = lambda: None

    def entry(self, entry: Entry) -> None:
        super().entry(entry)
        self.begun.set()
        if isinstance(entry, Note) and entry.kind == "PULSE" and entry.at >= _at(time(15, 15)):
            self.end()


def _at(local: time, day: date = DAY) -> datetime:
    return instant_of(day, local)


def _world(broker: Loaded, at: datetime | None, spec: EnvironmentSpec) -> InProcessEnvironment:
    """The broker goes on where the last run left it, or later."""
    script = load_scenario(broker.settings.sandbox.scenario, broker.base_dir)
    sandbox, clock = wake_sandbox(replace(spec, loaded=broker), script)
    if at is not None:
        clock.advance_to(at)
        sandbox.advance(at)
    return InProcessEnvironment(sandbox, clock, spec)


async def _run(
    config: Path,
    until: datetime,
    *,
    at: datetime | None = None,
    shown: Shown | None = None,
    standby: Path | None = None,
) -> list[Note]:
    """Run until then, from `at` on if that is given; return what was noted. A standby has a state
    directory of its own.
    """
    loaded, shown = load_settings(config), shown or Shown()
    begun = local_of(load_scenario("story.yaml", loaded.base_dir).starts_at)
    options, ours = RunOptions(run_for=until - begun, is_standby=standby is not None), loaded
    if standby is not None:
        ours = load_settings(config, environment={"BOT_STATE_DIR": str(standby)})
    await run_bot(ours, options, shown, make=lambda spec: _world(loaded, at, spec))
    shown.require_no_fault()
    return shown.all(Note)


async def _killed(config: Path) -> None:
    """Run over the day's end and die 20 s later without a word: to the journal it was killed."""
    shown = Seen()
    others = asyncio.all_tasks()
    task = asyncio.create_task(_run(config, _at(time(16)), shown=shown))
    shown.end = task.cancel
    with suppress(asyncio.CancelledError):
        await task
    left = asyncio.all_tasks() - others
    for each in left:
        each.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    assert _told(shown.all(Note)) == []


def _told(notes: list[Note]) -> list[str]:
    """What was said of a day's end: that it was late, what it found, and its one entry."""
    alerts = {"BREAK", "DAY_UNSETTLED", NOT_COMPARED}
    return [
        note.text if note.kind == MISSED_NOTE else str(note.numbers.get("alert", note.kind))
        for note in notes
        if note.kind in {DAY_NOTE, MISSED_NOTE, "RECONCILE"} or note.numbers.get("alert") in alerts
    ]


PLACES: Mapping[str, object] = {"verb": "POST", "path": "*/orders"}
STILL = {"symbol": "HPG", "exchange": "HOSE", "reference": 27_000, "swing_ticks": 0}
ACCOUNT = {"depository_number": "120C900001", "type": "Margin", "name": "A", "cash": 900_000_000}

COMPARED = ["BREAK", "DAY_UNSETTLED", DAY_NOTE]


async def test_a_stop_and_two_restarts_lose_no_comparison_and_repeat_none(tmp_path: Path) -> None:
    config = _project(tmp_path)

    ends = time(15, 15, 20), time(15, 16), time(15, 19), time(16)
    told = [_told(await _run(config, _at(each))) for each in ends]

    assert told == [[], [ENDED_BEFORE], [ENDED_BEFORE, *COMPARED], []]


async def test_a_bot_that_is_killed_meanwhile_compares_when_it_is_back(tmp_path: Path) -> None:
    config = _project(tmp_path)
    await _killed(config)

    back = _told(await _run(config, _at(time(15, 19))))
    again = _told(await _run(config, _at(time(16))))

    assert (back, again) == ([ENDED_BEFORE, *COMPARED], [])


async def test_a_restart_in_the_evening_compares_the_day_as_well(tmp_path: Path) -> None:
    config = _project(tmp_path)
    await _killed(config)

    back = _told(await _run(config, _at(time(21, 30)), at=_at(time(21))))

    assert back == [ENDED_BEFORE, "RECONCILE", DAY_NOTE]


async def test_what_a_missed_close_would_have_deleted_goes_at_a_start_outside_trading_hours(
    tmp_path: Path,
) -> None:
    config, next_day = _project(tmp_path, time(14, 44)), DAY + timedelta(days=1)
    url, long_ago = load_settings(config).journal_url, _at(time(10)) - timedelta(days=200)
    migrate(url)
    journal = Journal.open(url)
    await journal.write([but(NO, at=long_ago, why=f"no {number}") for number in range(5)])
    await journal.close()

    while_open = await _run(config, _at(time(15, 5)))
    next_morning = await _run(config, _at(time(8, 20), next_day), at=_at(time(8), next_day))
    again = await _run(config, _at(time(8, 40), next_day))

    told = [
        [each.text for each in notes if each.kind == PRUNED_NOTE]
        for notes in (while_open, next_morning, again)
    ]
    assert told == [[], ["deleted by journal.keep: 5 rows of decisions"], []]


@pytest.mark.postgres
async def test_a_standby_that_takes_over_meanwhile_makes_the_comparison(
    tmp_path: Path, own_postgres_url: str
) -> None:
    served = {"base_url": "http://127.0.0.1:1", "requests_per_minute": 3000}
    config = _project(tmp_path, journal_url=own_postgres_url, broker=served)
    seen, shown = Seen(), Shown()
    first = asyncio.create_task(_run(config, _at(time(15, 15, 20)), shown=seen))
    await seen.begun.wait()

    notes = await _run(config, _at(time(15, 19)), shown=shown, standby=tmp_path / "second")

    assert _told(await first) == []
    assert any("holds the journal since" in text for name, text in shown.rows if name == "standby")
    assert _told(notes) == [ENDED_BEFORE, *COMPARED]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "back_at",
    [
        _at(time(3), DAY + timedelta(days=1)),
        _at(time(10), DAY + timedelta(days=2)),
        _at(time(9, 30), DAY + timedelta(days=5)),
    ],
)
async def test_a_day_that_is_over_by_the_restart_is_told_as_not_compared_once(
    tmp_path: Path, back_at: datetime
) -> None:
    config = _project(tmp_path)
    await _killed(config)

    back = await _run(config, back_at + timedelta(minutes=1), at=back_at)
    again = await _run(config, back_at + timedelta(minutes=2))

    [alert] = [note for note in back if note.numbers.get("alert") == NOT_COMPARED]
    assert alert.numbers["day"] == DAY.isoformat()
    assert NOT_COMPARED not in _told(again)


async def test_a_bot_of_that_morning_is_told_of_its_day_as_before(tmp_path: Path) -> None:
    config = _project(tmp_path)
    await _run(config, _at(time(14, 40)))

    back = _told(await _run(config, _at(time(15, 30)), at=_at(time(15, 25))))

    assert back == [DOWN_THEN, "RECONCILE", DAY_NOTE]


async def test_a_bot_whose_first_start_is_in_the_evening_compares_no_day_that_it_did_not_trade(
    tmp_path: Path,
) -> None:
    config = _project(tmp_path, start=time(20))

    notes = await _run(config, _at(time(20, 1)))
    notes += await _run(config, _at(time(20, 30)))
    night = _at(time(7), DAY + timedelta(days=1))
    notes += await _run(config, night + timedelta(minutes=1), at=night)

    assert _told(notes) == []


LOST = [
    {"match": PLACES, "action": {"do": "hide_row", "seconds": 1500}},
    {"match": PLACES, "point": "after_apply", "action": {"do": "rst"}},
]


@pytest.mark.parametrize("faults", [[], LOST], ids=["open", "lost"])
async def test_a_day_on_another_account_ends_no_order_of_the_first(
    tmp_path: Path, faults: list[object]
) -> None:
    """It fills while no bot reads its account; the first run there learns of it."""
    known = [{"id": f"000900001{n}", "suffix": f".{n}", **ACCOUNT} for n in (1, 6)]
    sold = {"at": "14:28:00", "do": "give", "price": 26_800, "volume": 900_000}
    listed = [{**STILL, "deals": [sold]}]
    scenario = {
        **QUIET,
        "start": START.isoformat(),
        "accounts": known,
        "symbols": listed,
        "faults": faults,
    }
    broker = {"requests_per_minute": 3000}
    ours, other = ({**broker, "account": account} for account in (".1", ".6"))
    placed = [once(params={"price": 26_850})]
    idle = [once(mode="watch")]
    config = write_project(tmp_path, scenario=scenario, strategies=placed, broker=ours)
    await _run(config, _at(time(14, 27)))
    morning = DAY + timedelta(days=1)

    write_project(tmp_path, scenario=scenario, strategies=idle, broker=other)
    there = await _run(config, _at(time(9, 30), morning), at=_at(time(9, 20), morning))
    write_project(tmp_path, scenario=scenario, strategies=idle, broker=ours)
    back = Shown()
    here = await _run(config, _at(time(9, 40), morning), at=_at(time(9, 31), morning), shown=back)

    assert [fill.quantity for fill in back.all(Fill)] == [100]
    told = [str(note.numbers.get("alert", "")) for note in there + here if note.kind == "ALERT"]
    assert set(told) == {"OTHER_ACCOUNT"}


class _Unread(SteppedPaper):
    """A paper broker whose day order book cannot be read from 15:14 to 15:18."""

    def _sandbox(self, beginning: Beginning) -> Sandbox:
        sandbox = super()._sandbox(beginning)
        match = {**BOOK, "at": "15:14:00", "until": "15:18:00"}
        sandbox.add_fault(FaultScript.model_validate({"match": match, "action": {"do": "rst"}}))
        return sandbox


async def test_a_paper_bot_compares_after_a_restart_as_well(tmp_path: Path) -> None:
    broker = {"base_url": "http://127.0.0.1:1", "requests_per_minute": 3000}
    strategies = [once(params={"price": 26_000})]
    config = write_project(
        tmp_path, scenario="quiet", strategies=strategies, mode="paper", broker=broker
    )
    told = []

    for environment, begun in ((_Unread, time(15, 13)), (SteppedPaper, time(15, 20))):
        folder = tmp_path / f"{begun:%H%M}"
        folder.mkdir()
        real = real_broker(real_scenario(), folder, _at(begun))
        story = await tell_paper(config, real, minutes=4, make=environment)
        told.append(_told(story.shown.all(Note)))

    assert told == [[], [ENDED_BEFORE, "RECONCILE", DAY_NOTE]]
