"""A night in parts is one night: no story twice, none of another commit."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.simulation import parts, simulate
from tests.simulation.simulate import Result, main
from tests.simulation.test_simulation import NOTHING

Tell = Callable[..., tuple[int, list[int]]]


@pytest.fixture
def tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tell:
    """Tell seeds into a file, by a commit; return the exit code, and those that had to be told."""

    def told(
        *asked: str, by: str = "a", commits: Iterable[str] = (), cut_off_after: int = 9
    ) -> tuple[int, list[int]]:
        seeds: list[int] = []

        def each(left: Iterable[int], _: object, __: object) -> Iterator[Result]:
            for seed in left:
                if len(seeds) == cut_off_after:
                    raise KeyboardInterrupt
                seeds.append(seed)
                found, struck = ["lost"] * (seed == 7), Counter({"reads: lost": seed})
                yield replace(NOTHING, seed=seed, struck=struck, intents=1, found=found)

        monkeypatch.setattr(simulate, "_each", each)
        named = iter(commits)
        monkeypatch.setattr(simulate, "commit", lambda: next(named, by))
        monkeypatch.setattr(simulate, "_tell_failure", lambda _: None)
        return main([*asked, "--into", str(tmp_path / "night")]), seeds

    return told


def test_a_later_part_tells_what_is_left_and_judges_the_whole(
    tell: Tell, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tell("4") == (0, [0, 1, 2, 3])
    assert tell("2-5") == (0, [4, 5])
    assert tell("6") == (0, [])

    rows = [line.split() for line in capsys.readouterr().out.splitlines() if "reads:" in line]
    assert [row[-1] for row in rows] == ["6", "15", "15"]


def test_a_story_that_failed_in_an_earlier_part_fails_the_night(tell: Tell) -> None:
    assert tell("7-8") == (1, [7, 8])
    assert tell("2") == (1, [0, 1])


def test_a_part_that_was_cut_off_goes_on_after_its_last_story(tell: Tell, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        tell("4", cut_off_after=2)
    with (tmp_path / "night").open("a") as file:
        file.write('{"seed": 2, "fou')

    assert tell("4") == (0, [2, 3])
    assert tell("4") == (0, [])


def test_a_part_of_another_commit_or_told_another_way_is_refused(tell: Tell) -> None:
    tell("1")

    with pytest.raises(SystemExit, match="name another file"):
        tell("2", by="b")
    with pytest.raises(SystemExit, match="name another file"):
        tell("2", "--twice")


def test_a_commit_that_comes_in_between_ends_a_part_without_its_story(
    tell: Tell,
) -> None:
    with pytest.raises(SystemExit, match="changed meanwhile"):
        tell("3", commits="aab")

    assert tell("3") == (0, [1, 2])


def test_a_second_part_at_the_same_time_is_refused(tell: Tell, tmp_path: Path) -> None:
    with parts.alone(tmp_path / "night"), pytest.raises(SystemExit, match="another part"):
        tell("1")


@pytest.mark.parametrize("begun", ["", '{"commit": "a", "tw'])
def test_a_file_that_was_hardly_begun_is_begun_anew(tell: Tell, tmp_path: Path, begun: str) -> None:
    (tmp_path / "night").write_text(begun)

    assert tell("2") == (0, [0, 1])
    assert tell("2") == (0, [])


def test_what_is_not_committed_tells_no_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "__file__", str(tmp_path / "parts.py"))

    with pytest.raises(SystemExit, match="commit what has changed"):
        parts.commit()
