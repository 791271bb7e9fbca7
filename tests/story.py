"""Runs whole stories: the real run, from settings to a clean end, at full speed.

A story has a scenario for the sandbox and some strategies. The result is what a person could look
at afterwards: the entries in the order in which they were shown, the journal, and the broker's
ledger.
"""

import math
import sqlite3
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar, cast
from unittest.mock import patch

from ruamel.yaml import YAML

from bot.clock import SimulatedClock
from bot.config.limits import AccountSection, EveryStrategySection
from bot.config.scenario_file import load_scenario
from bot.config.settings.load import Loaded, load_settings
from bot.config.strategies import invoke
from bot.domain.entry import Entry, Note
from bot.domain.recovery import Recovery
from bot.journal.database.schema import migrate
from bot.protocol.secret import Secret
from bot.runtime.run import run_bot
from bot.runtime.run_controls import RunEnd, RunOptions
from bot.runtime.start.broker import MakeEnvironment
from bot.runtime.worlds.environment import Access, EnvironmentSpec
from bot.runtime.worlds.sandbox import SandboxEnvironment, wake_sandbox
from bot.sandbox.house.ledger import read_ledger
from bot.sandbox.sandbox import Sandbox
from tests.canaries import WireWatch, require_clean
from tests.cli.telling.told_whole import require_whole

AS_FAST_AS_IT_GOES = math.inf
ON_THE_WIRE = WireWatch()
"""Of all stories of a worker; what it has found fails the run (`conftest.py`)."""

T = TypeVar("T")


class InProcessEnvironment(SandboxEnvironment):
    """The sandbox environment without a socket."""

    def __init__(self, sandbox: Sandbox, clock: SimulatedClock, spec: EnvironmentSpec) -> None:
        super().__init__(
            sandbox=sandbox,
            clock=clock,
            activity=spec.activity,
            port=0,
            speed=spec.loaded.settings.sandbox.speed,
        )
        self._played = sandbox

    async def open(self, stack: AsyncExitStack, /) -> Access:
        """Answer in this process.

        The clock of a story stands still while a hook runs: of the hook's time what counts is that
        of a core, not for how long the machine lets it wait for one.
        """
        stack.enter_context(patch.object(invoke, "performance_s", time.thread_time))
        stack.callback(self._played.close)
        given = self._played.credentials
        key, secret = Secret(given.api_key), Secret(given.api_secret)
        return Access("http://127.0.0.1:1", key, secret, ON_THE_WIRE.watched(self._played.app))


def in_process(spec: EnvironmentSpec) -> InProcessEnvironment:
    """Make the environment of a story."""
    settings = spec.loaded.settings
    script = load_scenario(settings.sandbox.scenario, spec.loaded.base_dir)
    sandbox, clock = wake_sandbox(spec, script)
    return InProcessEnvironment(sandbox, clock, spec)


@dataclass
class Shown:
    """A screen that records what it is shown."""

    entries: list[Entry] = field(default_factory=list)
    recoveries: list[Recovery] = field(default_factory=list)
    rows: list[tuple[str, str]] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)

    def entry(self, entry: Entry) -> None:
        self.entries.append(entry)
        if isinstance(entry, Note) and entry.kind == "ALERT":
            require_whole(str(entry.numbers["alert"]), entry.text)

    def recovered(self, recovery: Recovery) -> None:
        self.recoveries.append(recovery)

    def row(self, name: str, text: str) -> None:
        self.rows.append((name, text))

    def trouble(self, text: str) -> None:
        self.troubles.append(text)

    def require_no_fault(self) -> None:
        """A fault of the engine ends no run: a story that has one unasked says so here."""
        faults = [note for note in self.all(Note) if note.kind == "FAULT"]
        assert not faults, faults[0].numbers["trace"]

    def all(self, kind: type[T]) -> list[T]:
        """Every entry of a kind, in order."""
        return [entry for entry in self.entries if isinstance(entry, kind)]


@dataclass(frozen=True)
class Story:
    """What a run leaves behind."""

    end: RunEnd
    shown: Shown
    loaded: Loaded

    def ledger(self) -> Sequence[Mapping[str, object]]:
        """The broker's own lines, which the bot never reads."""
        return read_ledger(self.loaded.state_dir / "sandbox.jsonl")

    def attempts(self) -> list[tuple[str, str]]:
        """Verb and intent of every order request in the journal (SQLite), oldest first."""
        with closing(sqlite3.connect(self.loaded.state_dir / "journal.db")) as connection:
            return connection.execute(
                "select verb, intent_id from attempts order by rowid"
            ).fetchall()

    def posts(self) -> list[str]:
        """The intent of every POST in the journal, oldest first."""
        return [intent_id for verb, intent_id in self.attempts() if verb == "POST"]

    def broker_orders(self) -> dict[str, Mapping[str, object]]:
        """The last word of the broker's ledger on each order."""
        return {str(line["order"]): line for line in self.ledger() if line["kind"] == "order"}


UNLIMITED: Mapping[str, object] = {
    "account": dict.fromkeys(AccountSection.model_fields),
    "limits": {name: None for name, most in EveryStrategySection() if most is not None},
}
"""The settings `risk` of a bot that nothing limits beside its strategies' own limits."""

ONCE = """
from bot import Strategy


class Once(Strategy):
    price: int
    shares: int = 100

    def on_start(self):
        self.asked = False

    def on_quote(self, quote):
        if not self.asked:
            self.asked = True
            self.buy(self.shares, limit=self.price, why="once")
"""
"""A plug-in that requests one order, on the first quote that it gets."""


def once(name: object = "once", **changes: object) -> dict[str, object]:
    """The file of a strategy that buys HPG once, far above the market unless told otherwise."""
    return {
        "name": name,
        "use": "once",
        "symbols": ["HPG"],
        "params": {"price": 27_500},
        "wake": {"quote": "5s"},
        "order": {"size": {"shares": 100}, "type": "LIMIT", "price": "ask"},
        "limits": {"max_order_value": 500_000_000},
        **changes,
    }


def write_project(
    folder: Path,
    *,
    scenario: Mapping[str, object] | str,
    strategies: Sequence[Mapping[str, object]],
    journal_url: str | None = None,
    **settings: object,
) -> Path:
    """Write bot.yaml, the strategy files and the scenario; return the path of bot.yaml.

    A story has no limits but those of its strategies, unless its `risk` says otherwise.
    """
    yaml = YAML(typ="safe")
    (folder / "strategies").mkdir(parents=True, exist_ok=True)
    name = scenario
    if not isinstance(scenario, str):
        name = "story.yaml"
        yaml.dump(_plain(scenario), folder / name)
    for strategy in strategies:
        yaml.dump(_plain(strategy), folder / "strategies" / f"{strategy['name']}.yaml")
    (folder / "strategies" / "once.py").write_text(ONCE)
    facts: dict[str, object] = {
        "mode": "sandbox",
        "state_dir": "state",
        "broker": {"requests_per_minute": 3000},
        "sandbox": {"scenario": name, "speed": "max", "port": 0},
        **settings,
        "risk": {**UNLIMITED, **dict(cast(Mapping[str, object], settings.get("risk", {})))},
    }
    if journal_url is None:
        lay_journal(folder / str(facts["state_dir"]) / "journal.db")
    else:
        facts["journal"] = {"url": journal_url}
    yaml.dump(_plain(facts), folder / "bot.yaml")
    return folder / "bot.yaml"


def lay_journal(file: Path) -> None:
    """Put an empty journal in place: tests of the start make theirs, stories need not."""
    if not file.exists():
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.write_bytes(_empty_journal())
        file.chmod(0o600)


@cache
def _empty_journal() -> bytes:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "journal.db"
        migrate(f"sqlite:///{file}")
        return file.read_bytes()


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value


async def tell(
    config: Path, *, minutes: float, make: MakeEnvironment = in_process, **options: object
) -> Story:
    """Run a project for some minutes of market time and return what it leaves."""
    loaded = load_settings(config)
    shown = Shown()
    run_options = RunOptions(run_for=timedelta(minutes=minutes), **options)  # type: ignore[arg-type]
    end = await run_bot(loaded, run_options, shown, make=make)
    shown.require_no_fault()
    require_clean("\n".join([*shown.troubles, *(text for _, text in shown.rows)]))
    return Story(end, shown, loaded)
