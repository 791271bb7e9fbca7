"""What tests/mutants.yaml says must be about places that are there."""

from collections import Counter
from pathlib import Path

from tests.mutant_places import (
    ENDLESS,
    LET_PASS,
    MODULES,
    NOTICED,
    judged,
    mutants_of,
    read_results,
    unjudged,
)

EVERY = [each for module in MODULES for each in mutants_of(module)]


def test_each_judged_place_is_in_the_code() -> None:
    _, unused = judged(EVERY)

    assert unused == []


def test_each_place_has_a_key_of_its_own() -> None:
    keys = Counter(each.key for each in EVERY)

    assert [key for key, count in keys.items() if count > 1] == []


def test_the_last_result_of_a_place_counts_and_one_of_a_place_that_is_gone_does_not(
    tmp_path: Path,
) -> None:
    first, second = EVERY[:2]
    file = tmp_path / "results"
    lines = [
        f"{LET_PASS}\t{first.key}\t",
        f"{NOTICED}\t{second.key}\ttests/a.py::test_b",
        f"{NOTICED}\tbot/gone.py\t0 -> 1\tx = 0\t1\ttests/a.py::test_b",
        f"{NOTICED}\t{first.key}\ttests/a.py::test_b",
    ]
    file.write_text("\n".join(lines) + "\n")

    assert read_results(file, EVERY) == {first: NOTICED, second: NOTICED}


def test_what_is_let_pass_and_not_judged_is_named() -> None:
    reasons, _ = judged(EVERY)
    places = [each for each in EVERY if each not in reasons][:3]
    results = dict.fromkeys(reasons, LET_PASS) | dict.fromkeys(places, LET_PASS)
    results |= {places[0]: NOTICED, places[1]: ENDLESS}

    assert unjudged(results, EVERY) == [places[2]]
