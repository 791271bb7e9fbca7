"""What `bot replay` says about a recorded day, and about one that is decided differently now."""

import asyncio
import json
from datetime import timedelta
from pathlib import Path

import pytest

from bot import __version__
from bot.cli.commands.replay import lines_of, problems_of
from bot.cli.main import run
from bot.config.problems import ExitCode
from bot.runtime.history.recording.differences import Difference, Told
from bot.runtime.history.recording.recordings import parts_of, runs_of
from bot.runtime.history.recording.replay import DayReplayed, RunReplayed
from tests.staging import DAY, QUIET, START
from tests.story import ONCE, once, tell, write_project

NOT_ONCE = ONCE.replace("self.asked = True", "self.asked = False")


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a recorded day."""
    folder = tmp_path_factory.mktemp("recorded")
    written = write_project(folder, scenario=QUIET, strategies=[once()], record=True)
    asyncio.run(tell(written, minutes=2))
    return written


def test_an_equal_day_is_one_line_with_one_hash(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(["replay", "2026-11-19", "-c", str(config)])

    out, err = capsys.readouterr()
    assert (code, err) == (ExitCode.DONE, "")
    assert out.count("\n") == 1
    assert " events, " in out
    assert " decisions, equal, hash " in out


def test_a_machine_reads_the_same(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["replay", "2026-11-19", "-c", str(config), "--json"])

    found = json.loads(capsys.readouterr().out)
    assert code == ExitCode.DONE
    assert (found["is_equal"], found["runs"][0]["difference"]) == (True, None)
    assert len(found["digest"]) == 16


def test_a_day_is_traded_again_with_a_fill_model(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(["replay", "2026-11-19", "-c", str(config), "--fill", "queue", "--json"])

    found = json.loads(capsys.readouterr().out)
    assert (code, found["fill"]) == (ExitCode.DONE, "queue")
    assert (found["orders"]["recorded"], found["orders"]["the same order"]) == (1, 1)


def test_a_changed_plug_in_is_named_and_both_sides_of_the_first_difference(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plug_in = config.parent / "strategies" / "once.py"
    plug_in.write_text(NOT_ONCE)

    code = run(["replay", "2026-11-19", "-c", str(config)])

    plug_in.write_text(ONCE)
    out, err = capsys.readouterr()
    assert code == ExitCode.DIFFERS
    assert "once.py has changed since" in out
    assert "\ncall 25 at 09:20:10: quote received: at 09:20:10, symbol HPG" in out
    assert "\n  recorded  09:20:10 once HPG SKIPPED NO_SIGNAL: no reason given" in out
    assert (
        "\n  now       09:20:10 once HPG BLOCKED DUPLICATE BUY 100 at 27,500: once (twin L-0001,"
        in out
    )
    assert "saw quote at 09:20:10" in out
    assert "checks DUPLICATE failed" in out
    assert not [word for word in ("Decision(", "+00:00", "None", "passed") if word in out]
    assert max(map(len, out.splitlines()[1:])) <= 100
    assert err.startswith("E-REC-001 run 1 decides differently from call ")
    assert "changed since: " in err
    assert "account …001.1" in out
    assert "120C900001.1" not in out + err


def test_a_machine_has_both_sides_whole(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plug_in = config.parent / "strategies" / "once.py"
    plug_in.write_text(NOT_ONCE)

    run(["replay", "2026-11-19", "-c", str(config), "--json"])

    plug_in.write_text(ONCE)
    out = capsys.readouterr().out
    difference = json.loads(out)["runs"][0]["difference"]
    assert difference["recorded"][0].startswith("Decision(strategy='once', symbol='HPG'")
    assert "CheckResult(code=GATE, passed=True" in difference["now"][0].replace("'", "")
    assert difference["told"]["now"][0].startswith("09:20:10 once HPG BLOCKED")
    assert "120C900001.1" not in out


def test_a_damaged_recording_is_named(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [part] = parts_of(runs_of(config.parent / "state", DAY)[0])
    whole = part.read_bytes()
    part.write_bytes(whole[:-1])

    code = run(["replay", "2026-11-19", "-c", str(config)])

    part.write_bytes(whole)
    assert code == ExitCode.DIFFERS
    assert "E-REC-003 run 1: " in capsys.readouterr().err


def test_a_day_that_was_not_recorded_names_those_that_were(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(["replay", "2026-11-18", "-c", str(config)])

    assert code == ExitCode.USAGE
    assert capsys.readouterr().err == (
        "E-REC-002 nothing is recorded of 2026-11-18. Recorded days: 2026-11-19\n"
    )


def test_a_recorded_day_is_backtested_in_the_place_of_bars(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = config.parent
    strategy, recorded = folder / "strategies" / "once.yaml", folder / "state" / "recorded"
    words = ["backtest", str(strategy), "--data", str(recorded), "-o", str(folder / "out")]

    code = run([*words, "-c", str(config)])

    out, _ = capsys.readouterr()
    summary = json.loads((folder / "out" / "summary.json").read_text())
    assert code == ExitCode.DONE
    assert "on HPG · 2026-11-19 to 2026-11-19 · " in out
    assert " recorded quotes and depths\n" in out
    assert "nothing was recorded from 09:22:" in out
    assert summary["looks"] > 20
    assert summary["figures"]["orders_filled"] == 1
    assert "HPG: every bar, " in (folder / "out" / "report.html").read_text()


def test_other_strategies_are_shown_beside_the_recorded_ones(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = config.parent / "strategies" / "once.yaml"
    written = other.read_text()
    other.write_text(written.replace("27500", "26500").replace("shares: 100", "shares: 300"))

    code = run(["replay", "2026-11-19", "-c", str(config), "--strategies", str(other)])

    other.write_text(written)
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert (code, err) == (ExitCode.DONE, "")
    assert lines[0].split() == ["TIME", "SYM", "RECORDED", "NOW"]
    assert "once PASSED OK BUY 100 at 27,500" in lines[1]
    assert lines[1].endswith("once PASSED OK BUY 100 at 26,500")
    assert "its fills cannot be known" in lines[-1]


def test_no_progress_is_shown_in_a_pipe(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["replay", "2026-11-19", "-c", str(config)])

    assert "replaying" not in capsys.readouterr().err


def test_strategies_whose_folder_is_gone_are_asked_for_by_its_name(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = config.parent
    moved = folder.rename(folder.with_name("elsewhere"))

    code = run(["replay", "2026-11-19", "-c", str(moved / config.name)])

    moved.rename(folder)
    assert code == ExitCode.CONFIG
    assert capsys.readouterr().err == (
        f"E-REC-004 run 1 read its strategies from {folder}, which is gone: put it back\n"
    )


def test_a_difference_on_an_earlier_day_of_the_run_has_its_day() -> None:
    told = Told("quote received", ("one",), ("other",))
    found = Difference(25, START, "QuoteReceived()", ("one",), ("other",), told)
    run = RunReplayed(1, __version__, 0, 0, "0", "", (), difference=found)
    lines = [
        "\n".join([*lines_of(replayed), *(each.message for each in problems_of(replayed))])
        for replayed in (DayReplayed(day, (run,)) for day in (DAY, DAY + timedelta(days=1)))
    ]

    of_the_day, of_the_next = lines

    assert "call 25 at 09:20:00: quote received" in of_the_day
    assert "from call 25, at 09:20:00 on" in of_the_day
    assert "call 25 at 2026-11-19 09:20:00: quote received" in of_the_next
    assert "from call 25, at 2026-11-19 09:20:00 on" in of_the_next
