"""A recorded run is decided again as it was, and whatever is not is found at its call."""

import asyncio
import builtins
import json
import shutil
from collections.abc import Iterator, Sequence
from datetime import date, time, timedelta
from functools import partial
from pathlib import Path

import pytest

from bot.domain.errors import Fault
from bot.engine.settings import StrategyFault
from bot.runtime.history.backtest.what_if import trade_again, what_if
from bot.runtime.history.recording.recordings import (
    GAP,
    OpenPart,
    Row,
    Unusable,
    parts_of,
    rows_of,
    runs_of,
    sealed,
)
from bot.runtime.history.recording.replay import Player, recorded_runs, replay_day
from bot.sandbox.markets.mirror.model import FillName
from bot.strategy import Strategy
from tests.rows import every_row
from tests.staging import QUIET
from tests.story import once, tell, write_project

DAY = date(2026, 11, 19)
ZLIB = b"\x78\x9c"
"""What a block begins with."""
DONE = {"nothing": 0}
BROKEN = partial(int, "x")
LUCKY = """
import builtins

from bot import Strategy


class Lucky(Strategy):
    def on_quote(self, quote):
        builtins.vnbot_luck = getattr(builtins, "vnbot_luck", 0) + 1
        if builtins.vnbot_luck == 20:
            self.buy(100, limit=27_500, why="luck")
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with two runs of one day in its recording."""
    folder = tmp_path_factory.mktemp("recorded")
    strategies = [once(), once("lucky", use="lucky", params={})]
    config = write_project(folder, scenario=QUIET, strategies=strategies, record=True)
    (folder / "strategies" / "lucky.py").write_text(LUCKY)
    for _ in range(2):
        asyncio.run(tell(config, minutes=3))
    return folder


@pytest.fixture
def state(project: Path, tmp_path: Path) -> Path:
    """A copy of its state folder, to be damaged."""
    shutil.copytree(project / "state" / "recorded", tmp_path / "recorded")
    return tmp_path


@pytest.fixture(autouse=True)
def luck() -> Iterator[None]:
    """What the lucky strategy reads beside its events, as it was before the first run."""
    builtins.__dict__.pop("vnbot_luck", None)
    yield
    builtins.__dict__.pop("vnbot_luck", None)


def rewritten(folder: Path, rows: Sequence[Row], *, parts: int = 1) -> None:
    """Put other rows in place of a run's own."""
    for path in folder.glob("part-*"):
        path.unlink()
    for number in range(parts):
        part = OpenPart(folder, number + 1)
        part.add(rows[number * len(rows) // parts : (number + 1) * len(rows) // parts])
        part.close(parquet=False)


def rows_in(folder: Path) -> list[Row]:
    return [row for part in parts_of(folder) for row in rows_of(part)]


def test_what_a_run_decided_is_decided_again(state: Path) -> None:
    found = replay_day(state, DAY)

    assert [(run.run, run.difference, run.damage, run.ended) for run in found.runs] == [
        (1, None, "", ""),
        (2, None, "", ""),
    ]
    assert found.decisions > 2
    assert found.is_equal


STARTED = """
from bot import Strategy

BEGUN = []


class Started(Strategy):
    def on_start(self):
        BEGUN.append(self.symbol)
        print(f"begun {len(BEGUN)} times")
"""


def test_other_strategies_begin_each_run_of_a_day_as_after_a_restart(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "started.py").write_text(STARTED)
    file = tmp_path / "started.yaml"
    file.write_text(json.dumps(once("started", use="started.py:Started", params={})))

    what_if(project / "state", DAY, [file])

    assert capsys.readouterr().err == "begun 1 times\n" * 2


@every_row("fill", ["touch", "depth", "queue"])
def test_a_recorded_day_traded_again_has_the_same_orders_and_fills(
    project: Path, fill: FillName
) -> None:
    builtins.__dict__.pop("vnbot_luck", None)

    found = trade_again(project / "state", DAY, fill=fill)

    assert len(found.recorded) == 2
    assert found.counts()["the same order"] == 2
    assert found.counts()["the same fill"] == 2
    assert found.counts()["only played"] == 0


def test_a_strategy_that_looks_elsewhere_is_found_at_its_call(state: Path) -> None:
    builtins.__dict__["vnbot_luck"] = 5

    [first, second] = replay_day(state, DAY).runs

    assert first.difference is not None
    assert first.difference.event.startswith("QuoteReceived(")
    assert not any("why='luck'" in each for each in first.difference.recorded)
    assert any("why='luck'" in each for each in first.difference.now)
    assert second.difference is None


def test_a_flipped_byte_is_found_and_what_was_before_it_is_replayed(state: Path) -> None:
    folder = runs_of(state, DAY)[0]
    rows = rows_in(folder)
    bad = rows[50]._replace(event=rows[50].event.replace("HPG", "HPH"), commands="[]")
    rewritten(folder, [*rows[:50], bad, *rows[51:]])

    [first, second] = replay_day(state, DAY).runs

    assert "damaged at call 51" in first.damage
    assert (first.difference, second.damage) == (None, "")


@every_row("suffix", ["parquet", "db"])
def test_a_part_whose_bytes_were_changed_is_not_read(
    project: Path, suffix: str, tmp_path: Path
) -> None:
    folder = tmp_path / suffix
    folder.mkdir()
    part = OpenPart(folder, 1)
    part.add(rows_in(runs_of(project / "state", DAY)[0]))
    part.close(parquet=suffix == "parquet")
    [path] = parts_of(folder)
    data = bytearray(path.read_bytes())
    data[data.index(ZLIB if suffix == "db" else b"PAR1") + 1_000] ^= 1
    path.write_bytes(data)

    with pytest.raises(Unusable, match="damaged"):
        list(rows_of(path))


def test_both_forms_of_a_part_hold_the_same(project: Path, tmp_path: Path) -> None:
    rows = rows_in(runs_of(project / "state", DAY)[0])
    found = []
    for parquet in (True, False):
        folder = tmp_path / str(parquet)
        folder.mkdir()
        part = OpenPart(folder, 1)
        part.add(rows[:50])
        part.add(rows[50:])
        part.close(parquet=parquet)
        found.append(rows_in(folder))

    assert found == [rows, rows]


def test_a_missing_part_is_named(state: Path) -> None:
    folder = runs_of(state, DAY)[0]
    rewritten(folder, rows_in(folder), parts=3)
    (folder / "part-0002.db").unlink()

    assert "part 2 of 3 is missing" in replay_day(state, DAY).runs[0].damage


def test_a_missing_first_part_is_named(state: Path) -> None:
    folder = runs_of(state, DAY)[0]
    rewritten(folder, rows_in(folder), parts=2)
    (folder / "part-0001.db").unlink()

    assert "part 1 of 2 is missing" in replay_day(state, DAY).runs[0].damage


@every_row("parts", [1, 3])
def test_a_last_part_that_is_gone_is_named_with_its_time(
    project: Path, parts: int, tmp_path: Path
) -> None:
    shutil.copytree(project / "state" / "recorded", tmp_path / str(parts) / "recorded")
    folder = runs_of(tmp_path / str(parts), DAY)[0]
    rewritten(folder, rows_in(folder), parts=parts)
    (folder / f"part-{parts:04}.db").unlink()

    first = replay_day(tmp_path / str(parts), DAY).runs[0]

    assert f"part {parts} of {parts} is missing; it began 2026-11-19 09:2" in first.damage
    assert first.ended == ""


def test_a_run_that_has_nothing_yet_says_so_and_is_no_fault(state: Path) -> None:
    folder = runs_of(state, DAY)[1]
    for path in (*folder.glob("part-*"), folder / "begun"):
        path.unlink()

    found = replay_day(state, DAY)

    assert found.is_equal
    assert found.runs[1].ended.startswith("has nothing recorded yet")


def test_a_run_that_was_killed_before_its_head_says_so_and_is_no_fault(state: Path) -> None:
    folder = runs_of(state, DAY)[1].with_name("run=000003")
    folder.mkdir()
    (folder / "head.json.new").touch()

    found = replay_day(state, DAY)

    assert found.is_equal
    assert [run.ended for run in found.runs][:2] == ["", ""]
    assert found.runs[2].ended.startswith("has nothing recorded yet")
    assert recorded_runs(state, DAY) == runs_of(state, DAY)[:2]


def test_a_part_that_a_kill_left_empty_is_no_damage_and_one_that_lost_all_is(state: Path) -> None:
    folder = runs_of(state, DAY)[0]
    rewritten(folder, rows_in(folder)[:60])
    (folder / "part-0002.db").touch()

    first = replay_day(state, DAY).runs[0]
    assert (first.difference, first.damage) == (None, "")
    assert first.ended.startswith("was cut off at 09:2")
    with (folder / "begun").open("a") as begun:
        begun.write("2 1795000000\n")

    with pytest.raises(Unusable, match=r"part-0002\.db: damaged"):
        rows_in(folder)


def test_a_run_that_was_cut_off_says_so_and_is_equal_up_to_there(state: Path) -> None:
    folder = runs_of(state, DAY)[0]
    rewritten(folder, rows_in(folder)[:60])

    first = replay_day(state, DAY).runs[0]

    assert first.ended.startswith("was cut off at 09:2")
    assert (first.difference, first.damage) == (None, "")


def test_a_gap_ends_the_replay_of_its_run(state: Path) -> None:
    folder = runs_of(state, DAY)[0]
    rows = rows_in(folder)[:60]
    gap = Row(61, rows[-1].at_us, GAP, "[7]", "", "", "")
    rewritten(folder, [*rows, gap._replace(seal=sealed(rows[-1].seal, gap, ""))])

    assert replay_day(state, DAY).runs[0].damage == "7 events were not recorded after call 60"


def test_a_recording_of_another_release_is_named(state: Path) -> None:
    head = runs_of(state, DAY)[0] / "head.json"
    facts = json.loads(head.read_text())
    head.write_text(json.dumps({**facts, "format": 9, "version": "7.1"}))

    [first, second] = replay_day(state, DAY).runs

    assert "a recording of format 9, by vnbot 7.1; this release reads format 1" in first.damage
    assert second.damage == ""


def test_an_event_that_this_release_does_not_have_is_named(state: Path) -> None:
    head = runs_of(state, DAY)[0] / "head.json"
    facts = json.loads(head.read_text())
    shapes = {**facts["shapes"], "Head": [*facts["shapes"]["Head"], "moon"]}
    head.write_text(json.dumps({**facts, "shapes": shapes, "version": "7.1"}))

    damage = replay_day(state, DAY).runs[0].damage
    assert "by vnbot 7.1, with a Head with moon: replay it with the program that" in damage


def test_a_day_without_a_recording_names_those_that_have_one(state: Path) -> None:
    with pytest.raises(Unusable, match=r"of 2026-11-18\. Recorded days: 2026-11-19"):
        replay_day(state, date(2026, 11, 18))


def test_a_plug_in_that_was_changed_since_is_named(project: Path, state: Path) -> None:
    plug_in = project / "strategies" / "lucky.py"
    plug_in.write_text(f"{LUCKY}\n# changed\n")

    [first, _] = replay_day(state, DAY).runs

    plug_in.write_text(LUCKY)
    assert [Path(each).name for each in first.changed] == ["lucky.py"]
    assert first.difference is None


def test_a_run_over_two_days_is_replayed_from_its_beginning(state: Path) -> None:
    later = day_after(state)

    found = replay_day(state, later)

    assert [(run.run, run.difference, run.damage) for run in found.runs] == [(1, None, "")]
    assert replay_day(state, DAY).runs[0].ended == "goes on the next day"


def test_a_run_whose_first_day_is_kept_no_longer_says_so(state: Path) -> None:
    later = day_after(state)
    shutil.rmtree(runs_of(state, DAY)[0].parent)

    damage = replay_day(state, later).runs[0].damage

    assert "run 1 began on 2026-11-19, which is kept no longer (record_days)" in damage


def day_after(state: Path) -> date:
    """Move the second half of the first run to the next day."""
    first, later = runs_of(state, DAY)[0], DAY + timedelta(days=1)
    rows, second = rows_in(first), state / "recorded" / f"date={later}" / first.name
    second.mkdir(parents=True)
    shutil.copy(first / "head.json", second)
    rewritten(first, rows[:40])
    rewritten(second, rows[40:])
    return later


class Hasty(Strategy):
    """Has a hook for each way to end."""

    def on_start(self) -> None:
        raise ValueError("as ever")

    def on_stop(self) -> None:
        pass

    def on_timer(self, timer: time) -> None:
        raise AssertionError(f"a replay calls no hook that was stuck: {timer}")


OVERRUN = StrategyFault("took longer than 0.25 s", is_overrun=True)
STUCK = StrategyFault("did not return for 5 s", is_overrun=False, is_stuck=True)
RAISED = StrategyFault("ValueError: as ever (old.py:7)", is_overrun=False)


@pytest.mark.parametrize(
    ("hook", "recorded", "played"),
    [
        ("on_stop", OVERRUN, OVERRUN),
        ("on_timer", STUCK, STUCK),
        ("on_start", RAISED, RAISED),
        ("on_stop", RAISED, None),
        ("on_stop", None, None),
    ],
)
def test_a_hook_overruns_again_and_raises_only_where_it_raises(
    hook: str, recorded: StrategyFault | None, played: StrategyFault | None
) -> None:
    player = Player()
    if recorded is not None:
        player.script.hooks[0] = recorded

    assert player.invoke(Hasty(), hook, None) == played


def test_what_a_step_raised_is_raised_with_the_recorded_words() -> None:
    fault, player = Fault("ValueError at x.py:1", "ValueError: x", "a trace"), Player()
    player.script.steps[1] = fault

    first, second, third = (player.guard(step) for step in (DONE.copy, BROKEN, DONE.copy))

    assert (first, second, third) == (None, fault, None)


def test_a_turn_ends_between_the_same_hooks() -> None:
    player = Player()
    player.script.yields = frozenset({1})

    assert [player.must_yield() for _ in range(3)] == [False, True, False]
