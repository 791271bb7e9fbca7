"""Which ids of the failure catalogue a simulation plays, and for which figures a night fails."""

from collections import Counter
from dataclasses import replace

import pytest

from tests.faults.strikes import rows_of_catalogue
from tests.proofs import PIECES_S
from tests.simulation.plan import PLAYS
from tests.simulation.simulate import (
    JUDGED_FROM,
    LASTING_MIN,
    STRUCK_MIN,
    TIMES_REAL_MIN,
    report,
)
from tests.simulation.strikes import NIGHT, STRIKES_MIN, by_id, too_rare
from tests.simulation.test_simulation import NOTHING

OFTEN = Counter(dict.fromkeys(PLAYS, STRIKES_MIN))
FULL = replace(
    NOTHING,
    struck=Counter(["reads: lost"]),
    parts=STRUCK_MIN,
    lasting=LASTING_MIN,
    market_s=float(TIMES_REAL_MIN),
    cpu_s=1.0,
    kills=1,
    intents=1,
)
"""A story as it should be."""


def test_what_is_played_is_in_the_catalogue() -> None:
    played = {each for ids in PLAYS.values() for each in ids.split()}

    assert played <= rows_of_catalogue().keys()
    assert played == by_id({}).keys()


def test_an_id_that_no_story_plays_says_why() -> None:
    played = {each for ids in PLAYS.values() for each in ids.split()}
    reasons = {each for each, row in rows_of_catalogue().items() if row.get("no_story")}

    assert played | reasons == rows_of_catalogue().keys()
    assert played & reasons == set(), "a reason that is none any more"


def test_the_kinds_that_play_an_id_count_together_and_one_that_plays_two_counts_for_both() -> None:
    counts = by_id({"reads: 429": 3, "place: 429": 4, "place: doubled": 2, "reads: lost": 9})

    assert {each: count for each, count in counts.items() if count} == {"T5": 2, "S4": 7, "A4": 2}


def test_a_night_fails_for_each_id_that_struck_fewer_than_fifty_times() -> None:
    assert too_rare(OFTEN, NIGHT) == []
    assert too_rare({**OFTEN, "place: rejected": 49}, NIGHT) == ["S1 (49)"]
    assert too_rare({**OFTEN, "place: doubled": 0}, NIGHT) == ["T5 (0)", "A4 (0)"]
    assert set(too_rare({}, NIGHT)) == {f"{each} (0)" for each in by_id({})}


def test_fewer_seeds_than_a_night_has_fail_for_no_id() -> None:
    assert too_rare({}, NIGHT - 1) == []


def test_a_night_that_fails_for_an_id_ends_with_code_one_and_names_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    often = [replace(FULL, struck=OFTEN), *[FULL] * (NIGHT - 1)]
    seldom = [replace(FULL, struck=OFTEN - Counter(["place: rejected"])), *often[1:]]

    codes = [report(often, of=NIGHT), report(seldom, of=NIGHT), report(seldom[1:], of=NIGHT - 1)]

    assert codes == [0, 1, 0]
    assert capsys.readouterr().out.splitlines().count("struck fewer than 50 times: S1 (49)") == 1


@pytest.mark.parametrize(
    ("less", "how_many", "said"),
    [
        ({}, JUDGED_FROM, "what had to be done was done"),
        ({"parts": STRUCK_MIN - 1}, 5, "what had to be done was done"),
        ({"parts": STRUCK_MIN - 1}, 6, "94 of 100 stories had the faults"),
        ({"lasting": LASTING_MIN - 1}, 6, "94 of 100 stories had the faults"),
        ({"struck": Counter[str]()}, 6, "94 of 100 stories had the faults"),
        ({"cpu_s": 1.01}, JUDGED_FROM, "495 times real time a core"),
        ({"kills": 0}, JUDGED_FROM, "NOTHING SHOWN: no kills"),
        ({"intents": 0}, JUDGED_FROM, "NOTHING SHOWN: no intents"),
    ],
)
def test_a_hundred_stories_fail_for_a_figure_that_is_less_than_it_should_be(
    less: dict[str, object], how_many: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    poor = [replace(FULL, **less)] * how_many  # type: ignore[arg-type]
    stories = poor + [FULL] * (JUDGED_FROM - how_many)

    code = report(stories, of=JUDGED_FROM)

    assert capsys.readouterr().out.splitlines()[-1].startswith(said)
    assert code == (said not in "what had to be done was done")


@pytest.mark.parametrize(("slower", "code"), [(0.5, 1), (1.0, 1), (1.1, 0), (1.04, 1)])
def test_a_core_that_is_slower_by_itself_need_go_only_so_many_times_less(
    slower: float, code: int
) -> None:
    slow = [replace(FULL, cpu_s=1.05)] * JUDGED_FROM

    assert report(slow, of=JUDGED_FROM, pieces=[slower * PIECES_S] * 3) == code


def test_a_few_stories_fail_for_no_figure() -> None:
    assert report([replace(FULL, parts=0, cpu_s=9.0, kills=0)] * (JUDGED_FROM - 1), of=1) == 0


def test_no_stories_at_all_show_nothing() -> None:
    assert report([], of=0) == 1
