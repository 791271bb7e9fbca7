"""`bot backtest`: what it prints and writes, and how it refuses what can't be run."""

import json
import os
import pty
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.stage import call

STRATEGY = """\
name: mine
use: sma_cross
symbols: [HPG]
wake: {bar: 5m}
order: {size: {shares: 100}}
"""
RANGE = ("--from", "2026-11-10", "--to", "2026-11-13")


def strategy(folder: Path, text: str = STRATEGY) -> str:
    file = folder / "mine.yaml"
    file.write_text(text)
    return str(file)


def test_it_prints_a_summary_and_writes_fills_page_and_figures(tmp_path: Path) -> None:
    out = tmp_path / "out"

    ran = call("backtest", strategy(tmp_path), *RANGE, "-o", str(out))

    assert ran.code == 0
    assert ran.out.startswith("backtest of mine (sma_cross) on HPG · 2026-11-10 to 2026-11-13")
    assert "fill model queue" in ran.out
    assert "these bars are simulated" in ran.err
    assert sorted(file.name for file in out.iterdir()) == [
        "report.html",
        "summary.json",
        "trades.csv",
    ]
    rows = (out / "trades.csv").read_text().splitlines()
    summary = json.loads((out / "summary.json").read_text())
    assert rows[0].startswith("time,strategy,symbol,side,quantity,price")
    assert len(rows) - 1 == summary["figures"]["orders_filled"] > 0


def test_json_is_one_value_and_nothing_else(tmp_path: Path) -> None:
    ran = call("backtest", strategy(tmp_path), *RANGE, "--json", "--fill", "touch")

    found = json.loads(ran.out)
    assert found["assumptions"][0].startswith("fill model touch")
    assert (found["first"], found["last"]) == ("2026-11-10", "2026-11-13")


def _errors_of(folder: Path, *, on_a_terminal: bool) -> str:
    """Run a backtest; return its stderr, which is a terminal or a pipe."""
    reading, writing = pty.openpty() if on_a_terminal else os.pipe()
    words = [sys.executable, "-m", "bot", "backtest", strategy(folder), *RANGE]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=writing) as ran:
        os.close(writing)
        said = b""
        with suppress(OSError):  # so Linux says that the other end of a terminal is closed
            while more := os.read(reading, 4_096):
                said += more
    os.close(reading)
    assert ran.returncode == 0
    return said.decode()


@pytest.mark.process
def test_a_progress_bar_is_on_a_terminal_and_not_in_a_pipe(tmp_path: Path) -> None:
    terminal, pipe = (_errors_of(tmp_path, on_a_terminal=each) for each in (True, False))

    # A run of more than a second also shows how long it will take.
    shown = re.findall(r"backtest  \[[#-]*\] +(\d+)%", terminal)
    assert [*dict.fromkeys(shown)] == ["0", "25", "50", "75", "100"]
    assert pipe.startswith("these bars are simulated")
    assert pipe.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "options", "wanted"),
    [
        (STRATEGY, ("--from", "2026-11-13", "--to", "2026-11-10"), "E-BT-001 --from 2026-11-13"),
        (STRATEGY, ("--from", "2023-01-03", "--to", "2023-02-01"), "E-BT-002 --from 2023-01-03"),
        (STRATEGY.replace("HPG", "VNM"), RANGE, ":3:11: E-BT-003 there are no bars of VNM"),
        (STRATEGY, ("--from", "2026-03-02", "--to", "2026-03-06"), ":3:11: E-BT-004 the bars of"),
        (STRATEGY, ("--from", "2026-12-01"), "wanted are 2026-12-01 to 2026-12-01: choose days"),
        (STRATEGY, ("--to", "2026-03-06"), "wanted are 2026-03-06 to 2026-03-06: choose days"),
        (STRATEGY.replace("bar: 5m", "bar: 30s"), RANGE, ":4:13: E-BT-005 'wake.bar' 30s"),
        (STRATEGY.replace("bar: 5m", "bar: 90s"), RANGE, ":4:13: E-BT-005 'wake.bar' 90s is no"),
        (STRATEGY, (*RANGE, "--hold", "FPT=100"), "E-BT-006 --hold FPT"),
        (STRATEGY, (*RANGE, "--hold", "FPT=1", "--hold", "FPT=2"), "--hold FPT is given twice"),
        ("strategies: strategies/*.yaml\n", RANGE, "1:1: E-CFG-012 this is a bot's configuration"),
        ("mode: sandbox\nstate_dir: var\n", RANGE, "2:1: E-CFG-012 this is a bot's configuration"),
        (STRATEGY, (*RANGE, "--trades", "fills.xlsx"), "E-BT-007 --trades fills.xlsx"),
        (STRATEGY, (*RANGE, "--trades", "none/fills.csv"), "there is no folder none"),
        ("name: mine\n", RANGE, "E-CFG"),
        (STRATEGY, (*RANGE, "--data", "none"), "E-DATA-001 --data none: there is no such file or"),
    ],
)
def test_what_cannot_be_run_is_named_with_its_place(
    tmp_path: Path, text: str, options: tuple[str, ...], wanted: str
) -> None:
    ran = call("backtest", strategy(tmp_path, text), *options)

    assert ran.code == 3
    assert wanted in ran.err
    assert ran.out == ""


def test_a_symbol_of_which_a_folder_has_no_bars_is_named_with_its_place(tmp_path: Path) -> None:
    bars, row = tmp_path / "bars", "27000,27000,27000,27000,100"
    bars.mkdir()
    text = f"time,open,high,low,close,volume\n2026-11-12 09:15,{row}\n"
    (bars / "HPG.csv").write_text(text)
    both = STRATEGY.replace("[HPG]", "[HPG, FPT]")

    ran = call("backtest", strategy(tmp_path, both), "--data", str(bars))

    assert (ran.code, ran.out) == (3, "")
    assert ":3:16: E-BT-003 there are no bars of FPT" in ran.err


@pytest.mark.parametrize(
    ("symbol", "options", "wanted"),
    [
        ("FPT", (), ":3:11: E-BT-003 there are no bars of 1m of FPT; there are some of HPG"),
        ("HPG", ("--from", "2026-11-09"), ""),
        ("HPG", ("--to", "2026-11-09"), ":3:11: E-BT-004 the bars of HPG are of 2026-11-10"),
    ],
)
def test_wider_bars_than_those_that_are_read_are_named_with_their_folder(
    tmp_path: Path, symbol: str, options: tuple[str, ...], wanted: str
) -> None:
    header, row = "time,open,high,low,close,volume\n", "27000,27000,27000,27000,100\n"
    for name, of, at in (
        ("1m", "HPG", "2026-11-10 09:20"),
        ("1d", "HPG", "2026-11-09 00:00"),
        ("1d", "FPT", "2026-11-09 00:00"),
    ):
        folder = tmp_path / "data" / "bars" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{of}.csv").write_text(f"{header}{at},{row}")
    file = strategy(tmp_path, STRATEGY.replace("HPG", symbol).replace("5m", "1d"))

    ran = call("backtest", file, "--data", str(tmp_path / "data"), *options)

    assert wanted in ran.err
    assert (ran.code == 3) is bool(wanted)
    assert (f"data/bars/1d has bars of 1d of {symbol}, which --data takes" in ran.err) is bool(
        wanted
    )


def test_a_strategy_that_wants_depth_is_told_where_there_is_one(tmp_path: Path) -> None:
    text = "name: mine\nuse: depth_imbalance\nsymbols: [HPG]\nwake: {depth: 2s}\n"

    ran = call("backtest", strategy(tmp_path, f"{text}order: {{size: {{shares: 100}}}}\n"), *RANGE)

    assert ran.code == 3
    assert "E-BT-005 'wake.depth': bars hold no depth" in ran.err


@pytest.mark.parametrize(
    "options",
    [
        ("--cash", "-5"),
        ("--cash", "much"),
        ("--cash", "20_0000_000"),
        ("--cash", "9" * 16),
        ("--cash", "9" * 5_000),
        ("--hold", f"HPG={'9' * 16}"),
        ("--hold", "HPG"),
        ("--hold", "HPG="),
        ("--from", "yesterday"),
    ],
)
def test_a_value_that_is_none_is_a_usage_error(tmp_path: Path, options: tuple[str, str]) -> None:
    ran = call("backtest", strategy(tmp_path), *options)

    assert ran.code == 2


BROKEN = """\
from bot import Strategy


class Broken(Strategy):
    def on_bar(self, bar):
        raise ValueError("no such luck")
"""


def test_a_hook_that_raises_is_named_and_disables_its_strategy(tmp_path: Path) -> None:
    (tmp_path / "strategies").mkdir()
    (tmp_path / "strategies" / "broken.py").write_text(BROKEN)
    file = strategy(tmp_path / "strategies", STRATEGY.replace("sma_cross", "broken"))

    ran = call("backtest", file, *RANGE, "--json")

    assert ran.code == 0
    assert "mine failed 3 times, first on 2026-11-10 in on_bar: ValueError: no such luck" in ran.err
    assert json.loads(ran.out)["decisions"] == {"EXCEPTION": 3}


def test_the_bars_of_a_configurations_store_come_before_the_sample(tmp_path: Path) -> None:
    config = tmp_path / "bot.yaml"
    config.write_text("mode: sandbox\nstate_dir: state\nstrategies: mine.yaml\n")
    file, stored = strategy(tmp_path), tmp_path / "state" / "data" / "bars" / "1m"
    stored.mkdir(parents=True)
    rows = "\n".join(f"2026-11-10 09:{minute},27000,27000,27000,27000,1000" for minute in (20, 21))
    (stored / "HPG.csv").write_text(f"time,open,high,low,close,volume\n{rows}\n")

    ran = call("-c", str(config), "backtest", file)

    assert ran.out.startswith(
        "backtest of mine (sma_cross) on HPG · 2026-11-10 to 2026-11-10 · 2 bars"
    )
    assert "simulated" not in ran.err


def test_fills_are_written_as_parquet_too(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    file = tmp_path / "fills.parquet"

    ran = call("backtest", strategy(tmp_path), *RANGE, "--trades", str(file), "-q")

    table = polars.read_parquet(file)
    assert ran.code == 0
    assert table.height > 0
    assert table["side"].unique().sort().to_list() in (["BUY"], ["BUY", "SELL"])


@pytest.mark.parametrize("option", ["-o", "--trades"])
def test_a_full_disk_costs_the_files_and_not_the_result(tmp_path: Path, option: str) -> None:
    pytest.importorskip("polars")
    name = "trades.csv" if option == "-o" else "fills.parquet"
    place = tmp_path if option == "-o" else tmp_path / name
    (tmp_path / f".{name}.{os.getpid()}").symlink_to("/dev/full")

    ran = call("backtest", strategy(tmp_path), *RANGE, option, str(place))

    assert ran.code == 3
    assert f"E-BT-007 {option} {place}: it can't be written (no space left on device)" in ran.err
    assert ran.out.startswith("backtest of mine")
    assert [each.name for each in tmp_path.iterdir()] == ["mine.yaml"]


@pytest.mark.parametrize("price", [27, 27_003])
def test_bars_in_thousands_or_off_the_tick_are_named_with_their_rows(
    tmp_path: Path, price: int
) -> None:
    row = f"{price},{price},{price},{price},100"
    bars = tmp_path / "HPG.csv"
    bars.write_text(
        f"time,open,high,low,close,volume\n2026-11-12 09:15,{row}\n2026-11-12 09:16,{row}\n"
    )

    ran = call("backtest", strategy(tmp_path, STRATEGY.replace("5m", "1m")), "--data", str(bars))

    assert ran.code == 3
    assert f"HPG.csv:2:18: E-MKT-007 2026-11-12 09:15: {price:,} is off the tick" in ran.err


def test_bars_in_another_zone_s_time_are_refused_and_say_what_to_do(tmp_path: Path) -> None:
    bars, row = tmp_path / "HPG.csv", "27000,27000,27000,27000,100"
    times = [f"2026-11-{day} {clock}" for day in (12, 13) for clock in ("02:15", "02:16", "07:45")]
    head = "time,open,high,low,close,volume"
    mine = strategy(tmp_path, STRATEGY.replace("5m", "1m"))

    bars.write_text("\n".join([head, *(f"{at},{row}" for at in times)]) + "\n")
    refused = call("backtest", mine, "--data", str(bars))
    one_in_hours = [*times, "2026-11-13 14:45"]
    bars.write_text("\n".join([head, *(f"{at},{row}" for at in one_in_hours)]) + "\n")
    played = call("backtest", mine, "--data", str(bars))

    assert (refused.code, played.code) == (3, 0)
    assert "HPG.csv:2:1: E-MKT-005 2026-11-12 02:15: HOSE does not trade then" in refused.err
    assert "any of its 6 bars, which begin between 02:15 and 07:45" in refused.err
    assert "if these are UTC, add seven hours" in refused.err
