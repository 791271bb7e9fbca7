"""The shipped data set is whole, small, and what its scenario makes."""

from datetime import date
from pathlib import Path

import pytest

from bot.config.rulebook import load_rulebook
from bot.config.scenario_file import load_scenario
from bot.config.shipped import shipped
from bot.domain.instrument import Exchange
from bot.runtime.history.bars import DayFrame
from bot.runtime.history.store.simulated import SAMPLE, simulate_days
from bot.runtime.history.store.store import open_bars

FIRST, LAST = date(2026, 8, 24), date(2026, 11, 13)
FOLDER = shipped(SAMPLE)
BYTES_MAX = 400_000


def test_the_shipped_bars_are_whole_and_small() -> None:
    source = open_bars(FOLDER)

    exchanges = {each.exchange for each in load_scenario("scenario.yaml", FOLDER).symbols}
    assert exchanges == {Exchange.HOSE, Exchange.HNX, Exchange.UPCOM}
    assert source.symbols() == ("ACV", "FPT", "HPG", "SHS")
    for symbol in source.symbols():
        assert source.span(symbol) == (FIRST, LAST)
        assert source.gaps(symbol, FIRST, LAST) == ()
        assert len(source.frames(symbol, FIRST, LAST)) == 57
    files = [file for file in FOLDER.rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files) < BYTES_MAX


def test_a_day_on_which_a_share_goes_ex_says_by_how_much() -> None:
    source = open_bars(FOLDER)

    frames = {
        symbol: {
            day: frame
            for day, frame in source.frames(symbol, FIRST, LAST).items()
            if frame.ex_ratio is not None
        }
        for symbol in source.symbols()
    }

    assert frames == {
        "ACV": {},
        "FPT": {date(2026, 9, 15): DayFrame(118_800, 127_100, 110_500, 0.991653)},
        "HPG": {date(2026, 10, 8): DayFrame(22_900, 24_500, 21_300, 0.909091)},
        "SHS": {},
    }


@pytest.mark.process  # A simulated day takes 200 ms; nothing smaller proves the files.
def test_the_scenario_still_makes_the_shipped_bars(tmp_path: Path) -> None:
    scenario = load_scenario("scenario.yaml", FOLDER)
    some = scenario.model_copy(update={"symbols": scenario.symbols[2:]})

    simulate_days(some, load_rulebook(), FIRST).write(tmp_path)

    made, kept = open_bars(tmp_path), open_bars(FOLDER)
    assert made.symbols() == ("ACV", "SHS")
    for symbol in made.symbols():
        (found,), (wanted, *_) = (s.chunks(symbol, FIRST, FIRST) for s in (made, kept))
        assert list(found.bars()) == list(wanted.bars())
        assert made.frames(symbol, FIRST, LAST) == kept.frames(symbol, FIRST, FIRST)
