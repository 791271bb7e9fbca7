"""Files and names from outside: nothing runs, nothing hangs, nothing is written elsewhere."""

import os
from contextlib import suppress
from functools import partial
from itertools import cycle
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from bot.cli.strategy_templates import NAME
from bot.config.problems import ExitCode, OperatorMistake
from bot.config.settings.load import load_settings
from bot.config.strategies.load import load_plans
from bot.config.strategies.plugins import find_strategy
from bot.journal.errors import JournalError
from bot.journal.reading.reader import JournalReader
from tests.cli.stage import call
from tests.rows import every_row
from tests.security.yaml_fuzz import HOSTILE, outcome, read_all
from tests.story import once, write_project

FUZZED = 500
_STEPS = ("..", "../..", "/etc", "~", "~root", "$HOME", "`id`", "$(id)", "con", "nul", ".", "a/b")
_ENDS = ("", "/x", "/passwd", "\x00", "\x00.py", "\n", "%2e%2e", "\u2025/", ".yaml", "\\..\\x")
PATHS = [f"{step}{end}" for step in _STEPS for end in _ENDS]
"""Ways out of a folder; those that happen to be plain names are left out of the claims below."""


def test_hundreds_of_broken_files_run_nothing_and_hang_nowhere(tmp_path: Path) -> None:
    found = read_all(FUZZED, tmp_path)

    assert sum(found.values()) == FUZZED
    assert {"E-CFG-002", "E-CFG-003", "read"} <= set(found)


@every_row("text", HOSTILE)
def test_each_hostile_value_is_refused_or_plain(text: str) -> None:
    assert outcome(f"a: {text}") == "read" or outcome(f"a: {text}").startswith("E-CFG-0")


def test_there_are_a_hundred_ways_out() -> None:
    assert len(PATHS) >= 100


@every_row("name", [name for name in PATHS if name not in {"con", "nul"}])
def test_no_strategy_has_a_name_that_leads_elsewhere(name: str) -> None:
    assert NAME.fullmatch(name) is None


@every_row("use", PATHS)
def test_no_use_leads_out_of_the_project(use: str) -> None:
    for named in (use, f"{use}.py:Strategy", f"{use}:Strategy"):
        with pytest.raises((OperatorMistake, ValueError)):
            find_strategy(named, Path("/nonexistent"))


def test_names_and_symbols_of_a_file_are_checked_before_they_name_anything(tmp_path: Path) -> None:
    changes: tuple[dict[str, object], ...] = ({"name": "../evil"}, {"symbols": ["../FPT"]})
    for number, change in enumerate(changes):
        folder = tmp_path / str(number)
        folder.mkdir()
        config = write_project(folder, scenario="quiet", strategies=[once("x")])
        YAML(typ="safe").dump({**once(), **change}, folder / "strategies" / "x.yaml")

        with pytest.raises(OperatorMistake):
            load_plans(load_settings(config, environment={}))


def test_an_export_follows_no_link_and_what_it_writes_is_private(
    config: Path, tmp_path: Path
) -> None:
    (tmp_path / "theirs.csv").write_text("mine")
    (tmp_path / "orders.csv").symlink_to(tmp_path / "theirs.csv")
    words = ("-c", str(config), "journal", "export", "--what", "orders", "-o")

    linked = call(*words, str(tmp_path / "orders.csv"))
    plain = call(*words, str(tmp_path / "plain.csv"))

    assert (linked.code, linked.err[:9]) == (ExitCode.DATABASE, "E-SYS-001")
    assert (tmp_path / "theirs.csv").read_text() == "mine"
    assert plain.code == 0
    found = [path for path in tmp_path.rglob("*") if path.name.startswith("plain")]
    assert found
    assert all(path.stat().st_mode & (os.R_OK | os.W_OK) == 0 for path in found)


INJECTIONS = [
    f"{start}{middle}{end}"
    for start in ("'", '"', "x' ", 'x") ', "0 ", "\\'")
    for middle in ("or 1=1", "union select 1,2,3", "; drop table orders", "and sleep(9)", "|| x ||")
    for end in ("--", " --+", "/*", ";", " #", "", "'", "\x00", "%27", "' or ''='")
]


def test_no_filter_is_ever_part_of_a_statement(config: Path) -> None:
    assert len(INJECTIONS) >= 300
    found = 0
    with JournalReader(load_settings(config, environment={}).journal_url) as reader:
        before = len(reader.orders())
        asks = cycle((partial(reader.orders, symbol=""), partial(reader.orders, strategy="")))
        for text, ask in zip(INJECTIONS[::2], asks, strict=False):
            found += len(ask(**dict.fromkeys(ask.keywords, text)))
        for text in INJECTIONS[1::2]:
            with suppress(JournalError, LookupError, ValueError):
                found += bool(reader.order(text))
        after = len(reader.orders())

    assert (found, after) == (0, before)
