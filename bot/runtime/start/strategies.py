"""The strategies of a run: which ones run, reports on their files, and their engine.

A broken one is left out, and reported until it is repaired: a typo in one file must not leave the
positions of the others unattended. With real money a person has to decide that, as the broken one
may be the one that was to sell.

Every start records who started it, and with which code: one note in the journal's chain has the
user of the process and each strategy's files with their hashes, and by what the next start sees
whether its API key is another. Files that differ from the previous
start are named in its text and shown; a start without differences is only journalled. Limits have a
separate note, from the engine.
"""

import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from bot.config.private_files import name_of
from bot.config.problems import OperatorMistake, Problem
from bot.config.settings.engine_terms import engine_settings_of
from bot.config.settings.load import Loaded
from bot.config.settings.model import Settings
from bot.config.strategies.invoke import invoke
from bot.config.strategies.load import BrokenFile, SortedOut, always_refused, load_sound
from bot.config.strategies.plugins import project_of
from bot.config.strategies.source_files import Hashes
from bot.domain.entry import (
    CODE_NOTE,
    Note,
    Number,
    Numbers,
)
from bot.domain.message import Noted
from bot.domain.recovery import Recovery
from bot.domain.rulebook import Rulebook
from bot.engine.control_state import Standing
from bot.engine.engine import Engine
from bot.engine.settings import Guard, Invoke, LoadedStrategy
from bot.runtime.activity import Post
from bot.runtime.history.recording.tape import RecordedEngine, Tape
from bot.runtime.timetable.feeds import slowness_of

_WHO: Final = "by"
_CHANGED: Final = "changed"


def strategies_to_run(loaded: Loaded, only: Sequence[str]) -> SortedOut:
    """Return the strategies of a run, and the broken ones that it leaves out.

    Raises OperatorMistake if none can run; with real money also for a broken one, unless `only`
    names the wanted ones.
    """
    found = load_sound(loaded, only=only)
    if found.broken and loaded.settings.mode == "live":
        names = " ".join(f"--only {shlex.quote(each.plan.name)}" for each in found.strategies)
        text = (
            "with real money nothing runs while a strategy is broken: it may be the one that was "
            "to sell. What is open at the broker stays open, and the bot does not follow it. Mend "
            f"the file, or take it out; to run without it knowingly: bot run {names}"
        )
        problems = [problem for each in found.broken for problem in each.problems]
        raise OperatorMistake([*problems, Problem("E-CFG-052", text)])
    return found


@dataclass(slots=True)
class Broken:
    """The broken strategies of a run. `alerts`: one alert each, until the next start."""

    files: Sequence[BrokenFile]
    alerts: tuple[Standing, ...] = ()

    def found(self, recovery: Recovery) -> tuple[Standing, ...]:
        """Return the alerts, with what the journal knows about shares that are now unattended."""
        self.alerts = tuple(_alert(each, recovery) for each in self.files)
        return self.alerts


def _alert(each: BrokenFile, recovery: Recovery) -> Standing:
    known, what = recovery.strategies.get(each.name), each.problems[0].head
    positions = known.positions.items() if known else ()
    held = ", ".join(f"{symbol} {shares:,}" for symbol, (shares, _) in positions if shares)
    kept = (
        f"Its shares ({held}) stay: nothing sells them, not even a flatten, and the day's sum "
        "leaves them out."
        if held
        else "By the journal it holds no shares."
    )
    text = (
        f"{each.name} does not run, its file is broken: {what}. It decides nothing; its open "
        "orders are followed, the other strategies go on. "
        f"{kept} Mend it, then start the bot again. Everything that is wrong: "
        f"bot strategy check {each.file}"
    )
    facts = {"strategy": each.name, "what": what, "file": each.file, "held": held or "0"}
    return Standing("STRATEGY_BROKEN", text, facts)


def note_start(
    loaded: Loaded,
    files: Mapping[str, Hashes],
    before: Numbers,
    key: Numbers,
    alerts: Iterable[Standing],
    *,
    at: datetime,
    post: Post,
) -> None:
    """Post the note of this start, and the problems that it begins with; `before` holds the
    previous note, `key` what is noted of the API key.
    """
    now = {**dict(_facts(loaded, files)), **key}
    other = [
        name.partition(" ")[2]
        for name in dict.fromkeys((*before, *now))
        if " " in name and before.get(name) != now.get(name)
    ]
    is_changed = bool(before and other)
    text = "the code of the strategies"
    if is_changed:
        text += f" is another than at the last start: {', '.join(dict.fromkeys(other))}"
    post(Noted(at, Note(at, CODE_NOTE, text, {**now, _CHANGED: is_changed})))
    for each in alerts:
        post(Noted(at, Note(at, "ALERT", each.text, {"alert": each.code, **each.facts})))


def _facts(loaded: Loaded, files: Mapping[str, Hashes]) -> Iterator[tuple[str, Number]]:
    user = os.geteuid()
    name = name_of(user)
    yield _WHO, name if name == str(user) else f"{name} ({user})"
    yield "mode", loaded.settings.mode
    project = project_of(loaded.base_dir)
    for strategy, hashes in files.items():
        for file, digest in hashes.items():
            path = Path(file)
            # then its name is the same wherever the project is
            is_ours = path.is_relative_to(project)
            yield f"{strategy} {path.relative_to(project) if is_ours else path}", digest


def user_name() -> str:
    """Return who runs this process, by name or, where it has none, by number."""
    return name_of(os.getuid())


def show_config(
    loaded: Loaded,
    found: SortedOut,
    show: Callable[[str, str], None],
    complain: Callable[[str], None],
) -> None:
    """Show what the run consists of, what is broken, and how long its polls take if
    that is long.
    """
    plans = [each.plan for each in found.strategies]
    symbols = {symbol for plan in plans for symbol in plan.symbols}
    counted = f"{len(plans)} {'strategy' if len(plans) == 1 else 'strategies'}"
    word = "symbol" if len(symbols) == 1 else "symbols"
    broken = f", {len(found.broken)} broken" if found.broken else ""
    show("config", f"{loaded.path}, {counted}{broken}, {len(symbols)} {word}")
    for problem in (*loaded.warnings, *always_refused(loaded, plans)):
        complain(f"warning: {problem.head}")
    for each in found.broken:
        for problem in each.problems:
            complain(f"{each.name} does not run: {problem.head}")
    settings = loaded.settings
    quote_age_max = timedelta(seconds=settings.risk.max_quote_age_s)
    if words := slowness_of(plans, settings.broker.requests_per_minute, quote_age_max):
        show("polls", words)


def make_engine(
    settings: Settings,
    rulebook: Rulebook,
    strategies: Sequence[LoadedStrategy],
    guard: Guard,
    must_yield: Callable[[], bool],
    call: Invoke = invoke,
) -> Engine:
    """Make the engine of these strategies; if the run is recorded, one that keeps a tape."""
    own = engine_settings_of(settings)
    if settings.record:
        return RecordedEngine(
            rulebook=rulebook,
            strategies=strategies,
            settings=own,
            tape=Tape(call, guard, must_yield),
        )
    return Engine(
        rulebook=rulebook,
        strategies=strategies,
        settings=own,
        invoke=call,
        guard=guard,
        must_yield=must_yield,
    )
