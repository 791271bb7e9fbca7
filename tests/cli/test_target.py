"""Which bot a command hits where none is named: one's own, and never the demo instead."""

import json
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path

import pytest

from bot.cli.command import Invocation
from bot.cli.main import walk
from bot.cli.messages import HALT_NOT
from bot.cli.target import find_bot
from bot.config.problems import ExitCode
from bot.config.shipped import DEMO, shipped
from tests.cli.stage import Ran, call
from tests.processes import BotProcess
from tests.staging import QUIET
from tests.story import lay_journal, once, write_project

ROOT = Path(__file__).resolve().parents[2]
START_S = "50"
CODE = "424242"

CHANGING = {
    "bot modify": ("modify last --limit 26100", ""),
    "bot cancel": ("cancel --all", ""),
    "bot otp": ("otp", ""),
    "bot otp forget": ("otp forget", ""),
    "bot otp request": ("otp request", ""),
    "bot otp revoke": ("otp revoke", ""),
    "bot otp submit": ("otp submit -", f"{CODE}\n"),
    "bot otp token": ("otp token - --yes", "a-token-made-elsewhere\n"),
    "bot notify mute": ("notify mute 1h", ""),
    "bot pause": ("pause --reason lunch", ""),
    "bot resume": ("resume", ""),
    "bot halt": ("halt --yes --reason prices", ""),
    "bot strategy disable": ("strategy disable once", ""),
    "bot strategy enable": ("strategy enable once", ""),
    "bot stop": ("stop", ""),
}
"""Every command that changes a running bot, as it is called, and what is piped into it."""
CHANGING_FILES = {
    *("bot data fetch", "bot data import", "bot db copy", "bot journal prune"),
    *("bot secret rm", "bot secret set"),
}
"""Those that change what a bot lives on, whether it runs or not: they say whose it is."""
NOT_CHANGING = """
    bot api, bot backtest, bot balance,
    bot config, bot config check, bot config path, bot config show,
    bot completion, bot conformance, bot data, bot data check, bot data list, bot data simulate,
    bot db, bot db check, bot db migrate, bot decisions, bot demo, bot docs, bot doctor,
    bot drill, bot errors,
    bot events, bot fills,
    bot init, bot journal, bot journal backup, bot journal export, bot journal head,
    bot journal sql, bot journal verify, bot limits,
    bot notify, bot notify list, bot notify test, bot optimise, bot order,
    bot orders, bot paper, bot paper serve, bot plugin, bot plugin list, bot pnl, bot positions,
    bot quote, bot run, bot session,
    bot logs, bot service, bot service install, bot service status, bot service uninstall,
    bot reconcile, bot replay, bot secret, bot secret list, bot secret test,
    bot status, bot strategy, bot strategy check, bot strategy list,
    bot strategy new, bot strategy schema, bot strategy show, bot version
"""
"""Those that only look, or that are about files and processes of their own."""


@dataclass(frozen=True)
class Bots:
    """A demo that runs, a bot of one's own beside it, and another that does not run."""

    home: Path

    @property
    def mine(self) -> Path:
        return self.home / "mybot"

    @property
    def idle(self) -> Path:
        return self.home / "idle"

    def call(self, folder: Path, *arguments: str, stdin: str = "") -> Ran:
        with chdir(folder):
            return call(*arguments, stdin=stdin, environment=self.places())

    def places(self) -> dict[str, str]:
        return {
            "HOME": str(self.home),
            "XDG_STATE_HOME": str(self.home / "state"),
            "XDG_CONFIG_HOME": str(self.home / "config"),
        }

    def state_of_the_demo(self) -> str:
        found = json.loads(self.call(self.home, "status", "--json", "-c", str(shipped(DEMO))).out)
        return str(found["state"])


@pytest.fixture(scope="module")
def bots(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bots]:
    """Both run."""
    bots = Bots(tmp_path_factory.mktemp("home"))
    for folder in (bots.mine, bots.idle):
        folder.mkdir()
        write_project(
            folder,
            scenario=QUIET,
            strategies=[once(params={"price": 26_000, "shares": 500})],
            risk={"allow_amend": True},
            sandbox={"scenario": "story.yaml", "speed": 20, "port": 0},
        )
    demo = BotProcess(
        "run",
        *("-c", str(shipped(DEMO))),
        **{"BOT_SANDBOX__PORT": "0", "BOT_SANDBOX__SPEED": "6", **bots.places()},
    )
    mine = BotProcess("run", "-c", str(bots.mine / "bot.yaml"), **bots.places())
    try:
        for config in (shipped(DEMO), bots.mine / "bot.yaml"):
            wait = ("status", "--wait", "RUNNING", "--timeout", START_S, "-c", str(config))
            ran = bots.call(bots.home, *wait)
            assert ran.code == ExitCode.DONE, ran.err
        while "ORD" not in bots.call(bots.mine, "status", "--json").out:
            assert mine.poll() is None
        yield bots
    finally:
        demo.end()
        mine.end()


def test_every_command_says_whether_it_changes_a_running_bot() -> None:
    tree = dict(walk())
    changing = {words for words, command in tree.items() if getattr(command, "changes", False)}

    assert changing == {*CHANGING, *CHANGING_FILES}
    assert changing | {" ".join(words.split()) for words in NOT_CHANGING.split(",")} == set(tree)


def test_a_command_that_does_not_say_that_it_changes_something_cannot() -> None:
    with pytest.raises(AssertionError, match="only a command that changes sends halt"):
        find_bot(Invocation(), "halt")


def _told(words: str, ran: Ran) -> str:
    """Return why nothing was done; a halt says first that it is none."""
    if words != "bot halt":
        return ran.err
    first, _, rest = ran.err.partition("\n")
    assert first == HALT_NOT
    return rest


@pytest.mark.process
@pytest.mark.parametrize("words", [*CHANGING])
def test_beside_a_running_demo_a_bot_of_ones_own_that_does_not_run_is_not_mistaken_for_it(
    bots: Bots, words: str
) -> None:
    arguments, stdin = CHANGING[words]
    ran = bots.call(bots.idle, *arguments.split(), stdin=stdin)

    assert (ran.code, ran.out) == (ExitCode.USAGE, "")
    told = _told(words, ran)
    assert told.startswith(f"E-RUN-007 no bot is running on {bots.idle}/state, the ")
    assert told.endswith(f"if you meant that, repeat the command with -c {shipped(DEMO)}\n")
    assert bots.state_of_the_demo() == "RUNNING"


@pytest.mark.process
def test_in_ones_own_folder_a_change_hits_ones_own_bot_and_says_so_first(bots: Bots) -> None:
    first_lines = {}
    for words, (arguments, stdin) in CHANGING.items():
        ran = bots.call(bots.mine, "-q", *arguments.split(), stdin=stdin)
        first_lines[words] = [*ran.out.splitlines(), ran.err][0]

    which = "mybot (sandbox, account …001.1)"
    assert {words: line for words, line in first_lines.items() if which not in line} == {}
    assert bots.state_of_the_demo() == "RUNNING"


@pytest.mark.process
def test_without_a_configuration_a_change_hits_the_demo_that_runs(bots: Bots) -> None:
    paused = bots.call(bots.home, "-q", "pause", "--reason", "lunch")
    resumed = bots.call(bots.home, "resume", "--json")

    assert paused.out.splitlines()[0] == "PAUSED demo (sandbox, account …001.1): lunch"
    assert json.loads(resumed.out)["bot"] == {
        "name": "demo",
        "mode": "sandbox",
        "config": str(shipped(DEMO)),
    }


@pytest.mark.process
def test_a_look_that_ends_at_the_demo_says_so_also_to_who_wants_no_talk(bots: Bots) -> None:
    positions = bots.call(bots.home, "-q", "positions")
    status = bots.call(bots.home, "-q", "status", "--json")

    assert positions.err.startswith("(this is the demo's journal, ")
    assert status.err == "(this is the running demo; use -c for another bot)\n"
    assert json.loads(status.out)["bot"]["name"] == "demo"


def test_a_run_where_nothing_is_configured_says_first_that_it_is_the_demo(tmp_path: Path) -> None:
    (tmp_path / "no-folder").touch()
    run = ("-q", "run", "--state-dir", str(tmp_path / "no-folder"))

    first, *_ = Bots(tmp_path).call(tmp_path, *run).err.splitlines()
    named = Bots(tmp_path).call(tmp_path, *run, "-c", str(shipped(DEMO))).err

    assert first == (
        "no bot.yaml here: this is the demo, with the demo's strategies. -c FILE runs yours"
    )
    assert "no bot.yaml here" not in named


def test_with_a_state_folder_ones_own_journal_is_not_taken_for_the_demos(tmp_path: Path) -> None:
    config = write_project(tmp_path / "mine", scenario=QUIET, strategies=[once()])
    lay_journal(tmp_path / "elsewhere" / "journal.db")

    ran = Bots(tmp_path).call(
        config.parent, "orders", "--json", "--state-dir", str(tmp_path / "elsewhere")
    )

    assert (ran.code, ran.err) == (ExitCode.DONE, "")
    assert json.loads(ran.out)["bot"]["name"] == "mine"


@pytest.mark.process
def test_in_ones_own_folder_a_look_never_ends_at_the_demo(bots: Bots) -> None:
    status = bots.call(bots.idle, "status", "--json")
    orders = bots.call(bots.idle, "orders", "--json")

    assert (status.code, json.loads(status.out)["state"]) == (ExitCode.NOT_RUNNING, "STOPPED")
    assert json.loads(status.out)["bot"]["name"] == "idle"
    assert json.loads(orders.out)["orders"] == []


@pytest.mark.process
def test_in_a_checkout_that_nobody_set_up_a_look_may_end_at_the_demo_a_change_not(
    bots: Bots,
) -> None:
    halt = bots.call(ROOT, "halt", "--yes")
    status = bots.call(ROOT, "status", "--json")

    assert (halt.code, halt.out) == (ExitCode.USAGE, "")
    assert "E-RUN-007" in halt.err
    assert json.loads(status.out)["bot"]["name"] == "demo"


@pytest.mark.parametrize("words", [*CHANGING])
def test_where_nothing_says_which_bot_is_meant_nothing_is_changed(
    tmp_path: Path, words: str
) -> None:
    arguments, stdin = CHANGING[words]
    ran = Bots(tmp_path).call(tmp_path, *arguments.split(), stdin=stdin)

    assert (ran.code, ran.out) == (ExitCode.USAGE, "")
    assert _told(words, ran) == (
        "E-RUN-007 which bot? No configuration was found and no demo is running. "
        f"Name it: {words} -c FILE\n"
    )


def test_a_copy_is_made_of_the_journal_that_every_reading_command_reads(tmp_path: Path) -> None:
    state = tmp_path / "state" / "vnbot" / "demo"
    lay_journal(state / "journal.db")
    state.chmod(0o700)
    home = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}

    with chdir(ROOT):
        looked = call("db", "check", "--json", environment=home)
        copied = call("db", "copy", "--to", f"sqlite:///{tmp_path}/copy.db", environment=home)

    url = json.loads(looked.out)["url"]
    assert (copied.code, f": {url} to " in copied.err) == (ExitCode.DONE, True), copied
