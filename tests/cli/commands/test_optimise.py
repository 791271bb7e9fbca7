"""`bot optimise`: what it prints and writes, and how it refuses what can't be searched."""

import json
import os
from pathlib import Path

import pytest

from bot.config.problems import ExitCode
from bot.runtime.history.optimise.result import Objective
from tests.cli.stage import call

pytest.importorskip("optuna", reason="optuna is not installed")
STRATEGY = """\
# Mine, with a comment.
name: mine
use: sma_cross
symbols: [HPG]
params: {fast: 5, slow: 20}   # the usual
wake: {bar: 5m}
order: {size: {shares: 100}}
"""
RANGE = ("--from", "2026-11-12", "--to", "2026-11-13")
SPACE = ("--space", "fast=3..6", "slow=10|20")
BRIEF = ("--trials", "2", "--folds", "0", "--objective", "return", "--workers", "1")


def strategy(folder: Path) -> Path:
    file = folder / "mine.yaml"
    file.write_text(STRATEGY)
    return file


@pytest.mark.process
def test_it_searches_writes_the_best_and_goes_on_with_more_trials(tmp_path: Path) -> None:
    file, study = strategy(tmp_path), tmp_path / "study"
    config = tmp_path / "bot.yaml"
    config.write_text("mode: sandbox\nstate_dir: state\nstrategies: mine.yaml\n")
    asked = (
        "-c",
        str(config),
        "optimise",
        str(file),
        *SPACE,
        *RANGE,
        *BRIEF,
        "--study",
        str(study),
    )

    ran = call(*asked)

    assert ran.code == 0, ran.err
    assert ran.out.startswith("search for mine · 2 days from 2026-11-12 to 2026-11-13 with bars\n")
    assert "  trials         2 made: 2 played\n" in ran.out
    assert "there is no test, so nothing is known about other days" in ran.out
    names = {each.name for each in study.iterdir()}
    assert names == {"best.html", "lock", "mine.yaml", "question.json", "search.html", "trials.log"}
    assert file.read_text() == STRATEGY
    again = call(*asked, "--trials", "3", "--apply", "--json")
    found = json.loads(again.out)
    best = found["best"]["params"]
    assert (found["trials"], found["written"]) == (3, str(file))
    assert found["bot"] == {"name": tmp_path.name, "mode": "sandbox", "config": str(config)}
    assert file.read_text() == STRATEGY.replace(
        "{fast: 5, slow: 20}   #", f"{{fast: {best['fast']}, slow: {best['slow']}}}".ljust(22) + "#"
    )


@pytest.mark.process
def test_own_values_that_did_better_are_not_overwritten(tmp_path: Path) -> None:
    file, study = strategy(tmp_path), tmp_path / "study"
    own = STRATEGY.replace("{fast: 5, slow: 20}  ", "{fast: 3, slow: 10}  ")
    file.write_text(own)
    asked = ("optimise", str(file), "--space", "fast=5..6", "slow=10|20", *RANGE, *BRIEF)

    ran = call(*asked, "--study", str(study))
    applied = call(*asked, "--study", str(study), "--apply", "--json")

    better = "your own values did as well as the best, or better, on the searched days"
    assert (ran.code, applied.code) == (ExitCode.DONE, ExitCode.DONE)
    assert f"{better}\n" in ran.err
    assert f"{better}: {file} is unchanged\n" in applied.err
    assert json.loads(applied.out)["written"] is None
    assert (study / "mine.yaml").exists()
    assert file.read_text() == own


@pytest.mark.process
@pytest.mark.parametrize("objective", Objective)
def test_own_values_that_did_not_trade_are_not_overwritten_by_ones_that_lost(
    tmp_path: Path, objective: Objective
) -> None:
    file = strategy(tmp_path)
    own = STRATEGY.replace("{fast: 5, slow: 20}  ", "{fast: 3, slow: 5000}")
    file.write_text(own)
    days = ("--from", "2026-11-02", "--to", "2026-11-13", *BRIEF, "--objective", objective.value)

    applied = call(
        *("optimise", str(file), "--space", "fast=5..6", "slow=10|20", *days, "--apply", "--json"),
        *("--study", str(tmp_path / "study")),
    )

    assert applied.code == ExitCode.DONE, applied.err
    found = json.loads(applied.out)
    assert found["best"]["in_sample"] < 0
    assert found["written"] is None
    assert file.read_text() == own


def test_a_disk_that_takes_no_trials_is_said_with_the_folder(tmp_path: Path) -> None:
    study = tmp_path / "study"
    study.mkdir()
    (study / f".question.json.{os.getpid()}").symlink_to("/dev/full")

    ran = call("optimise", str(strategy(tmp_path)), *RANGE, *SPACE, *BRIEF, "--study", str(study))

    assert ran.code == ExitCode.USAGE
    assert f"E-OPT-005 --study {study}: it can't be written (no space left on device)" in ran.err


@pytest.mark.parametrize(
    ("options", "code", "wanted"),
    [
        ((), ExitCode.USAGE, "E-OPT-001 the space names no parameter"),
        (("--space", "fst=3..6"), ExitCode.USAGE, "sma_cross has no parameter 'fst'"),
        (("--space", "fast="), ExitCode.USAGE, "'fast' has no values"),
        (("--space", "fast=a..b"), ExitCode.USAGE, "'fast' is whole numbers, found 'a'"),
        ((*SPACE, "--trials", "0"), ExitCode.USAGE, "--trials"),
        ((*SPACE, "--from", "2026-11-13", "--to", "2026-11-10"), ExitCode.CONFIG, "E-BT-001"),
    ],
)
def test_what_cannot_be_searched_is_named_and_nothing_is_written(
    tmp_path: Path, options: tuple[str, ...], code: ExitCode, wanted: str
) -> None:
    file, study = strategy(tmp_path), tmp_path / "study"

    ran = call("optimise", str(file), *RANGE, *options, "--study", str(study))

    assert (ran.code, ran.out) == (code, "")
    assert wanted in ran.err
    assert not study.exists()
