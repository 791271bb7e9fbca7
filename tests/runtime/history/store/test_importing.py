"""Files come into the store whole or not at all; what is wrong has its place, all of it at once."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from bot.config.problems import ExitCode, OperatorMistake, Problem
from bot.config.rulebook import load_rulebook, load_symbols
from bot.config.shipped import shipped
from bot.runtime.history.bars import DayFrame
from bot.runtime.history.store.archive import Archive, Overlap
from bot.runtime.history.store.importing import ALWAYS, Rules, check_source, import_files
from bot.runtime.history.store.simulated import SAMPLE
from bot.runtime.history.store.store import open_bars

NOW = datetime(2026, 11, 19, 3, tzinfo=UTC)
RULES = Rules(load_rulebook(), load_symbols())
HEADER = "time,open,high,low,close,volume\n"
GOOD = "2026-11-18 14:45,27000,27000,27000,27000,100\n"
NEXT = "2026-11-19 09:15,27000,27000,27000,27000,100\n"
DAILY = "symbol,date,open,high,low,close,volume\n"


def put(folder: Path, content: str, name: str = "HPG.csv") -> Path:
    path = folder / "in" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)
    return path


def take(folder: Path, place: Path, **options: object) -> tuple[int, list[str], int]:
    """Import into `store`; return how many bars are new, what is odd, and how many days too."""
    store = Archive(folder / "store")
    imported, odd, days = import_files(store, [place], RULES, at=NOW, **options)  # type: ignore[arg-type]
    return sum(each.added.new for each in imported), told(odd, folder), days


def told(problems: list[Problem] | tuple[Problem, ...], folder: Path) -> list[str]:
    return [str(problem).replace(f"{folder}/in/", "") for problem in problems]


def refused(folder: Path, place: Path) -> list[str]:
    with pytest.raises(OperatorMistake) as caught:
        take(folder, place)
    assert caught.value.exit_code is ExitCode.CONFIG
    assert not (folder / "store").exists()
    return told(caught.value.problems, folder)


def test_whole_numbers_may_be_written_as_pandas_writes_them(tmp_path: Path) -> None:
    put(tmp_path, HEADER + GOOD.replace("27000", "27000.0").replace(",100\n", ",100.0\n"))

    assert take(tmp_path, tmp_path / "in") == (1, [], 0)

    [bars] = Archive(tmp_path / "store").source().chunks("HPG", *ALWAYS)
    assert (bars.open.tolist(), bars.volume.tolist()) == ([27_000], [100])


def test_bars_come_with_their_days(tmp_path: Path) -> None:
    put(tmp_path, HEADER + GOOD + NEXT)
    put(tmp_path, "symbol,exchange,date,reference\nHPG,HOSE,2026-11-19,27000\n", "daily.csv")

    assert take(tmp_path, tmp_path / "in") == (2, [], 1)
    assert take(tmp_path, tmp_path / "in") == (0, [], 0)

    source = Archive(tmp_path / "store").source()
    assert sum(len(each) for each in source.chunks("HPG", *ALWAYS)) == 2
    assert source.frames("HPG", *ALWAYS) == {date(2026, 11, 19): DayFrame(27_000)}


@pytest.mark.parametrize(
    ("row", "wanted"),
    [
        (
            NEXT.replace("27000,100", "27010,100").replace(
                "27000,27000,27000", "27000,27010,27000"
            ),
            (
                "HPG.csv:3:24: E-MKT-007 2026-11-19 09:15: 27,010 is off the tick of 50 VND on "
                "HOSE; are prices in thousands, or adjusted?"
            ),
        ),
        (
            "2026-11-21 09:15,27000,27000,27000,27000,100\n",
            (
                "HPG.csv:3:1: E-MKT-005 2026-11-21 09:15: 2026-11-21 (Saturday) is not a "
                "trading day; was the time converted to another zone?"
            ),
        ),
        (
            "2026-11-19 09:15,30,30,30,30,100\n",
            (
                "HPG.csv:3:18: E-MKT-006 2026-11-19 09:15: 30 beside a reference of 27,000: "
                "write whole VND"
            ),
        ),
        (
            "2026-11-18 09:15,27000,27000,27000,27000,100\n",
            (
                "HPG.csv:3:1: E-MKT-004 2026-11-18 09:15 is not later than the rows before it: "
                "sort the file, and leave out what comes twice"
            ),
        ),
    ],
)
def test_useless_bars_are_refused_with_their_place(row: str, wanted: str, tmp_path: Path) -> None:
    place = put(tmp_path, HEADER + GOOD + row)

    assert refused(tmp_path, place) == [wanted]


def test_all_files_are_checked_before_one_is_written(tmp_path: Path) -> None:
    put(tmp_path, HEADER + GOOD)
    put(tmp_path, HEADER + GOOD.replace("27000", "27010"), "FPT.csv")
    put(tmp_path, HEADER + GOOD.replace("14:45", "1445"), "VNM.csv")

    found = refused(tmp_path, tmp_path / "in")

    assert [each.partition(" ")[0] for each in found] == ["VNM.csv:2:1:"]
    put(tmp_path, HEADER + GOOD.replace("-18 14:45", "-22 14:45"), "VNM.csv")
    found = refused(tmp_path, tmp_path / "in")
    assert [each.partition(" ")[0] for each in found] == ["FPT.csv:2:18:", "VNM.csv:2:1:"]


@pytest.mark.parametrize(
    ("row", "wanted"),
    [
        (
            NEXT.replace(",100", ",150"),
            "HPG.csv:3:42: E-MKT-008 2026-11-19 09:15: the volume is no multiple of 100",
        ),
        (
            NEXT.replace("09:15", "12:15"),
            "HPG.csv:3:1: E-MKT-005 2026-11-19 12:15: HOSE does not trade then",
        ),
        (
            "2026-11-19 09:15,27000,29000,27000,27000,100\n",
            (
                "HPG.csv:3:24: E-MKT-007 2026-11-19 09:15: outside the band 25,150 to "
                "28,850 VND around 27,000"
            ),
        ),
        (
            "2026-11-19 09:15,20000,20000,20000,20000,100\n",
            (
                "E-DATA-011 HPG 2026-11-19 opens at 20,000, -25.9 % from 27,000: did it go ex? "
                "Say so in ex_dates.csv"
            ),
        ),
    ],
)
def test_odd_bars_are_kept_and_told(row: str, wanted: str, tmp_path: Path) -> None:
    place = put(tmp_path, HEADER + GOOD + row)

    assert take(tmp_path, place) == (2, [wanted], 0)


def test_a_known_ex_date_explains_a_jump(tmp_path: Path) -> None:
    put(tmp_path, HEADER + GOOD + "2026-11-19 09:15,20000,20000,20000,20000,100\n")
    put(tmp_path, "symbol,ex_date,ratio\nHPG,2026-11-19,0.75\n", "ex_dates.csv")

    assert take(tmp_path, tmp_path / "in") == (2, [], 1)


def test_a_corrected_ex_date_is_refused_and_replaces_only_when_told(tmp_path: Path) -> None:
    place, names = put(tmp_path, HEADER + GOOD + NEXT).parent, "symbol,ex_date,ratio\n"
    put(tmp_path, f"{names}HPG,2026-11-19,0.59\n", "ex_dates.csv")
    take(tmp_path, place)
    put(tmp_path, f"{names}HPG,2026-11-19,0.95\nHPG,2026-11-18,0.9\n", "ex_dates.csv")

    with pytest.raises(OperatorMistake) as caught:
        take(tmp_path, place)

    (problem,) = caught.value.problems
    assert str(problem).startswith(
        "E-DATA-008 1 of the stored days of HPG differ, the first 2026-11-19: "
        "ex_ratio 0.59 stored, 0.95 new; nothing was changed"
    )
    assert caught.value.exit_code is ExitCode.DIFFERS
    frames = Archive(tmp_path / "store").source().frames("HPG", *ALWAYS)
    assert frames == {date(2026, 11, 19): DayFrame(ex_ratio=0.59)}
    assert take(tmp_path, place, overlap=Overlap.REPLACE) == (0, [], 2)
    frames = Archive(tmp_path / "store").source().frames("HPG", *ALWAYS)
    assert frames[date(2026, 11, 19)] == DayFrame(ex_ratio=0.95)


def test_of_a_symbol_that_nobody_knows_less_is_checked_and_that_is_told(tmp_path: Path) -> None:
    place = put(tmp_path, HEADER + GOOD.replace("27000", "27001"), "QQQ.csv")

    new, odd, _ = take(tmp_path, place)

    assert (new, [each.partition(" QQQ")[0] for each in odd]) == (1, ["QQQ.csv: E-DATA-010"])


def test_adjusted_prices_come_in_as_such_only(tmp_path: Path) -> None:
    place = put(tmp_path, HEADER + GOOD.replace("27000", "27010"))

    assert take(tmp_path, place, is_adjusted=True) == (1, [], 0)

    (kept,) = Archive(tmp_path / "store").ranges()
    assert kept.is_adjusted


def test_every_symbol_that_differs_is_named_before_anything_is_written(tmp_path: Path) -> None:
    for name in ("HPG.csv", "VNM.csv", "FPT.csv"):
        put(tmp_path, HEADER + GOOD, name)
    take(tmp_path, tmp_path / "in")
    put(tmp_path, HEADER + GOOD + NEXT, "FPT.csv")
    for name in ("HPG.csv", "VNM.csv"):
        put(tmp_path, HEADER + GOOD.replace(",100", ",200"), name)

    with pytest.raises(OperatorMistake) as caught:
        take(tmp_path, tmp_path / "in")

    words = [problem.message for problem in caught.value.problems]
    assert [each.partition(" differ")[0] for each in words] == [
        "1 of the stored bars of HPG",
        "1 of the stored bars of VNM",
    ]
    assert caught.value.exit_code is ExitCode.DIFFERS
    assert open_bars(tmp_path / "store").span("FPT") == (date(2026, 11, 18), date(2026, 11, 18))
    assert take(tmp_path, tmp_path / "in", overlap=Overlap.REPLACE) == (1, [], 0)


def test_daily_bars_of_many_symbols_are_checked_line_by_line(tmp_path: Path) -> None:
    rows = "FPT,2026-11-18,116000,116000,116000,116000,100\n"
    rows += "HPG,2026-11-18,27000,27000,27000,27000,100\n"
    place = put(tmp_path, f"{DAILY}{rows}HPG,2026-11-19,27000,27000,26990,27000,100\n", "daily.csv")

    assert refused(tmp_path, place) == [
        (
            "daily.csv:4:28: E-MKT-007 2026-11-19: 26,990 is off the tick of 50 VND on HOSE; are "
            "prices in thousands, or adjusted?"
        )
    ]
    place.write_text(f"{DAILY}{rows}")
    assert take(tmp_path, place, width=timedelta(days=1))[0] == 2


def test_nothing_is_wrong_with_the_shipped_bars() -> None:
    source = open_bars(shipped(SAMPLE))

    checked = check_source(source, RULES, source.symbols())

    assert [(each.symbol, each.fatal, each.told) for each in checked] == [
        (symbol, (), ()) for symbol in source.symbols()
    ]


def test_a_wrong_row_of_another_symbols_days_is_told_before_anything_is_written(
    tmp_path: Path,
) -> None:
    put(tmp_path, HEADER + GOOD)
    put(tmp_path, "symbol,exchange,date,reference\nFPT,HOSE,2026-11-19,27.5\n", "daily.csv")

    [found] = refused(tmp_path, tmp_path / "in")

    assert found.startswith("daily.csv:2:21: E-MKT-006 reference is whole VND, found '27.5'")


def test_bars_of_impossible_years_are_refused(tmp_path: Path) -> None:
    place = put(tmp_path, HEADER + GOOD.replace("2026-11-18", "9999-12-31"))

    [found] = refused(tmp_path, place)

    assert "E-MKT-005 HPG: bars of 9999-12-31 to 9999-12-31: those from 1990-01-01 on" in found


def refused_whole(folder: Path, places: list[Path], code: ExitCode, **options: object) -> list[str]:
    """Return what is said of places that are refused after others; the store stays as it was."""
    held = {each: each.read_bytes() for each in (folder / "store").rglob("*") if each.is_file()}
    with pytest.raises(OperatorMistake) as caught:
        import_files(Archive(folder / "store"), places, RULES, at=NOW, **options)  # type: ignore[arg-type]
    assert caught.value.exit_code is code
    now = {each: each.read_bytes() for each in (folder / "store").rglob("*") if each.is_file()}
    assert {**now, folder / "store" / ".lock": b""} == {**held, folder / "store" / ".lock": b""}
    return [str(each).replace(f"{folder}/", "") for each in caught.value.problems]


def test_places_that_differ_from_each_other_are_refused_before_anything_is_written(
    tmp_path: Path,
) -> None:
    put(tmp_path, HEADER + GOOD)
    put(tmp_path, "symbol,ex_date,ratio\nHPG,2026-11-19,0.75\n", "ex_dates.csv")
    other = tmp_path / "other" / "HPG.csv"
    other.parent.mkdir()
    other.write_text(HEADER + GOOD.replace(",100", ",200"))

    places = [tmp_path / "in", other]
    for overlap in (Overlap.REFUSE, Overlap.REPLACE):
        [said] = refused_whole(tmp_path, places, ExitCode.CONFIG, overlap=overlap)
        what, _, where = said.partition(", the first ")
        assert what == "other/HPG.csv: E-DATA-002 1 of the bars of HPG differ from in/HPG.csv"
        assert where.startswith("2026-11-18 14:45: volume 100 there, 200 here; nothing was changed")


def test_what_the_store_does_not_take_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    take(tmp_path, put(tmp_path, HEADER + GOOD))
    earlier = put(tmp_path, HEADER + GOOD.replace("27000", "116000"), "FPT.csv")
    odd = tmp_path / "odd" / "VNM.csv"
    odd.parent.mkdir()
    odd.write_text(HEADER + "".join(GOOD.replace("14:45", f"09:{18 + 3 * n}") for n in range(3)))

    found = refused_whole(tmp_path, [earlier, odd], ExitCode.CONFIG)
    assert found == [
        "E-DATA-003 VNM: bars of 3m are not kept, only of 1m, 5m, 15m, 30m, 1h, 4h, 1d"
    ]
    found = refused_whole(tmp_path, [tmp_path / "in"], ExitCode.CONFIG, is_adjusted=True)
    assert [each.partition(":")[0] for each in found] == [
        "E-DATA-009 the stored bars of HPG are as quoted, the new ones are adjusted"
    ]


def test_every_width_of_a_folder_is_imported(tmp_path: Path) -> None:
    put(tmp_path, HEADER + GOOD)
    (tmp_path / "in" / "HPG.csv").rename(tmp_path / "HPG.csv")
    for width in ("1m", "1d"):
        (tmp_path / "in" / "bars" / width).mkdir(parents=True)
    (tmp_path / "HPG.csv").rename(tmp_path / "in" / "bars" / "1m" / "HPG.csv")
    (tmp_path / "in" / "bars" / "1d" / "FPT.csv").write_text(
        "date,open,high,low,close,volume\n2026-11-18,116000,116000,116000,116000,100\n"
    )

    assert take(tmp_path, tmp_path / "in")[0] == 2
    assert Archive(tmp_path / "store").widths() == [timedelta(minutes=1), timedelta(days=1)]


def test_bars_that_would_be_seen_before_their_end_are_refused(tmp_path: Path) -> None:
    rows = [f"2026-11-19 {at},27000,27000,27000,27000,100\n" for at in ("09:15", "10:15", "14:45")]
    place = put(tmp_path, HEADER + "".join(rows))

    with pytest.raises(OperatorMistake) as caught:
        take(tmp_path, place, width=timedelta(hours=1))

    [found] = told(caught.value.problems, tmp_path)
    assert found.startswith("HPG.csv:3:1: E-MKT-011 2026-11-19 10:15: a bar of 1h")
