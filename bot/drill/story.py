"""Plays one fault as a story: the whole program in this process, on a stepped clock.

Orders are sent from the start, and something breaks after a minute. After a passing fault,
everything has to be settled at the end and orders sent again. A lasting fault has to be named in
`bot status`, and a halt during it has to end with no order open, or give the reason.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from math import inf
from pathlib import Path
from typing import Final

from bot.clock import monotonic_s, performance_s
from bot.config.problems import OperatorMistake
from bot.config.settings.load import Loaded
from bot.domain.entry import Entry, Note
from bot.domain.recovery import Recovery
from bot.drill.environment import LOCK, Act, Asked, DrillEnvironment
from bot.drill.exercise import SYMBOL, Exercise, OutOfTime, Row
from bot.drill.oracle import StoryResult, faults_in, outcome_of
from bot.drill.project import Project
from bot.runtime.run import run_bot
from bot.runtime.run_controls import CTRL_C, RunEnd, RunOptions
from bot.runtime.state_dir import LEDGER
from bot.runtime.worlds.environment import EnvironmentSpec
from bot.sandbox.house.ledger import read_ledger

BREAKS: Final = timedelta(minutes=1)
LOOK_EVERY: Final = timedelta(seconds=2)
HALTS: Final = timedelta(minutes=4)
HALTED: Final = timedelta(minutes=5)
RESTS: Final = timedelta(minutes=6)
ENDS: Final = timedelta(minutes=8)
GRACE: Final = timedelta(seconds=30)
"""After the last passing fault: orders have to be sent again within this time."""
CODE_AFTER: Final = timedelta(seconds=10)
BEAT_S: Final = 10
HALT: Final[Mapping[str, object]] = {"do": "halt", "reason": "the drill halts", "by": "bot drill"}
REST: Final[Mapping[str, object]] = {
    "do": "pause",
    "reason": "the drill rests",
    "by": "bot drill",
    "cancel_open": True,
}
STATUS: Final[Mapping[str, object]] = {"do": "status"}


STORY_S_MAX: Final = 90.0
"""By the wall clock; some 5 s are usual. The stepped clock stands while a commit is retried."""

OWN: Final = "this was the drill's own bot; yours is not touched. "


class Stuck(Exception):
    """A story did not end in time; its text says what the bot has last complained of."""


class Interrupted(Exception):
    """A signal has ended the run of an exercise."""


@dataclass
class Kept:
    """A screen that shows nothing and collects what a row reports."""

    notes: list[Note] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)

    def entry(self, entry: Entry) -> None:
        """Keep what was noted."""
        if isinstance(entry, Note):
            self.notes.append(entry)

    def recovered(self, recovery: Recovery) -> None:
        """Ignore it: there was nothing before."""

    def row(self, name: str, text: str) -> None:
        """Show nothing of the start."""

    def trouble(self, text: str) -> None:
        """Keep it."""
        self.troubles.append(text)


@dataclass(frozen=True)
class Told:
    """A finished story."""

    exercise: Exercise
    symbol: str
    end: RunEnd
    kept: Kept
    asked: Asked
    outcome: StoryResult
    state_dir: Path
    start: datetime

    def statuses(self) -> list[tuple[timedelta, Mapping[str, object]]]:
        """When the bot's status was read, and what it was."""
        found = []
        for after, reply in self.asked.replies:
            status = reply.get("status")
            if isinstance(status, Mapping):
                found.append((after, status))
        return found


async def drill(project: Project, exercise: Exercise, story: Path, ends: float = inf) -> Row:
    """Play the story of one fault and judge it. Raises Interrupted, and OutOfTime at `ends`, by
    the monotonic clock.
    """
    started, did = performance_s(), "nothing that can be judged"
    problems: Sequence[str]
    try:
        problems, did = judge(await tell(project, exercise, story, ends))
    except Stuck as stuck:
        problems = [str(stuck)]
    return Row(exercise.name, exercise.broken, did, problems, performance_s() - started)


async def tell(project: Project, exercise: Exercise, story: Path, ends: float = inf) -> Told:
    """Run the bot through one fault. Raises Interrupted, Stuck, and OutOfTime."""
    script = project.scenario(exercise.rules(project.traded))
    loaded: Loaded = project.load(project.lay(story, script, beat_s=BEAT_S))
    if exercise.stays:
        looks = [BREAKS + n * LOOK_EVERY for n in range(-1, (HALTS - BREAKS) // LOOK_EVERY)]
        acts = [*(Act(at, STATUS) for at in looks), Act(HALTS, HALT), Act(HALTED, STATUS)]
    else:
        acts = [Act(BREAKS, {LOCK: exercise.lock_s})] if exercise.lock_s else []
        acts.append(Act(RESTS, REST))
    asked, kept = Asked([*acts, Act(ENDS - LOOK_EVERY, STATUS)]), Kept()

    def make(spec: EnvironmentSpec) -> DrillEnvironment:
        return DrillEnvironment(spec, script, timedelta(seconds=exercise.skew_s), asked)

    code = CODE_AFTER if exercise.answers_code else None
    options = RunOptions(run_for=ENDS, answer_otp_after=code)
    left_s = ends - monotonic_s()
    bound = asyncio.timeout(min(STORY_S_MAX, left_s))
    try:
        async with bound:
            end = await run_bot(loaded, options, kept, make=make)
    except OperatorMistake as mistake:
        told = [replace(each, message=OWN + each.message) for each in mistake.problems]
        raise OperatorMistake(told, mistake.exit_code) from mistake
    except TimeoutError:
        if not bound.expired():
            raise
        if left_s < STORY_S_MAX:
            raise OutOfTime from None
        last = kept.troubles[-1] if kept.troubles else "the bot complained of nothing"
        raise Stuck(f"it was not over after {STORY_S_MAX:g} s: {last}") from None
    if end.reason in {CTRL_C, "SIGTERM", "SIGHUP"}:
        raise Interrupted(end.reason)
    outcome = outcome_of(loaded.state_dir, loaded.journal_url)
    start = script.starts_at + timedelta(seconds=exercise.skew_s)
    symbol = project.traded.symbol
    return Told(exercise, symbol, end, kept, asked, outcome, loaded.state_dir, start)


# ------------------------------------------------------------------------------------ the judgement


def judge(told: Told) -> tuple[Sequence[str], str]:
    """Return everything that breaks a promise, and what the bot did in a few words."""
    problems = list(faults_in(told.outcome))
    sent = told.outcome.rows(
        "select signed_ms, outcome from attempts where verb = 'POST' order by signed_ms"
    )
    counted = Counter(str(row["outcome"]).lower().replace("_", " ") for row in sent)
    did = [f"{len(sent)} orders: " + ", ".join(f"{n} {word}" for word, n in counted.items())]
    did += [
        f"{row['strategy']} failed {row['times']}x: {row['why']}"
        for row in told.outcome.rows(
            "select strategy, count(*) as times, min(why) as why from decisions"
            " where verdict = 'FAILED' group by strategy"
        )
    ]
    if not sent:
        rows = told.outcome.rows(
            "select verdict, code from decisions where code not in ('PAUSED', 'NO_SIGNAL')"
            " order by rowid desc limit 1"  # at its end a drill settles
        )
        why = " ".join(map(str, rows[0].values())) if rows else "no strategy asked"
        problems.append(f"nothing was ordered: {why}")
    lines = read_ledger(told.state_dir / LEDGER)
    last = {line["rule"]: int(str(line["struck"])) for line in lines if line["kind"] == "fault"}
    struck = sum(last.values())  # each line of a rule has its count so far
    if told.exercise.faults and not struck:
        problems.append("the fault never struck: no request met it")
    after_ms = (told.start + BREAKS + GRACE).timestamp() * 1000
    if told.exercise.stays:
        found, words = _under_it(told, [row["signed_ms"] for row in sent], struck)
        problems += found
        did += words
    elif any(row["outcome"] == "ACCEPTED" and row["signed_ms"] >= after_ms for row in sent):
        did.append("orders go out again")
    else:
        problems.append("no order went out again after the fault")
    return problems, "; ".join(did)


def _under_it(told: Told, sent_ms: Sequence[int], struck: int) -> tuple[list[str], list[str]]:
    """Judge a lasting fault: is it named, and does a halt during it end as it should?"""
    problems, did = [], list[str]()
    named = _named(told)
    within_s = told.exercise.named_within_s
    if named is None and within_s > (HALTED - BREAKS).total_seconds():
        did.append(f"your risk.max_source_age_s has it named within {within_s:,} s, after the end")
    elif told.exercise.names and named is None and struck >= told.exercise.named_from:
        problems.append("neither bot status nor an alert named it")
    elif named is not None:
        after_s, text = named
        did.append(f"named after {after_s:g} s: {text}")
        if after_s > within_s * _slower(told):
            problems.append(f"it was named only after {after_s:g} s")
    at_halt = (told.start + HALTS).timestamp() * 1000
    if late := sum(ms > at_halt for ms in sent_ms):
        problems.append(f"{late} orders left after the halt")
    halted = next((status for after, status in told.statuses() if after == HALTED), {})
    left = halted.get("open_orders")
    if not isinstance(left, list):
        problems.append("bot status did not answer after the halt")
    elif left and not halted.get("alerts"):
        problems.append(f"the halt left {len(left)} orders open and said nothing")
    else:
        did.append(f"halt: {len(left)} open" + (", said why" if left else ""))
    return problems, did


def _slower(told: Told) -> float:
    """Return the factor by which the quota slows the polls: what they show is later as much."""
    rates = [status.get("rate") for _, status in told.statuses()]
    polls = [each.get("polls") for each in rates if isinstance(each, Mapping)]
    factors = [each.get("slower") for each in polls if isinstance(each, Mapping)]
    return max((each for each in factors if isinstance(each, int | float)), default=1.0)


def _named(told: Told) -> tuple[float, str] | None:
    """Return when the bot first named the fault, in seconds after it, and in which words."""
    pattern = told.exercise.names.replace(SYMBOL, re.escape(told.symbol))
    said = list[tuple[timedelta, str]]()
    for after, status in told.statuses():
        alerts, halted = status.get("alerts"), status.get("halted_symbols")
        if isinstance(alerts, list):
            said += [(after, str(each)) for each in alerts]
        if isinstance(halted, Mapping):
            said += [(after, f"{symbol}: {reason}") for symbol, reason in halted.items()]
    said += [(note.at - told.start, note.text) for note in told.kept.notes if note.kind == "ALERT"]
    found = [
        ((after - BREAKS).total_seconds(), text)
        for after, text in said
        if BREAKS <= after <= HALTED and re.search(pattern, text, re.IGNORECASE)
    ]
    return min(found, default=None) if told.exercise.names else None
