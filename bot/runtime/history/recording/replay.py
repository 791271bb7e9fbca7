"""Feeds recorded days to the same engine again, and compares what it decides, call by call.

Every run of a day gets its own engine, built from the run's head. A run that began on an earlier
day is fed from there. The results are equal if every row's seal is reproduced: it hashes input and
output of all rows so far.
"""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Final

from bot.config.problems import OperatorMistake
from bot.config.strategies.invoke import invoke
from bot.config.strategies.plugins import find_strategy
from bot.config.strategies.source_files import changed_files
from bot.domain.entry import Decision
from bot.domain.errors import Fault
from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.local_time import clock_of
from bot.domain.message import Command, Event, Record
from bot.engine.engine import Engine
from bot.engine.settings import LoadedStrategy, StrategyFault
from bot.runtime.history.recording.differences import Difference, difference_of
from bot.runtime.history.recording.recordings import (
    DUE,
    END,
    GAP,
    GO_ON,
    LOOK,
    Codecs,
    Head,
    Row,
    Unusable,
    day_folder,
    days_of,
    is_blank,
    parts_of,
    read_head,
    rows_of,
    runs_of,
    sealed,
)
from bot.runtime.supervisor import FaultGuard
from bot.strategy import Strategy

PROGRESS_EVERY: Final = 500
NOTHING_YET: Final = "has nothing recorded yet: it has just begun, or was ended in its first second"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

Progress = Callable[[float], None]
"""Called with the share done, from 0 to 1."""


@dataclass(frozen=True, slots=True)
class RunReplayed:
    """The result of a run's replay. `ended` says how its recording ends; empty: cleanly.

    `digest` is empty if nothing was recorded yet, or it cannot be read.
    """

    run: int
    version: str
    events: int
    decisions: int
    digest: str
    ended: str
    changed: tuple[str, ...]
    difference: Difference | None = None
    damage: str = ""


@dataclass(frozen=True, slots=True)
class DayReplayed:
    """The result of a day's replay."""

    day: date
    runs: tuple[RunReplayed, ...]

    @property
    def events(self) -> int:
        return sum(each.events for each in self.runs)

    @property
    def decisions(self) -> int:
        return sum(each.decisions for each in self.runs)

    @property
    def digest(self) -> str:
        """One hash for the day."""
        return sha256("".join(each.digest for each in self.runs).encode()).hexdigest()[:16]

    @property
    def is_equal(self) -> bool:
        return not any(each.difference or each.damage for each in self.runs)


@dataclass(slots=True)
class Script:
    """The anomalies of a recorded call, played back to the engine's hooks and steps.

    A fault of a hook or step is returned as recorded if the same one is raised again; an overrun
    depends on the machine and is always returned, and a hook that was stuck is not called.
    """

    hooks: dict[int, StrategyFault] = field(default_factory=dict)
    steps: dict[int, Fault] = field(default_factory=dict)
    yields: frozenset[int] = frozenset()
    look: str = ""
    hook: int = 0
    step: int = 0
    asked: int = 0

    @classmethod
    def of(cls, row: Row) -> "Script":
        """Read it from a row."""
        script, yields = cls(), set[int]()
        for kind, number, *facts in json.loads(row.odd) if row.odd else ():
            if kind == "hook":
                script.hooks[number] = StrategyFault(*facts)
            elif kind == "step":
                script.steps[number] = Fault(*facts)
            elif kind == "yield":
                yields.add(number)
            else:
                script.look = kind
        script.yields = frozenset(yields)
        return script


class Player:
    """Sits between an engine and its inputs, as the tape did in the run."""

    def __init__(self) -> None:
        self.script = Script()
        self._guard = FaultGuard(Path(os.devnull))  # not a folder, so no report is written

    def invoke(
        self, strategy: Strategy, hook: str, argument: object | None
    ) -> StrategyFault | None:
        script = self.script
        recorded, script.hook = script.hooks.get(script.hook), script.hook + 1
        if recorded is not None and recorded.is_stuck:
            return recorded  # called again it would not return either
        fault = invoke(strategy, hook, argument)
        has_raised = fault is not None and not fault.is_overrun
        if recorded is not None and (recorded.is_overrun or has_raised):
            return recorded
        return fault if has_raised else None

    def guard(self, step: Callable[[], object]) -> Fault | None:
        """Make a step of the engine; for a look only its fault is known."""
        script = self.script
        recorded, script.step = script.steps.get(script.step), script.step + 1
        if script.look:
            return recorded
        fault = self._guard.guard(step)
        return fault and (recorded or fault)

    def must_yield(self) -> bool:
        """Return whether the recorded run had to yield here."""
        script = self.script
        script.asked += 1
        return script.asked - 1 in script.yields


def replay_day(state_dir: Path, day: date, progress: Progress = lambda _: None) -> DayReplayed:
    """Replay every run of a day. Raises Unusable if none can be."""
    folders = runs_of(state_dir, day) or recorded_runs(state_dir, day)

    def replayed(at: int, folder: Path) -> RunReplayed:
        run = int(folder.name.removeprefix("run="))
        if is_blank(folder):
            return RunReplayed(run, "", 0, 0, "", NOTHING_YET, ())
        try:
            head, ways = read_head(folder)
        except Unusable as error:  # the other runs are not affected
            return RunReplayed(run, "", 0, 0, "", "", (), damage=str(error))
        return _replay_run(
            state_dir, head, ways, day, lambda done: progress((at + done) / len(folders))
        )

    return DayReplayed(day, tuple(replayed(at, each) for at, each in enumerate(folders)))


def recorded_runs(state_dir: Path, day: date) -> tuple[Path, ...]:
    """Return the folders of a day's runs that have something recorded. Raises Unusable without one,
    naming recorded days.
    """
    folders = tuple(each for each in runs_of(state_dir, day) if not is_blank(each))
    if not folders:
        known = ", ".join(map(str, days_of(state_dir)))
        hint = f"Recorded days: {known}" if known else "Record with `record: on` in bot.yaml"
        raise Unusable(f"nothing is recorded of {day}. {hint}")
    return folders


def strategies_of(head: Head) -> tuple[LoadedStrategy, ...]:
    """Load the classes that a recorded run used. Raises OperatorMistake for missing ones."""
    base = Path(head.base_dir)
    if not base.is_dir():
        text = f"run {head.run} read its strategies from {base}, which is gone: put it back"
        raise OperatorMistake.of("E-REC-004", text)
    return tuple(
        LoadedStrategy(each.plan, find_strategy(each.plan.use, base), each.instruments)
        for each in head.strategies
    )


def folders_of(state_dir: Path, head: Head, day: date) -> Iterator[Path]:
    """Yield the folders of a run up to a day. Raises Unusable if its first days are gone."""
    name, days = f"run={head.run:06d}", days_of(state_dir)
    if head.began not in days:
        raise Unusable(
            f"run {head.run} began on {head.began}, which is kept no longer (record_days): only "
            "from its beginning can it be replayed"
        )
    for each in days:
        if head.began <= each <= day and (folder := day_folder(state_dir, each) / name).is_dir():
            yield folder


def _replay_run(
    state_dir: Path, head: Head, ways: Codecs, day: date, progress: Progress
) -> RunReplayed:
    changed = tuple(file for each in head.strategies for file in changed_files(each.files))
    player = Player()
    engine = Engine(
        rulebook=head.rulebook,
        strategies=strategies_of(head),
        settings=head.settings,
        invoke=player.invoke,
        guard=player.guard,
        must_yield=player.must_yield,
    )
    events = decisions = 0
    seal, last, found, damage, ended = "", None, None, "", ""
    try:
        parts = [part for each in folders_of(state_dir, head, day) for part in parts_of(each)]
        for row in sealed_rows(parts, progress):
            if row.kind == GAP:
                lost = json.loads(row.event)[0]
                damage = f"{lost:,} events were not recorded after call {row.number - 1:,}"
                break
            last = row
            event = ways.event.read(row.event) if row.event else None
            commands = make_again(engine, player, Script.of(row), row.kind, event)
            now = ways.commands.write(commands) if commands else ""
            seal = sealed(seal, row, now)
            if day_of(row) == day:
                events += row.event != ""
                decisions += len(decisions_in(commands))
            if seal != row.seal:
                recorded = ways.commands.read(row.commands) if row.commands else ()
                heard = row.kind if event is None else event
                accounts = {each.plan.account for each in head.strategies} - {""}
                found = difference_of(row.number, at_of(row), heard, recorded, commands, accounts)
                break
    except Unusable as error:
        damage = str(error)
    if not (found or damage) and (last is None or last.kind != END):
        ended = _open_end(state_dir, head, day, last)
    return RunReplayed(
        head.run, head.version, events, decisions, seal, ended, changed, found, damage
    )


def sealed_rows(parts: Sequence[Path], progress: Progress) -> Iterator[Row]:
    """Yield the rows of a run's parts as long as their seals are valid. Raises Unusable."""
    seal, number = "", 0
    for at, part in enumerate(parts):
        rows = list(rows_of(part))
        for count, row in enumerate(rows):
            number += 1
            seal = sealed(seal, row, row.commands)
            if row.number != number or row.seal != seal:
                raise Unusable(f"{part}: damaged at call {number:,}, or a part before is missing")
            if count % PROGRESS_EVERY == 0:
                progress((at + count / len(rows)) / len(parts))
            yield row


def make_again(
    engine: Engine, player: Player, script: Script, kind: str, event: Event | None
) -> list[Command]:
    """Repeat a recorded call."""
    player.script = script
    if event is not None:
        return engine.handle(event)
    if kind == GO_ON:
        return engine.go_on()
    if kind == LOOK and script.look == DUE:
        engine.next_due()
    elif kind == LOOK:
        engine.reason_not_to_amend("")  # one that raises does so whatever it is asked about
    return []


def decisions_in(commands: Sequence[Command]) -> list[Decision]:
    entries = (command.entry for command in commands if isinstance(command, Record))
    return [entry for entry in entries if isinstance(entry, Decision)]


def day_of(row: Row) -> date:
    """Return the local day of a call."""
    return at_of(row).astimezone(EXCHANGE_TZ).date()


def at_of(row: Row) -> datetime:
    """Return the instant of a call."""
    return _EPOCH + timedelta(microseconds=row.at_us)


def _open_end(state_dir: Path, head: Head, day: date, last: Row | None) -> str:
    if last is None:
        return NOTHING_YET
    later = (each for each in days_of(state_dir) if each > day)
    name = f"run={head.run:06d}"
    if any((day_folder(state_dir, each) / name).is_dir() for each in later):
        return "goes on the next day"
    return f"was cut off at {clock_of(at_of(last))} or is still running"
