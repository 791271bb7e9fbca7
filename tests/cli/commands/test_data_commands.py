"""`bot data`: what is stored is listed and checked; what is imported is checked first."""

import json
from pathlib import Path

import pytest

from bot.config.problems import ExitCode
from bot.config.shipped import shipped
from bot.runtime.history.store.simulated import SAMPLE
from tests.cli.stage import CONFIG, call

ROW = "2026-11-18 09:15,27000,27000,27000,27000,100\n"
HEADER = "time,open,high,low,close,volume\n"


@pytest.fixture
def own(tmp_path: Path) -> str:
    """A project of the test's own; a store lies in its state directory."""
    (tmp_path / "bot.yaml").write_text(CONFIG)
    return str(tmp_path / "bot.yaml")


@pytest.fixture
def bars(tmp_path: Path) -> Path:
    """A folder with one day that begins and one that has one bar."""
    folder = tmp_path / "bars"
    folder.mkdir()
    (folder / "HPG.csv").write_text(HEADER + ROW + ROW.replace("-18", "-20"))
    return folder


def test_an_empty_store_says_how_to_begin(own: str) -> None:
    ran, checked = call("data", "list", "-c", own), call("data", "check", "-c", own)

    assert (ran.code, ran.out, checked.code) == (0, "", 0)
    assert "has no bars yet; add some: bot data import FOLDER" in ran.err
    assert checked.err == ran.err


def test_what_is_imported_lies_in_the_state_directory_and_is_listed(own: str, bars: Path) -> None:
    ran = call("data", "import", str(bars), "-c", own)

    store = Path(own).parent / "state" / "data"
    assert ran.code == 0
    assert ran.err.splitlines()[0].endswith(f"(sandbox): store {store}")
    assert ran.out.splitlines()[-1] == (
        "2 new bars of 1 symbol, 0 days with a reference or an ex-date"
    )
    listed = json.loads(call("data", "list", "--json", "-c", own).out)
    (row,) = listed["bars"]
    (kept,) = row.pop("ranges")
    assert row == {
        "symbol": "HPG",
        "width": "1m",
        "first": "2026-11-18",
        "last": "2026-11-20",
        "bars": 2,
        "gaps": 1,
        "from": "import",
    }
    assert (kept["origin"], kept["source"], kept["is_adjusted"]) == ("import", "HPG.csv", False)
    assert listed["bot"]["config"] == own


def test_no_backtest_runs_on_adjusted_prices_and_no_import_advises_one(
    own: str, bars: Path
) -> None:
    ran = call("data", "import", str(bars), "--adjusted", "-c", own)

    assert ran.code == ExitCode.DONE
    assert "to backtest on them" not in ran.err
    assert "no backtest, search or warm-up uses adjusted prices" in ran.err
    text = "name: mine\nuse: sma_cross\nsymbols: [HPG]\nwake: {bar: 5m}\n"
    mine = Path(own).with_name("mine.yaml")
    mine.write_text(text + "order: {size: {shares: 100}}\n")
    store = Path(own).parent / "state" / "data"
    for command in (
        ("backtest", str(mine), "-c", own),
        ("backtest", str(mine), "--data", str(store)),
        ("backtest", str(mine), "--data", str(store / "bars" / "1m")),
        ("optimise", str(mine), "--space", "fast=3..5", "--trials", "2", "-c", own),
    ):
        ran = call(*command)
        assert ran.code == ExitCode.CONFIG
        assert "E-BT-009 the stored prices of HPG are adjusted" in ran.err


def test_a_check_ends_with_12_for_a_gap_and_with_3_for_useless_bars(own: str, bars: Path) -> None:
    call("data", "import", str(bars), "-c", own)

    ran = call("data", "check", "hpg", "-c", own)

    assert ran.code == ExitCode.DIFFERS
    assert ran.out.splitlines() == [
        "HPG 2026-11-19: no bar",
        "2 bars of 1 symbol: 0 wrong, 0 odd, 1 gap",
    ]
    (bars / "HPG.csv").write_text(HEADER + ROW.replace("27000", "27010"))
    found = call("data", "check", "--store", str(bars))
    assert found.code == ExitCode.CONFIG
    assert "HPG.csv:2:18: E-MKT-007 2026-11-18 09:15: 27,010 is off the tick" in found.err


def test_the_shipped_bars_are_checked_where_they_lie() -> None:
    ran = call("data", "check", "--store", str(shipped(SAMPLE)))

    assert (ran.code, ran.err) == (0, "")
    assert ran.out == "46,763 bars of 4 symbols: 0 wrong, 0 odd, 0 gaps\n"


def test_a_symbol_without_bars_is_named_with_those_that_have_some(own: str, bars: Path) -> None:
    call("data", "import", str(bars), "-c", own)

    ran = call("data", "check", "FPT", "-c", own)

    assert ran.code == ExitCode.CONFIG
    assert "FPT: no bars in" in ran.err
    assert ran.err.endswith("it holds HPG\n")


def test_bars_that_differ_are_taken_only_when_told(own: str, bars: Path) -> None:
    call("data", "import", str(bars), "-c", own)
    (bars / "HPG.csv").write_text(HEADER + ROW.replace(",100", ",200"))

    assert call("data", "import", str(bars), "-c", own).code == ExitCode.DIFFERS
    assert call("data", "import", str(bars), "--replace", "-c", own).code == 0


@pytest.mark.parametrize("option", ["--from", "--to"])
def test_a_day_before_any_share_was_traded_is_refused_with_the_first_that_is_taken(
    own: str, option: str
) -> None:
    for day in ("0001-01-01", "1999-12-31"):
        ran = call("data", "fetch", "HPG", option, day, "-c", own)

        assert ran.code == ExitCode.USAGE
        assert f"{day}: wanted 2000-01-01 or later; no share was traded before" in ran.err
    taken = call("data", "fetch", "HPG", option, "2000-01-01", "-c", own)
    assert "wanted" not in taken.err


def test_a_scenario_without_a_day_makes_no_bars_and_is_named(tmp_path: Path) -> None:
    ran = call("data", "simulate", "quiet", "--to", "2026-11-19", "--into", str(tmp_path / "made"))

    assert (ran.code, ran.err) == (
        ExitCode.CONFIG,
        "E-MKT-005 the scenario quiet names no day to begin with: give it one, day: 2026-11-19\n",
    )


def test_a_scenario_makes_bars(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text(
        'day: 2026-11-19\nstart: "14:40"\nsymbols:\n'
        "  - {symbol: ACV, exchange: UPCOM, reference: 52_000, level_volume: 2_000, flow: {}}\n"
    )
    into = tmp_path / "made"

    ran = call(
        "data", "simulate", str(tmp_path / "one.yaml"), "--to", "2026-11-19", "--into", str(into)
    )

    assert ran.code == 0
    assert "bars of 1 symbol in " in ran.err
    assert call("data", "check", "--store", str(into)).code == 0
    held = (into / "bars" / "1m" / "ACV.csv.gz").read_bytes()
    again = call(
        "data", "simulate", str(tmp_path / "one.yaml"), "--to", "2026-11-20", "--into", str(into)
    )
    assert again.code == ExitCode.CONFIG
    assert again.err.startswith(f"E-DATA-014 {into} already holds ACV.csv.gz: ")
    assert (into / "bars" / "1m" / "ACV.csv.gz").read_bytes() == held
    early = call(
        "data", "simulate", str(tmp_path / "one.yaml"), "--to", "2026-11-18", "--into", "x"
    )
    assert (early.code, early.err) == (
        ExitCode.CONFIG,
        "E-DATA-012 the scenario begins on 2026-11-19: use a later --to\n",
    )
