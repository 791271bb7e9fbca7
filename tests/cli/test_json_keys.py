"""The keys of `--json` are those that the page lists: other programs are written by it."""

from pathlib import Path
from typing import Final

import pytest

from tests.cli.json_keys import RUNNING, declared, differences, differing
from tests.cli.stage import call

MINE: Final = """\
name: mine
use: sma_cross
symbols: [FPT]
wake: {bar: 1m}
order: {size: {shares: 100}, type: LIMIT, price: ask}
"""


@pytest.fixture(scope="module", autouse=True)
def strategies(config: Path) -> None:
    folder = config.parent / "strategies"
    folder.mkdir(exist_ok=True)
    (folder / "mine.yaml").write_text(MINE)


@pytest.mark.parametrize("command", sorted(declared().keys() - RUNNING))
def test_a_command_that_reads_prints_the_keys_that_the_page_tells(
    command: str, config: Path
) -> None:
    ran = call(*command.split()[1:], "--json", "-c", str(config))

    assert list(differences(command, ran.out)) == []


@pytest.mark.parametrize("command", ["bot limits", "bot balance", "bot session"])
def test_those_keys_are_there_too_while_no_bot_runs(command: str, config: Path) -> None:
    ran = call(*command.split()[1:], "--json", "-c", str(config))

    assert list(differences(command, ran.out)) == []


@pytest.mark.parametrize(
    ("found", "shape", "told"),
    [
        ({"a": 1}, {"a": "int"}, []),
        ({"a": None}, {"a": "int"}, ["x.a is None, not int"]),
        ({"a": None}, {"a": "int?", "b?": "text"}, []),
        ({"a": True}, {"a": "int"}, ["x.a is True, not int"]),
        ({"b": 1}, {"a": "int"}, ["x.a is missing", "x.b is not on the page"]),
        ({"a": [{"b": 1}, {}]}, {"a": [{"b": "int"}]}, ["x.a[1].b is missing"]),
        ({"a": {"any": 1}}, {"a": "map"}, []),
        ({"a": 1}, {"a": [{"b": "int"}]}, ["x.a is 1, not [{'b': 'int'}]"]),
    ],
)
def test_what_differs_from_the_page_is_found(found: object, shape: object, told: list[str]) -> None:
    assert list(differing(found, shape, "x")) == told
