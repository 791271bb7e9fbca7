"""The store keeps what was added, says where from, and replaces nothing in silence."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.config.problems import ExitCode, OperatorMistake
from bot.runtime.history.bars import BarColumns, DayFrame
from bot.runtime.history.store.archive import (
    Archive,
    Origin,
    Overlap,
    StoredRange,
    Writer,
    joined,
)
from bot.runtime.history.store.bar_files import read_columns
from bot.runtime.history.store.bar_writing import write_bars
from bot.runtime.history.store.parquet_files import PART_BARS, read_parquet, write_parquet

NOW = datetime(2026, 11, 19, 3, tzinfo=UTC)
OPENING = int(datetime(2026, 11, 19, 2, 15, tzinfo=UTC).timestamp())
ALWAYS: Final = (date(2000, 1, 1), date(2100, 1, 1))
Form = tuple[
    Callable[[Path, Iterable[BarColumns]], None], Callable[[Path, str, int], Iterator[BarColumns]]
]
FORMS: Final[dict[str, Form]] = {
    ".csv.gz": (write_bars, read_columns),
    ".parquet": (write_parquet, read_parquet),
}


def columns(*minutes: int, close: int = 27_000, symbol: str = "HPG") -> BarColumns:
    starts = np.array(minutes, np.int64) * 60 + OPENING
    prices = np.full(len(minutes), close, np.int64)
    return BarColumns(symbol, 60, starts, prices, prices, prices, prices, starts % 977)


def add(
    archive: Archive,
    bars: BarColumns,
    overlap: Overlap = Overlap.REFUSE,
    *,
    is_adjusted: bool = False,
    source: str = "HPG.csv",
) -> tuple[int, int, int]:
    with archive.writing() as writer:
        found = writer.add(
            [bars],
            Origin.IMPORT,
            source=source,
            at=NOW,
            overlap=overlap,
            is_adjusted=is_adjusted,
        )
    return found.new, found.same, found.differing


def stored(archive: Archive) -> list[tuple[int, int]]:
    """Minute and close of each bar."""
    found = joined(archive.source().chunks("HPG", *ALWAYS))
    return [
        ((start - OPENING) // 60, close)
        for start, close in zip(found.start.tolist(), found.close.tolist(), strict=True)
    ]


@contextmanager
def refused(code: str, words: str = "") -> Iterator[None]:
    with pytest.raises(OperatorMistake) as caught:
        yield
    (problem,) = caught.value.problems
    assert problem.code == code
    assert words in problem.message


def test_bars_are_added_between_and_around_those_there(tmp_path: Path) -> None:
    archive = Archive(tmp_path)

    assert add(archive, columns(5, 6, 7)) == (3, 0, 0)
    assert add(archive, columns(1, 6, 7, 9)) == (2, 2, 0)

    assert [minute for minute, _ in stored(archive)] == [1, 5, 6, 7, 9]


def test_bars_that_differ_are_refused_kept_or_replaced_as_asked(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    add(archive, columns(1, 2))
    other = columns(2, 3, close=27_050)

    with refused("E-DATA-008", "the first 2026-11-19 09:17: open 27,000 stored, 27,050 new; high"):
        add(archive, other)
    with refused("E-DATA-008"), archive.writing() as writer:
        writer.check(other, Overlap.REFUSE, is_adjusted=False)
    assert stored(archive) == [(1, 27_000), (2, 27_000)]
    assert add(archive, other, Overlap.KEEP) == (1, 0, 1)
    assert stored(archive) == [(1, 27_000), (2, 27_000), (3, 27_050)]
    assert add(archive, other, Overlap.REPLACE) == (0, 1, 1)
    assert stored(archive) == [(1, 27_000), (2, 27_050), (3, 27_050)]


def test_the_manifest_says_where_bars_came_from_and_joins_what_is_one_range(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    add(archive, columns(1))
    add(archive, columns(1_440))
    add(archive, columns(90 * 1_440), source="HPG-2.csv")

    first = StoredRange(
        "1m", "HPG", date(2026, 11, 19), date(2026, 11, 20), Origin.IMPORT, "HPG.csv", NOW
    )
    day = date(2027, 2, 17)
    second = StoredRange("1m", "HPG", day, day, Origin.IMPORT, "HPG-2.csv", NOW)
    assert archive.ranges() == (first, second)


class Killed(Writer):
    """A writer that comes no further than its first bars."""

    def note(self, new: StoredRange) -> None:
        if list(self._archive.folder.rglob("HPG*")):
            raise KeyboardInterrupt
        super().note(new)


def test_adjusted_bars_are_known_as_such_if_the_manifest_is_not_reached_any_more(
    tmp_path: Path,
) -> None:
    archive = Archive(tmp_path)

    with pytest.raises(KeyboardInterrupt):
        Killed(archive).add([columns(1)], Origin.IMPORT, source="x", at=NOW, is_adjusted=True)

    assert stored(archive) == [(1, 27_000)]
    assert [each.is_adjusted for each in archive.ranges()] == [True]


def test_adjusted_bars_do_not_join_those_as_quoted(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    add(archive, columns(1))

    with refused("E-DATA-009", "as quoted, the new ones are adjusted"):
        add(archive, columns(2), is_adjusted=True)

    assert stored(archive) == [(1, 27_000)]


def test_there_is_one_writer_at_a_time(tmp_path: Path) -> None:
    archive = Archive(tmp_path)

    with (
        archive.writing(),
        pytest.raises(OperatorMistake) as caught,
        archive.writing(),
    ):
        pytest.fail("a second writer was let in")

    assert caught.value.exit_code is ExitCode.NOT_RUNNING


def test_what_a_kill_leaves_is_the_old_store_and_the_next_import_mends_it(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    add(archive, columns(1))
    manifest = (tmp_path / "manifest.json").read_bytes()
    add(archive, columns(2))
    (tmp_path / "manifest.json").write_bytes(manifest)  # killed between bars and manifest
    (tmp_path / "bars/1m/.HPG.parquet.new").write_bytes(b"half")

    assert stored(archive) == [(1, 27_000), (2, 27_000)]
    assert add(archive, columns(2)) == (0, 1, 0)
    assert [each.last for each in archive.ranges()] == [date(2026, 11, 19)]


def test_a_broken_manifest_is_told_and_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    add(archive, columns(1))
    (tmp_path / "manifest.json").write_text(json.dumps({"ranges": [{"width": "1m"}]}))

    with refused("E-DATA-006", "move it away"):
        archive.ranges()
    (tmp_path / "file").write_text("")
    with refused("E-DATA-004"), Archive(tmp_path / "file" / "store").writing():
        pytest.fail("there is no such folder")


@pytest.mark.parametrize("name", ["HPG.parquet", "HPG.csv.gz"])
def test_a_full_disk_is_said_and_leaves_the_old_file(tmp_path: Path, name: str) -> None:
    write = write_parquet if name.endswith("parquet") else write_bars
    (tmp_path / f".{name}.new").symlink_to("/dev/full")

    with refused("E-DATA-004", f"{name} cannot be written: No space left on device"):
        write(tmp_path / name, [columns(1)])

    assert list(tmp_path.iterdir()) == []


def test_frames_fill_what_is_missing_and_replace_only_when_told(tmp_path: Path) -> None:
    archive, day = Archive(tmp_path), date(2026, 11, 19)

    def put(frame: DayFrame, *, replaces: bool = False) -> int:
        with archive.writing() as writer:
            return writer.add_days([("HPG", "HOSE", day, frame)], replaces=replaces)

    add(archive, columns(1))
    assert put(DayFrame(27_000, ex_ratio=0.9)) == 1
    assert put(DayFrame(27_000, ex_ratio=0.9)) == 0
    assert put(DayFrame(28_000, 29_000)) == 1
    assert archive.source().frames("HPG", *ALWAYS) == {day: DayFrame(27_000, 29_000, None, 0.9)}
    assert put(DayFrame(28_000), replaces=True) == 1
    assert archive.source().frames("HPG", *ALWAYS) == {day: DayFrame(28_000, 29_000, None, 0.9)}


@st.composite
def _random_columns(draw: st.DrawFn) -> BarColumns:
    minutes = sorted(draw(st.sets(st.integers(0, 3_000_000), min_size=2, max_size=40)))
    starts = np.array(minutes, np.int64) * 60 + OPENING
    prices = [sorted(draw(st.tuples(*[st.integers(1, 10**12)] * 4))) for _ in minutes]
    low, opened_at, close, high = np.array(prices, np.int64).T.copy()
    volume = np.array([draw(st.integers(0, 10**14)) for _ in minutes], np.int64)
    return BarColumns("HPG", 60, starts, opened_at, high, low, close, volume)


@settings(max_examples=25, deadline=None)
@given(bars=_random_columns())
def test_both_forms_give_back_the_same_bytes(
    bars: BarColumns, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("forms")
    read_back = {}
    for ending, (write, read) in FORMS.items():
        write(folder / f"HPG{ending}", [bars])
        found = joined(read(folder / f"HPG{ending}", "HPG", 60))
        read_back[ending] = [
            (each.dtype, each.tobytes())
            for each in (found.start, found.open, found.high, found.low, found.close, found.volume)
        ]

    wanted = [bars.start, bars.open, bars.high, bars.low, bars.close, bars.volume]
    assert read_back[".csv.gz"] == [(each.dtype, each.tobytes()) for each in wanted]
    assert read_back[".parquet"] == read_back[".csv.gz"]


@pytest.mark.parametrize("ending", FORMS)
def test_an_index_keeps_its_points_however_often_it_is_written(tmp_path: Path, ending: str) -> None:
    write, read = FORMS[ending]
    write(tmp_path / f"bars/1m/VNINDEX{ending}", [columns(1, close=125_007, symbol="VNINDEX")])
    archive = Archive(tmp_path)

    assert add(archive, columns(1, 2, close=125_007, symbol="VNINDEX")) == (1, 1, 0)
    assert add(archive, columns(3, close=100, symbol="VNINDEX")) == (1, 0, 0)

    found = joined(read(tmp_path / f"bars/1m/VNINDEX{ending}", "VNINDEX", 60))
    for prices in (found.open, found.high, found.low, found.close):
        assert prices.tolist() == [125_007, 125_007, 100]
    assert found.volume.tolist() == columns(1, 2, 3).volume.tolist()


@pytest.mark.parametrize("ending", FORMS)
def test_an_index_that_an_earlier_version_stored_times_100_is_refused(
    tmp_path: Path, ending: str
) -> None:
    write, _ = FORMS[ending]
    path = tmp_path / f"bars/1m/VNINDEX{ending}"
    write(tmp_path / f"HPG{ending}", [columns(1, 2, close=9_487)])  # as it was written then
    path.parent.mkdir(parents=True)
    (tmp_path / f"HPG{ending}").rename(path)

    with refused("E-DATA-015", "VNINDEX of 9,487 points: an earlier version stored it times 100"):
        joined(Archive(tmp_path).source().chunks("VNINDEX", *ALWAYS))
    with refused("E-DATA-015", "move this file away and import the index again"):
        add(Archive(tmp_path), columns(3, close=9_512, symbol="VNINDEX"))


def test_parquet_is_read_in_small_parts(tmp_path: Path) -> None:
    write_parquet(tmp_path / "HPG.parquet", [columns(*range(PART_BARS + 1))])

    parts = [len(each) for each in read_parquet(tmp_path / "HPG.parquet", "HPG", 60)]

    assert parts == [PART_BARS, 1]


def test_a_store_without_polars_is_compressed_csv(tmp_path: Path) -> None:
    write_bars(tmp_path / "bars/1m/HPG.csv.gz", [columns(1)])
    archive = Archive(tmp_path)

    assert add(archive, columns(2)) == (1, 0, 0)

    assert [file.name for file in (tmp_path / "bars/1m").iterdir()] == ["HPG.csv.gz"]
    assert [minute for minute, _ in stored(archive)] == [1, 2]
    assert archive.widths() == [timedelta(minutes=1)]


@pytest.mark.process
def test_where_polars_is_absent_csv_serves_and_parquet_says_what_to_install(tmp_path: Path) -> None:
    write_bars(tmp_path / "csv/HPG.csv.gz", [columns(1, 2)])
    write_parquet(tmp_path / "parquet/HPG.parquet", [columns(1, 2)])
    program = """
import sys
sys.modules["polars"] = None
from datetime import date, datetime, UTC
from pathlib import Path
from bot.config.problems import OperatorMistake
from bot.runtime.history.store.archive import Archive, Origin
from bot.runtime.history.store.store import open_bars
source = open_bars(Path("csv"))
days = (date(2000, 1, 1), date(2100, 1, 1))
with Archive(Path("store")).writing() as writer:
    writer.add(source.chunks("HPG", *days), Origin.IMPORT, source="x", at=datetime.now(UTC))
print(*[file.name for file in Path("store/bars/1m").iterdir()])
print(sum(len(columns) for columns in Archive(Path("store")).source().chunks("HPG", *days)))
try:
    open_bars(Path("parquet"))
except OperatorMistake as mistake:
    print(mistake)
"""

    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=False
    )

    assert ran.stderr == ""
    assert ran.stdout.splitlines() == [
        "HPG.csv.gz",
        "2",
        "E-DATA-005 parquet/HPG.parquet is Parquet: to read it, pip install 'vnbot[data]'",
    ]


def test_a_file_is_replaced_as_a_whole_and_a_write_that_fails_leaves_the_old_one(
    tmp_path: Path,
) -> None:
    path = tmp_path / "HPG.csv.gz"
    write_bars(path, [columns(1)])
    old = path.read_bytes()

    def broken() -> Iterator[BarColumns]:
        yield columns(2)
        raise RuntimeError("the source ends badly")

    with pytest.raises(RuntimeError):
        write_bars(path, broken())
    assert path.read_bytes() == old
    with path.open("rb") as reader:
        write_bars(path, [columns(2)])
        assert reader.read() == old
    assert path.read_bytes() != old
    assert list(tmp_path.iterdir()) == [path]
