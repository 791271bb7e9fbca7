"""The table of the drill is whole: twelve faults that pass, six that stay, kills and a halt."""

import re

import pytest

from bot.drill.exercise import HALT, KILLS, Exercise, exercises, names
from bot.sandbox.faults.script import FaultScript
from bot.sandbox.scenario import SymbolScript

HPG = SymbolScript.model_validate({"symbol": "HPG", "exchange": "HOSE", "reference": 27_000})
EACH = pytest.mark.parametrize("exercise", exercises(), ids=lambda each: each.name)


def test_twelve_faults_pass_and_six_stay_and_no_name_is_taken_twice() -> None:
    stays = [each.stays for each in exercises()]

    assert (stays.count(False), stays.count(True)) == (12, 6)
    assert names()[-2:] == [KILLS, HALT]
    assert len(set(names())) == len(names()) == 20


@EACH
def test_each_breaks_something_and_its_faults_can_be_played(exercise: Exercise) -> None:
    rules = [FaultScript.model_validate(each) for each in exercise.rules(HPG)]

    assert rules or exercise.skew_s or exercise.lock_s
    assert all("SYMBOL" not in rule.match.path for rule in rules)
    assert re.compile(exercise.names).pattern == exercise.names


@EACH
def test_what_stays_lasts_beyond_the_halt_and_what_passes_does_not(exercise: Exercise) -> None:
    rules = [FaultScript.model_validate(each) for each in exercise.rules(HPG)]
    ends = [rule.match.until for rule in rules if rule.match.until is not None]

    if exercise.stays:
        assert [str(end) for end in ends] == ["09:36:00"]
    assert exercise.stays or all(str(end) <= "09:32:00" for end in ends)


def test_prices_slip_in_the_units_of_the_symbol() -> None:
    [slip] = [each for each in exercises() if each.slip]

    [rule] = slip.rules(HPG)

    assert rule["action"]["fields"]["price"] == 270_000
    assert rule["match"]["path"] == "*/quotes/stocks/HPG"
