"""A result says what it rests on."""

from dataclasses import replace
from datetime import date, time, timedelta
from pathlib import Path

import pytest

from bot.config.problems import OperatorMistake
from bot.domain.calendar import EarlyClose
from bot.domain.instrument import Exchange, Instrument
from bot.runtime.history.backtest.conditions import assumptions_of, assumptions_of_recording
from bot.runtime.history.backtest.spec import Wanted
from bot.runtime.history.backtest.spec import spec_of as spec_of_wanted
from bot.runtime.history.recording.recorded_days import RecordedDays
from bot.runtime.history.store.store import ListedBars
from tests.runtime.history.backtest.gears import spec_of
from tests.runtime.history.backtest.listed import bar


def test_a_day_that_ended_early_is_named() -> None:
    spec = spec_of(6)
    days = (spec.first, spec.last + timedelta(days=1))
    early = {day: EarlyClose(day, time(10, 30), "a storm") for day in days}
    calendar = replace(spec.rulebook.calendar, early_closes=early)

    said = assumptions_of(replace(spec, rulebook=replace(spec.rulebook, calendar=calendar)))

    [named] = [each for each in said if "storm" in each]
    assert named == f"{spec.first} ends at 10:30 (a storm): bars of later are left out"
    assert not [each for each in assumptions_of(spec) if "ends at" in each]


def test_a_result_says_that_no_token_is_missing() -> None:
    spec = spec_of(6)
    recorded = RecordedDays((), (), {}, {}, {}, ListedBars([bar("09:20", 27_000)]), ())

    over_bars = assumptions_of(spec)
    over_a_recording = assumptions_of_recording(spec, recorded, ())

    assert "no 2FA token is ever missing: on_2fa has no effect" in over_bars
    assert any(
        "no 2FA token is missing (on_2fa has no effect)" in each for each in over_a_recording
    )


BVB = """\
name: mine
use: sma_cross
symbols: [HPG, BVB]
wake: {bar: 1m}
order: {size: {shares: 100}}
"""


def _wanted(folder: Path, daily: str) -> Wanted:
    """A strategy that also trades a symbol which the table does not have."""
    (folder / "mine.yaml").write_text(BVB)
    bars = folder / "bars"
    bars.mkdir()
    for symbol, price in (("HPG", 27_000), ("BVB", 12_400)):
        row = f"2026-11-19 09:20,{price},{price},{price},{price},1000"
        (bars / f"{symbol}.csv").write_text(f"time,open,high,low,close,volume\n{row}\n")
    if daily:
        (bars / "daily.csv").write_text(f"symbol,exchange,date\n{daily}\n")
    return Wanted(files=[folder / "mine.yaml"], data=[bars])


@pytest.mark.parametrize(
    "daily", ["", "HPG,HOSE,2026-11-19", "BVB,,2026-11-19", "BVB,X,2026-11-19"]
)
def test_a_symbol_of_which_nothing_says_where_it_trades_is_refused_at_its_place(
    daily: str, tmp_path: Path
) -> None:
    wanted = _wanted(tmp_path, daily)

    with pytest.raises(OperatorMistake) as refused:
        spec_of_wanted(wanted)

    [problem] = refused.value.problems
    assert (problem.code, problem.line, problem.column) == ("E-BT-010", 3, 16)
    assert problem.message.startswith("BVB is not in the shipped table, and no daily file says")


@pytest.mark.parametrize("day", ["2026-11-18", "2026-11-19", "2026-11-20"])
def test_a_symbol_that_the_table_lacks_trades_where_a_daily_file_says(
    day: str, tmp_path: Path
) -> None:
    spec = spec_of_wanted(_wanted(tmp_path, f"BVB,UPCOM,{day}"))

    [strategy] = spec.strategies
    assert strategy.instruments == (
        Instrument("HPG", Exchange.HOSE),
        Instrument("BVB", Exchange.UPCOM),
    )


def test_a_daily_file_says_on_each_day_where_a_symbol_trades_that_the_table_lacks(
    tmp_path: Path,
) -> None:
    days = [date(2026, 11, 17), date(2026, 11, 18), date(2026, 11, 19)]
    daily = zip(days, ["UPCOM", "UPCOM", "HOSE"], strict=True)
    wanted = _wanted(tmp_path, "\n".join(f"BVB,{on},{day}" for day, on in daily))

    table = spec_of_wanted(wanted).table

    found = [table.instrument("BVB", day) for day in days]
    assert [each.exchange for each in found if each] == ["UPCOM", "UPCOM", "HOSE"]
    assert table.instrument("HPG", days[0]) == Instrument("HPG", Exchange.HOSE)


@pytest.mark.parametrize("day", ["2024-12-31", "2025-01-10"])
def test_a_day_outside_the_listings_of_a_symbol_is_played_where_it_was_listed_before(
    day: str, tmp_path: Path
) -> None:
    wanted = _wanted(tmp_path, "")
    (tmp_path / "mine.yaml").write_text(BVB.replace("HPG, BVB", "BSR"))
    row = f"{day} 09:20,20000,20000,20000,20000,1000"
    (tmp_path / "bars" / "BSR.csv").write_text(f"time,open,high,low,close,volume\n{row}\n")

    spec = spec_of_wanted(replace(wanted, last=date.fromisoformat(day)))

    assert spec.strategies[0].instruments == (Instrument("BSR", Exchange.UPCOM),)
