"""Bars are read from where they are, whole and in order; what is wrong is told with its place."""

import gzip
import os
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.config.problems import OperatorMistake
from bot.domain.quote import Bar
from bot.runtime.history.bars import CHUNK_BARS, BarColumns, BarSource, DayFrame, Gap
from bot.runtime.history.store.bar_files import HeldBars, Reading
from bot.runtime.history.store.store import ListedBars, open_bars

DATA = os.environ.get("VNBOT_MARKET_DATA")
HEADER = "time,open,high,low,close,volume\n"
FIRST, LAST = date(2025, 6, 2), date(2025, 6, 30)
ALWAYS = (date(2000, 1, 1), date(2100, 1, 1))
OPENING = datetime(2025, 6, 2, 2, 15, tzinfo=UTC)


def put(folder: Path, content: str, name: str = "HPG.csv") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content.encode()) if name.endswith(".gz") else content.encode())
    return path


def bars_of(source: BarSource, symbol: str = "HPG") -> list[Bar]:
    return [bar for columns in source.chunks(symbol, *ALWAYS) for bar in columns.bars()]


def told(place: Path, symbol: str = "HPG", width: timedelta | None = None) -> list[str]:
    with pytest.raises(OperatorMistake) as caught:
        bars_of(open_bars(place, width=width), symbol)
    folder = place if place.is_dir() else place.parent
    return [str(each).replace(f"{folder}/", "") for each in caught.value.problems]


def written(bars: Iterable[Bar], *, clock: str = "%Y-%m-%d %H:%M") -> str:
    lines = (
        f"{bar.start + timedelta(hours=7):{clock}},{bar.open},{bar.high},{bar.low},{bar.close},"
        f"{bar.volume}\n"
        for bar in bars
    )
    return HEADER + "".join(lines)


def bar(minute: int, close: int = 27_000, *, low: int = 27_000, high: int = 27_000) -> Bar:
    start = OPENING + timedelta(minutes=minute)
    return Bar("HPG", start, 60, low, high, low, close, 100 * (minute + 1))


@st.composite
def _bars(draw: st.DrawFn) -> list[Bar]:
    minutes = sorted(draw(st.sets(st.integers(0, 2_000_000), min_size=1, max_size=30)))
    found = []
    for minute in minutes:
        low, *_, high = prices = sorted(
            draw(st.lists(st.integers(1, 10**9), min_size=4, max_size=4))
        )
        start, volume = OPENING + timedelta(minutes=minute), draw(st.integers(0, 10**14))
        found.append(Bar("HPG", start, 60, prices[1], high, low, prices[2], volume))
    return found


@settings(max_examples=25, deadline=None)
@given(bars=_bars(), packed=st.booleans())
def test_a_file_gives_the_bars_that_were_written(
    bars: list[Bar], packed: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("bars")
    put(folder, written(bars), "HPG.csv.gz" if packed else "HPG.csv")

    source = open_bars(folder / ("HPG.csv.gz" if packed else "HPG.csv"))

    width = source.width.total_seconds()
    assert [each.start for each in bars_of(source)] == [each.start for each in bars]
    if width == 60:
        assert bars_of(source) == bars


def test_listed_bars_are_sorted_and_cut_by_local_days() -> None:
    before_midnight = Bar("HPG", datetime(2025, 6, 2, 16, 59, tzinfo=UTC), 60, 1, 1, 1, 1, 100)
    after_midnight = Bar("HPG", datetime(2025, 6, 2, 17, 0, tzinfo=UTC), 60, 2, 2, 2, 2, 100)
    source = ListedBars([after_midnight, before_midnight, bar(0)])

    found = [each for c in source.chunks("HPG", FIRST, FIRST) for each in c.bars()]

    assert found == [bar(0), before_midnight]
    assert bars_of(source) == [bar(0), before_midnight, after_midnight]
    assert source.symbols() == ("HPG",)
    assert source.span("HPG") == (date(2025, 6, 2), date(2025, 6, 3))
    assert (source.span("FPT"), bars_of(source, "FPT")) == (None, [])


def test_no_chunk_is_longer_than_allowed() -> None:
    minutes = np.arange(CHUNK_BARS + 1, dtype=np.int64)
    held = HeldBars(BarColumns("HPG", 60, minutes * 60, *[minutes] * 5))

    assert [len(each) for each in held.chunks(0, 60 * len(minutes))] == [CHUNK_BARS, 1]


@pytest.mark.parametrize("name", ["bars/1m/HPG.csv", "bars_1m/HPG.csv.gz", "1m/HPG.csv", "HPG.csv"])
def test_bars_are_found_in_every_kind_of_folder(name: str, tmp_path: Path) -> None:
    put(tmp_path, written([bar(0), bar(1)]), name)
    put(tmp_path, "symbol,date,reference\nHPG,2025-06-02,26900\n", "daily/days.csv")
    put(tmp_path, "symbol,date,reference,ceiling\nHPG,2025-06-02,26900,28750\n", "daily.csv")

    source = open_bars(tmp_path)

    assert bars_of(source) == [bar(0), bar(1)]
    assert source.width == timedelta(minutes=1)
    assert source.frames("HPG", FIRST, LAST) == {FIRST: DayFrame(26_900, 28_750, None, None)}


def test_the_width_is_read_off_the_rows_and_the_narrowest_folder_is_taken(tmp_path: Path) -> None:
    put(tmp_path, written([bar(0), bar(15), bar(30)]), "bars/15m/HPG.csv")

    assert open_bars(tmp_path).width == timedelta(minutes=15)

    put(tmp_path, written([bar(0), bar(1), bar(3)]), "bars/1m/HPG.csv")
    assert open_bars(tmp_path).width == timedelta(minutes=1)
    assert open_bars(tmp_path, width=timedelta(minutes=15)).width == timedelta(minutes=15)


def test_daily_bars_of_many_symbols_lie_in_one_file(tmp_path: Path) -> None:
    rows = "FPT,2025-06-03,3,3,3,3,300\nHPG,2025-06-02,1,2,1,2,100\nHPG,2025-06-03,2,2,2,2,0\n"
    put(tmp_path, f"symbol,date,open,high,low,close,volume\n{rows}", "daily.csv")

    source = open_bars(tmp_path / "daily.csv")

    midnight = datetime(2025, 6, 1, 17, tzinfo=UTC)
    later = midnight + timedelta(days=1)
    assert (source.symbols(), source.width) == (("FPT", "HPG"), timedelta(days=1))
    assert bars_of(source) == [
        Bar("HPG", midnight, 86_400, 1, 2, 1, 2, 100),
        Bar("HPG", later, 86_400, 2, 2, 2, 2, 0),
    ]


def test_an_index_is_read_in_hundredths_of_a_point(tmp_path: Path) -> None:
    put(tmp_path, f"{HEADER}2025-06-02 09:15,1245.22,1247.3,1245,1247.3,0\n", "VNINDEX.csv")

    assert bars_of(open_bars(tmp_path), "VNINDEX") == [
        Bar("VNINDEX", OPENING, 60, 124_522, 124_730, 124_500, 124_730, 0)
    ]


def test_an_index_in_a_file_of_many_symbols_is_in_points_too(tmp_path: Path) -> None:
    rows = "hpg,2025-06-02,2,2,2,2,0\nvnindex,2025-06-02,1245.22,1247.3,1245,1247.3,0\n"
    put(tmp_path, f"symbol,date,open,high,low,close,volume\n{rows}", "daily.csv")

    source = open_bars(tmp_path / "daily.csv")

    assert [bars_of(source, each)[0].close for each in source.symbols()] == [2, 124_730]


@pytest.mark.parametrize("days_in", ["1d", "bars/1m", "bars_5m/daily"])
def test_ex_dates_beside_the_bars_of_a_width_are_found_from_the_folder_above(
    tmp_path: Path, days_in: str
) -> None:
    (tmp_path / "1d").mkdir()
    (tmp_path / days_in).mkdir(parents=True, exist_ok=True)
    put(tmp_path / "1d", f"{HEADER}2025-06-02,2,2,2,2,0\n".replace("time", "date"))
    put(tmp_path / days_in, "symbol,ex_date,ratio\nHPG,2025-06-02,0.97\n", "ex_dates.csv")

    source = open_bars(tmp_path)

    assert source.frames("HPG", FIRST, LAST) == {date(2025, 6, 2): DayFrame(ex_ratio=0.97)}


def test_frames_take_ex_dates_from_their_own_file_and_none_from_adjusted_rows(
    tmp_path: Path,
) -> None:
    put(tmp_path, written([bar(0)]))
    days = "HPG,2025-06-02,27000,,raw\nHPG,2025-06-03,26000,0.5,raw\nHPG,2025-06-04,1,,adjusted\n"
    put(tmp_path, f"symbol,date,reference,ex_ratio,basis\n{days}", "daily.csv")
    put(tmp_path, "symbol,ex_date,ratio\nhpg,2025-06-02,0.97\nHPG,2025-06-03,0.9\n", "ex_dates.csv")

    frames = open_bars(tmp_path).frames("HPG", FIRST, LAST)

    assert frames == {
        date(2025, 6, 2): DayFrame(27_000, ex_ratio=0.97),
        date(2025, 6, 3): DayFrame(26_000, ex_ratio=0.5),
    }


def test_missing_days_and_short_days_are_told() -> None:
    whole = [day * 1_440 + minute for day in (0, 1, 2, 7, 8, 9) for minute in (0, 100, 330)]
    short = [3 * 1_440, 3 * 1_440 + 100, 10 * 1_440 + 100, 10 * 1_440 + 330]
    source = ListedBars(bar(minute) for minute in (*whole, *short))

    found = source.gaps("HPG", FIRST, date(2025, 6, 16))

    assert found == (
        Gap("HPG", date(2025, 6, 5), date(2025, 6, 5), "ends at 10:55, usually at 14:45"),
        Gap("HPG", date(2025, 6, 6), date(2025, 6, 6), "no bar"),
        Gap("HPG", date(2025, 6, 12), date(2025, 6, 12), "begins at 10:55, usually at 09:15"),
        Gap("HPG", date(2025, 6, 13), date(2025, 6, 16), "no bar on 2 trading days"),
    )


def test_bars_of_a_day_without_trading_are_told_as_left_out() -> None:
    saturday = 5 * 1_440
    source = ListedBars(bar(minute) for minute in (0, 330, saturday, saturday + 330))

    [*_, told] = source.gaps("HPG", FIRST, date(2025, 6, 7))

    what = "its bars are left out: the exchanges are closed on that day"
    assert told == Gap("HPG", date(2025, 6, 7), date(2025, 6, 7), what)


ROW = "2025-06-02 09:15,27000,27000,27000,27000,100\n"


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        (
            ROW + ROW,
            (
                "HPG.csv:3:1: E-MKT-004 2025-06-02 09:15 is not later than the rows before it: "
                "sort the file, and leave out what comes twice"
            ),
        ),
        (
            ROW.replace("27000", "27.0"),
            (
                "HPG.csv:2:18: E-MKT-006 open is whole VND, found '27.0': if the file is in "
                "thousands, multiply its prices by 1,000"
            ),
        ),
        (
            ROW.replace("09:15", "25:15"),
            "HPG.csv:2:1: E-MKT-003 a time is YYYY-MM-DD HH:MM, found '2025-06-02 25:15'",
        ),
        (
            ROW.replace("06-02", "02-30"),
            "HPG.csv:2:1: E-MKT-003 a time is YYYY-MM-DD HH:MM, found '2025-02-30 09:15'",
        ),
        (
            ROW.replace(",27000,100", ",27100,100"),
            (
                "HPG.csv:2:24: E-MKT-008 high 27,000 and low 27,000 do not hold open 27,000 and "
                "close 27,100, or are not above 0"
            ),
        ),
        (ROW[:-5], "HPG.csv:2:1: E-MKT-003 wanted 6 columns as in line 1, found 5"),
        ("", "HPG.csv:1:1: E-MKT-002 the file has a header but no rows: add rows"),
    ],
)
def test_a_wrong_row_is_told_with_its_place(content: str, wanted: str, tmp_path: Path) -> None:
    put(tmp_path, HEADER + content)

    assert told(tmp_path) == [wanted]


def test_a_place_far_down_a_long_file_is_right(tmp_path: Path) -> None:
    clocks = (OPENING + timedelta(minutes=minute) for minute in range(15_000))
    lines = [f"{at:%Y-%m-%d %H:%M},27000,27000,27000,27000,{at:%H%M%d%H%M}\n" for at in clocks]
    put(tmp_path, "".join([HEADER, *lines[:14_000], lines[13_999], *lines[14_000:]]))

    assert [each.partition(" ")[0] for each in told(tmp_path)] == ["HPG.csv:14002:1:"]


def test_a_wrong_last_line_is_told_with_its_number(tmp_path: Path) -> None:
    put(tmp_path, written(bar(minute) for minute in range(3)) + "2025-06-02 09:20,1\n")

    with pytest.raises(OperatorMistake) as caught:
        open_bars(tmp_path / "HPG.csv").span("HPG")

    assert [(each.line, each.column) for each in caught.value.problems] == [(5, 1)]


def test_bars_of_another_width_in_a_file_are_told(tmp_path: Path) -> None:
    put(tmp_path, written([bar(0), bar(15), bar(30), bar(31), bar(45)]))

    assert told(tmp_path) == [
        (
            "HPG.csv:5:1: E-MKT-010 2025-06-02 09:46 comes 60 s after the row before it, but the "
            "file's bars are 900 s wide: keep one width in a file"
        )
    ]


def test_a_file_that_is_not_named_after_a_symbol_is_refused(tmp_path: Path) -> None:
    put(tmp_path, written([bar(0)]), "hpg.csv")

    assert told(tmp_path / "hpg.csv") == [
        (
            "hpg.csv: E-DATA-013 a file of bars is named after its symbol, like HPG.csv or "
            "HPG.csv.gz: rename it"
        )
    ]


def test_every_file_that_cannot_be_read_is_told_at_once(tmp_path: Path) -> None:
    put(tmp_path, "", "FPT.csv")
    put(tmp_path, "Time,Open,High,Low,Close\n", "HPG.csv")
    put(tmp_path, written([bar(0)]), "VNM.csv")

    assert [each.partition(" ")[0] for each in told(tmp_path)] == ["FPT.csv:", "HPG.csv:1:1:"]


def test_capitals_in_the_names_of_columns_do_not_matter(tmp_path: Path) -> None:
    put(tmp_path, written([bar(0), bar(1)]).replace(HEADER, HEADER.upper()))

    assert bars_of(open_bars(tmp_path)) == [bar(0), bar(1)]


def test_a_folder_without_bars_or_with_two_kinds_is_refused(tmp_path: Path) -> None:
    assert told(tmp_path)[0].startswith("E-DATA-001 ")

    put(tmp_path, written([bar(0), bar(1)]))
    assert told(tmp_path, width=timedelta(minutes=5)) == [
        "HPG.csv: E-DATA-003 bars of 1m, wanted 5m; keep each width in a folder of its own"
    ]
    put(tmp_path, written([bar(0), bar(15)]), "FPT.csv")
    assert told(tmp_path) == [
        (
            "HPG.csv: E-DATA-003 bars of 1m, wanted 15m as in FPT.csv; keep each width in a "
            "folder of its own"
        )
    ]
    put(tmp_path, written([bar(0), bar(1)]), "HPG.csv.gz")
    assert told(tmp_path) == ["HPG.csv.gz: E-DATA-002 HPG has two files: keep one of them"]


@pytest.mark.skipif(DATA is None, reason="VNBOT_MARKET_DATA names no folder of recorded days")
def test_recorded_days_are_read_whole() -> None:
    source = open_bars(Path(DATA or ""))

    found = source.chunks("HPG", date(2025, 6, 3), date(2025, 6, 3))

    assert sum(len(each) for each in found) > 200
    assert source.frames("HPG", date(2025, 6, 3), date(2025, 6, 3)).keys() == {date(2025, 6, 3)}
    assert source.gaps("HPG", date(2025, 6, 3), date(2025, 6, 30)) == ()


def test_order_is_kept_over_the_border_of_two_blocks(tmp_path: Path) -> None:
    names = HEADER.strip().split(",")
    reading = Reading(tmp_path / "HPG.csv", names, 60, "HPG")
    first, second = (written([bar(minute)]).partition("\n")[2].encode() for minute in (1, 0))
    reading.figures(first)

    with pytest.raises(OperatorMistake) as caught:
        reading.figures(second)

    assert [(each.code, each.line) for each in caught.value.problems] == [("E-MKT-004", 3)]


def _parquet(folder: Path, **columns: object) -> Path:
    start = int(OPENING.timestamp())
    whole = {"start": [start + 60 * number for number in range(500)]} | dict.fromkeys(
        ("open", "high", "low", "close"), [27_000] * 500
    )
    pl.DataFrame({**whole, "volume": range(500), **columns}).write_parquet(folder / "HPG.parquet")
    return folder / "HPG.parquet"


@pytest.mark.parametrize(
    ("columns", "wanted"),
    [
        (
            {"open": [[1]] * 500},
            "E-MKT-003 column open is numbers of at most 64 bits, found List",
        ),
        ({"open": [b"1"] * 500}, "column open is numbers of at most 64 bits, found Binary"),
        ({"open": pl.Series([27_000] * 500, dtype=pl.Int128)}, "64 bits, found Int128"),
        ({"start": [1_795_056_840_000 + n for n in range(500)]}, "a time is YYYY-MM-DD HH:MM"),
        ({"start": ["2026-11-18T02:15:00Z"] * 500}, "a time is YYYY-MM-DD HH:MM"),
    ],
)
def test_columns_of_another_kind_are_told(
    columns: dict[str, object], wanted: str, tmp_path: Path
) -> None:
    assert wanted in told(_parquet(tmp_path, **columns))[0]


def test_a_file_that_is_damaged_in_its_middle_is_told(tmp_path: Path) -> None:
    path = _parquet(tmp_path)
    data = bytearray(path.read_bytes())

    for number in range(4, len(data) // 2):
        data[number] ^= 0xFF
    path.write_bytes(data)

    assert "no Parquet file, or a damaged one" in told(path)[0]


def test_a_symbol_that_seldom_trades_has_the_width_of_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "bars" / "1m"
    folder.mkdir(parents=True)
    seldom = [bar(minute) for minute in (0, 3, 6, 9, 10, 15)]
    (folder / "HPG.csv").write_text(written(seldom))

    source = open_bars(tmp_path)

    assert (source.width, bars_of(source)) == (timedelta(minutes=1), seldom)
    (folder / "HPG.csv").write_text(written([bar(minute) for minute in (0, 5, 10, 20)]))
    assert told(tmp_path, width=timedelta(minutes=1)) == [
        "bars/1m/HPG.csv: E-DATA-003 bars of 5m, wanted 1m; keep each width in a folder of its own"
    ]
