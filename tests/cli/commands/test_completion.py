"""TAB behind `bot`: commands, options, strategies and orders, as a shell asks for them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bot.cli.commands.completion import SHELLS
from bot.config.problems import ExitCode
from tests.cli.stage import call


def suggested(words: str, **environment: str) -> list[str]:
    """What bash would be told to suggest for the last word."""
    asked = {"_BOT_COMPLETE": "bash_complete", "COMP_WORDS": words}
    asked["COMP_CWORD"] = str(len(words.split(" ")) - 1)
    ran = call(environment={**asked, **environment})
    assert (ran.code, ran.err) == (0, "")
    return [line.partition(",")[2] for line in ran.out.splitlines()]


def test_commands_and_their_options_are_suggested() -> None:
    assert suggested("bot secr") == ["secret"]
    assert suggested("bot secret ") == ["list", "rm", "set", "test"]
    assert "--strategy" in suggested("bot orders --str")


def test_orders_are_suggested_by_both_ids_the_newest_first(config: Path) -> None:
    found = suggested(f"bot -c {config} order ")

    assert found[0] == "last"
    assert {"ORD10000001", "L-0001"} <= set(found)
    assert suggested(f"bot -c {config} order ORD") == [
        each for each in found if each.startswith("ORD")
    ]


def test_strategies_are_suggested_by_the_names_in_their_files(config: Path) -> None:
    folder = config.parent / "strategies"
    folder.mkdir(exist_ok=True)
    (folder / "mine.yaml").write_text("name: sma-mine  # my own\n")

    assert suggested(f"bot -c {config} decisions --strategy sma-") == ["sma-mine"]


def test_where_nothing_can_be_read_nothing_is_said(tmp_path: Path) -> None:
    (tmp_path / "bot.yaml").write_text("mode: [")

    assert suggested(f"bot -c {tmp_path / 'bot.yaml'} order ") == []
    assert list(tmp_path.iterdir()) == [tmp_path / "bot.yaml"]


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_gets_a_script_that_asks_bot(shell: str) -> None:
    ran = call("completion", shell)

    assert (ran.code, ran.err) == (ExitCode.DONE, "")
    assert f"_BOT_COMPLETE={shell}_complete" in ran.out
    if shutil.which(shell) is not None:
        subprocess.run([shell, "-n"], input=ran.out, text=True, check=True)


def test_fish_shows_a_help_text_that_has_a_comma_whole() -> None:
    script = call("completion", "fish").out

    assert 'string split -m 1 "," $completion' in script
    assert 'string split ","' not in script


@pytest.mark.process
def test_bash_itself_completes(tmp_path: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    bot = Path(sys.executable).with_name("bot")
    asks = f'PATH={bot.parent}:$PATH; eval "$(bot completion bash)"; COMP_WORDS=(bot secr); '
    asks += "COMP_CWORD=1; _bot_completion bot; echo ${COMPREPLY[@]}"
    ran = subprocess.run([bash, "-c", asks], capture_output=True, text=True, check=True)

    assert ran.stdout.split() == ["secret"]


@pytest.mark.process
@pytest.mark.skipif(shutil.which("zsh") is None, reason="not installed: zsh")
def test_a_plain_zsh_takes_the_script_without_a_complaint(tmp_path: Path) -> None:
    (tmp_path / ".zshrc").write_text(call("completion", "zsh").out, "utf-8")

    ran = subprocess.run(
        ["zsh", "-i", "-c", "print $_comps[bot]"],
        env={"HOME": str(tmp_path), "PATH": os.environ["PATH"], "TERM": "dumb"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (ran.stdout, ran.stderr) == ("_bot_completion\n", "")
