"""The command tree as a whole: help, examples, shared options, and what help must not import."""

import re
import shlex
import subprocess
import sys
from functools import cache
from itertools import groupby
from pathlib import Path

import click
import pytest

from bot.cli import messages
from bot.cli.command import ExampleCommand, ExampleGroup, Invocation
from bot.cli.main import COMMANDS, bot, walk
from bot.config.problems import ExitCode
from tests.cli.stage import call
from tests.rows import every_row

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("pydantic", "sqlalchemy", "httpx", "uvicorn", "starlette", "asyncio", "rich", "talib")
CALL_OF_BOT = re.compile(r"\bbot (?:\"[^\"]*\"|[^\"|<)])*")
"""The call in `pass x | bot …`, `bot … < file` and `other "$(bot …)"`."""


@cache
def tree() -> dict[str, click.Command]:
    return dict(walk())


@every_row("words", tree())
def test_help_opens_with_an_example_of_that_very_command(words: str) -> None:
    first = call(*words.split()[1:], "-h").out.splitlines()[0]

    assert first.startswith("Example: ")
    assert words in first


@every_row("words", ["bot", *tree()])
def test_help_fits_into_a_hundred_columns(words: str) -> None:
    ran = call(*words.split()[1:], "--help", columns=100)

    assert (ran.code, ran.err) == (ExitCode.DONE, "")
    assert max(len(line) for line in ran.out.splitlines()) <= 100


@every_row("words", tree())
def test_an_example_parses(words: str) -> None:
    command = tree()[words]
    assert isinstance(command, ExampleCommand | ExampleGroup)

    assert_parses(command.example)


def test_every_command_that_a_text_names_parses() -> None:
    for line in messages.EXAMPLES.splitlines():
        if line.startswith("  bot "):
            assert_parses(line.strip().split("   ")[0])
    for named in messages.SUMMARY_NEXT.split(" · "):
        assert_parses(named)


def assert_parses(line: str) -> None:
    """Parse a shell line's `bot …` without running it."""
    call_of_bot = CALL_OF_BOT.search(line)
    assert call_of_bot is not None, line
    words = shlex.split(call_of_bot[0])
    context = bot.make_context("bot", words[1:], obj=Invocation())
    rest = [*context._protected_args, *context.args]
    command: click.Command = bot
    while isinstance(command, click.Group) and rest:
        name, found, rest = command.resolve_command(context, rest)
        assert found is not None, name
        command, context = found, found.make_context(name, rest, parent=context)
        rest = [*context._protected_args, *context.args]


def test_every_command_takes_the_shared_options() -> None:
    for words, command in tree().items():
        names = {name for parameter in command.params for name in parameter.opts}
        missing = {"--json", "-c", "--state-dir", "--debug", "--color"} - names
        assert not missing, words


def test_the_help_of_a_command_names_what_every_command_takes() -> None:
    assert "Also: -c FILE, --state-dir DIR, --json" in call("run", "-h").out


def test_a_wrong_command_line_is_exit_code_2() -> None:
    for wrong in (["frobnicate"], ["orders", "--frobnicate"], ["order"], ["secret", "set"]):
        ran = call(*wrong)
        assert (ran.code, ran.out) == (ExitCode.USAGE, "")
        assert "Traceback" not in ran.err
        assert "\\x" not in ran.err, "a list of choices is set out by tabs"


def test_the_help_lists_every_exit_code() -> None:
    out = call("-h").out

    assert [code for code in ExitCode if f"{code:>2} " not in out] == []


def test_the_help_lists_every_command_without_importing_it() -> None:
    out = call("-h").out

    assert [name for name in COMMANDS if f"  {name} " not in out] == []


def modules_after(*arguments: str) -> set[str]:
    """What a process has imported when a command is over."""
    seen = f"import sys; from bot.cli.main import run; run({arguments!r}); print(*sys.modules)"
    command = [sys.executable, "-c", seen]
    started = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return set(started.stdout.splitlines()[-1].split())


@pytest.mark.process
def test_each_section_of_the_help_stands_once_and_a_line_is_a_sentence() -> None:
    sections = [section for section, _ in groupby(section for section, _ in COMMANDS.values())]

    assert len(sections) == len(set(sections))
    lines = [line for _, line in COMMANDS.values()]
    assert [line for line in lines if line[0].islower() or line[-1] not in ".?"] == []


def test_help_imports_nothing_heavy() -> None:
    assert modules_after("--help").intersection(HEAVY) == set()


@pytest.mark.process
def test_no_help_page_imports_what_its_command_works_with() -> None:
    modules = ", ".join(f"bot.cli.commands.{name}" for name in COMMANDS)
    command = [sys.executable, "-c", f"import {modules}; import sys; print(*sys.modules)"]

    imported = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)

    slow = {*HEAVY, "ruamel.yaml", "numpy", "apscheduler"} - {"asyncio", "pydantic"}
    assert slow.isdisjoint(imported.stdout.split())


def test_a_look_for_a_running_bot_imports_neither_database_nor_network(config: Path) -> None:
    found = modules_after("status", "-c", str(config))

    assert found.intersection(HEAVY) <= {"pydantic", "asyncio"}  # of the look for a file HALT
    assert found.isdisjoint({"bot.runtime.run", "bot.sandbox.sandbox", "alembic"})


def test_bot_alone_shows_what_to_begin_with(config: Path) -> None:
    ran = call("-c", str(config))

    assert (ran.code, ran.out) == (ExitCode.DONE, messages.EXAMPLES)
