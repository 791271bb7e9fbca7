"""Market files: what is right is replayed, what is wrong is told with its place, all at once."""

import gzip
import os
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from bot.config.market_files.table import PROBLEMS_MAX
from bot.config.problems import ExitCode, OperatorMistake
from bot.config.rulebook import load_rulebook
from bot.config.scenario_file import load_scenario
from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.order import Side
from bot.sandbox.house.house import House
from bot.sandbox.markets.replay.data import Print, RecordedBar
from bot.sandbox.scenario import Scenario

DAY = date(2026, 11, 19)
NEXT = date(2026, 11, 20)
MINUTES = "time,open,high,low,close,volume\n"
TRADES = "time,price,volume,aggressor\n"
DAILY = "symbol,exchange,date,open,high,low,close,volume,reference\n"
GOOD = "2026-11-19 09:15,27000,27100,26950,27050,5000\n"
RULE = "=====\n"
CASES = sorted((Path(__file__).parent / "bad_market_files").glob("*/*.case"))
"""A file, a line of =====, and what an operator is told of it."""
DATA = os.environ.get("VNBOT_MARKET_DATA")


def load(
    folder: Path, kind: str = "minutes", *, day: str = "2026-11-19", days: int = 1
) -> Scenario:
    """Load a scenario that replays HPG from what lies in the folder."""
    daily = "daily: daily.csv, " if (folder / "daily.csv").exists() else ""
    (folder / "replayed.yaml").write_text(
        f"day: {day}\n"
        f"replay: {{minutes: bars, trades: bars, {daily}days: {days}}}\n"
        f"symbols:\n  - {{symbol: HPG, exchange: HOSE, reference: 27_000, replay: {kind}}}\n"
    )
    return load_scenario("replayed.yaml", folder)


def put(folder: Path, content: str | bytes, name: str = "bars/HPG.csv") -> Path:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def told(folder: Path, kind: str = "minutes", day: str = "2026-11-19") -> list[str]:
    """What an operator is told, without the folder's name."""
    with pytest.raises(OperatorMistake) as caught:
        load(folder, kind, day=day)
    assert caught.value.exit_code is ExitCode.CONFIG
    return [str(problem).replace(f"{folder}/", "") for problem in caught.value.problems]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}/{case.stem}")
def test_a_malformed_file_is_refused_with_its_place(case: Path, tmp_path: Path) -> None:
    content, golden = case.read_text("utf-8").split(RULE)
    kind = case.parent.name
    put(tmp_path, content, "daily.csv" if kind == "daily" else "bars/HPG.csv")

    assert golden.rstrip("\n") in told(tmp_path, kind)


def test_there_are_cases_of_every_format() -> None:
    assert {case.parent.name for case in CASES} == {"minutes", "daily", "trades"}
    assert len(CASES) >= 25


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        (
            b"",
            f"bars/HPG.csv: E-CFG-008 the file is empty; wanted a header {MINUTES[:-1]} and rows",
        ),
        (
            MINUTES.encode() + b"2026-11-19 09:15,\xff\xfe",
            "bars/HPG.csv:2:18: E-CFG-010 wanted UTF-8 text, found byte 0xff; convert it",
        ),
    ],
)
def test_what_is_no_text_is_refused(content: bytes, wanted: str, tmp_path: Path) -> None:
    put(tmp_path, content)

    assert told(tmp_path) == [wanted]


def test_minutes_become_the_day_that_they_tell(tmp_path: Path) -> None:
    put(tmp_path, "2026-11-18 09:15,1,1,1,1,1\n".join((MINUTES, GOOD)))

    played = load(tmp_path)

    day = played.recording.days["HPG"][DAY]
    assert day.reference == 27_000
    assert day.minutes == (RecordedBar(33_300, 27_000, 27_100, 26_950, 27_050, 5_000),)


def test_compressed_files_are_read_and_cut_ones_refused(tmp_path: Path) -> None:
    packed = gzip.compress((MINUTES + GOOD).encode())
    put(tmp_path, packed, "bars/HPG.csv.gz")
    assert load(tmp_path).recording.days["HPG"][DAY].minutes

    put(tmp_path, packed[:-12], "bars/HPG.csv.gz")

    assert told(tmp_path) == [
        "bars/HPG.csv.gz: E-MKT-001 the compressed file is truncated or damaged; fetch it again"
    ]


def test_all_problems_of_a_file_are_told_at_once_up_to_a_limit(tmp_path: Path) -> None:
    bad = [f"2026-11-19 09:{minute},27070,27070,27070,27070,100\n" for minute in range(20, 45)]
    put(tmp_path, MINUTES + "".join(bad))

    lines = told(tmp_path)

    assert len(lines) == PROBLEMS_MAX + 1
    assert lines[-1].endswith("5 more rows are wrong; fix these first")


def test_a_symbol_without_a_file_is_told(tmp_path: Path) -> None:
    (line,) = told(tmp_path)

    fault = "HPG is replayed from minutes, but its file is missing; add it, or drop the symbol"
    assert line == f"bars: E-MKT-009 {fault}"


@pytest.mark.parametrize(
    ("day", "words"),
    [("2026-11-21", "day 2026-11-21 is not a trading day"), ("2023-07-03", "day 2023-07-03")],
)
def test_a_day_outside_the_calendar_is_refused(day: str, words: str, tmp_path: Path) -> None:
    put(tmp_path, MINUTES + GOOD)

    assert told(tmp_path, day=day) == [f"E-MKT-005 {words}: the calendar covers 2024 to 2027"]


def test_a_recorded_day_of_2024_is_played(tmp_path: Path) -> None:
    put(tmp_path, MINUTES + GOOD.replace("2026-11-19", "2024-08-05"))

    played = load(tmp_path, day="2024-08-05")

    assert played.recording.days["HPG"][date(2024, 8, 5)].minutes


def test_a_daily_file_gives_bars_and_references(tmp_path: Path) -> None:
    rows = [
        "HPG,HOSE,2026-11-19,30000,30500,29900,30100,90000,30000",
        "HPG,HOSE,2026-11-20,15100,15100,15000,15050,80000,15050",
        "VNM,HOSE,2026-11-19,64000,64000,64000,64000,100,64000",
    ]
    put(tmp_path, DAILY + "\n".join(rows), "daily.csv")

    played = load(tmp_path, "daily", days=2)

    days = played.recording.days["HPG"]
    assert played.symbols[0].reference == 30_000
    assert days[NEXT].reference == 15_050
    assert days[DAY].whole == RecordedBar(0, 30_000, 30_500, 29_900, 30_100, 90_000)


def test_without_a_reference_the_close_before_carries_over(tmp_path: Path) -> None:
    put(tmp_path, MINUTES + GOOD + "2026-11-20 09:15,27100,27100,27100,27100,100\n")

    assert load(tmp_path, days=2).recording.days["HPG"][NEXT].reference == 27_050


def test_trades_are_read_with_their_aggressor(tmp_path: Path) -> None:
    put(tmp_path, TRADES + "2026-11-19 09:15:00,27000,900,\n2026-11-19 09:15:02,27050,200,buy\n")

    assert load(tmp_path, "trades").recording.days["HPG"][DAY].trades == (
        Print(33_300, 27_000, 900, None),
        Print(33_302, 27_050, 200, Side.BUY),
    )


def test_another_recording_is_another_scenario(tmp_path: Path) -> None:
    put(tmp_path, MINUTES + GOOD)
    before = load(tmp_path).fingerprint

    put(tmp_path, MINUTES + GOOD.replace("5000", "5100"))

    assert load(tmp_path).fingerprint != before


@pytest.mark.skipif(DATA is None, reason="VNBOT_MARKET_DATA names no recorded days")
@pytest.mark.parametrize(
    ("symbol", "exchange"), [("HPG", "HOSE"), ("IDC", "HNX"), ("VGI", "UPCOM")]
)
def test_a_real_day_is_replayed_to_the_last_share(
    symbol: str, exchange: str, tmp_path: Path
) -> None:
    (tmp_path / "real.yaml").write_text(
        f"day: 2025-06-03\nstart: 08:30\n"
        f"replay: {{minutes: {DATA}/bars_1m, daily: {DATA}/daily/daily_2023_2025.csv.gz}}\n"
        f"symbols:\n"
        f"  - {{symbol: {symbol}, exchange: {exchange}, reference: 1_000, replay: minutes}}\n"
    )
    played = load_scenario("real.yaml", tmp_path)
    house = House(played, load_rulebook())

    house.advance(datetime(2025, 6, 3, 9, 0, tzinfo=UTC))

    day = date(2025, 6, 3)
    tape = {
        at.astimezone(EXCHANGE_TZ).hour * 3_600 + at.astimezone(EXCHANGE_TZ).minute * 60: (
            each.open, each.high, each.low, each.close, each.volume,
        )
        for at, each in house.recorder.minutes(symbol, day).items()
    }  # fmt: skip
    bars = played.recording.days[symbol][day].minutes
    assert len(bars) > 100
    assert tape == {
        bar.second: (bar.open, bar.high, bar.low, bar.close, bar.volume) for bar in bars
    }
