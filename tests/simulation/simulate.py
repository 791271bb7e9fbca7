"""Deterministic simulation of the whole program: one integer is one story.

    make simulate SEEDS=200          seeds 0 to 199        SEEDS=40-59    those
    make simulate SEED=7             one, with what happened in it
    python -m tests.simulation.simulate 1000 --twice     each told twice: is its hash the same?
    python -m tests.simulation.simulate 1000 --into FILE     in parts: see parts.py

A story is a day, or the stretch of one that something depends on, with a busy bot on a simulated
machine against the sandbox: faults that pass and faults that stay, rows about other orders, a clock
that is off, a disk that hangs, plug-ins that act in every hook, a person and a stranger who act,
and kills. When all is mended the bot's journal is judged by the broker's ledger, which it never
reads. A failure prints the command that tells it again, at once, and at the end the shortest list
of what is needed that two minutes find.
100 stories or more fail, too, when fewer than 95 of 100 had the faults that a story should have, or
they went less than 500 times as fast as the market; and a night of 1,000 or more when an id of the
failure catalogue that they play struck fewer than 50 times: `PLAYS` in plan.py says which plays
which.

Left out of the hash of a story, as no seed decides it: nonces and the ids and hashes made of them,
signing times to the millisecond and latencies, the system's date at the start.
"""

import faulthandler
import gc
import json
import os
import sys
import time
import traceback
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from hashlib import sha256
from itertools import chain, islice
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

from bot.broker.errors import BrokerError
from bot.cli.main import COLLECT_AFTER
from bot.config.problems import OperatorMistake
from bot.config.settings.load import load_settings
from bot.drill.oracle import StoryResult, faults_in, outcome_of
from bot.runtime.run import run_bot
from bot.runtime.run_controls import RunOptions
from bot.runtime.state_dir import LEDGER
from bot.runtime.worlds.environment import EnvironmentSpec
from bot.sandbox.house.ledger import read_ledger
from bot.sandbox.scenario import Scenario
from tests.proofs import pieces_s, slowness, undone
from tests.simulation.machine import STUCK, run_on_machine
from tests.simulation.parts import alone, commit, kept, told_before
from tests.simulation.plan import CLOCK_OFF, DAY, FAIR, KILL, Plan, plan_of
from tests.simulation.strikes import STRIKES_MIN, by_id, too_rare
from tests.simulation.traders import strategies_of, write_plugins
from tests.simulation.world import (
    BY_HAND,
    KILLED,
    LOADED_LATE,
    STRUCK,
    Simulated,
    Trap,
    scenario_of,
)
from tests.story import Shown, write_project

ACCOUNT: Final = {"id": "0009000011", "cash": 900_000_000, "holdings": {"HPG": 2_000}}
STORY_S_MAX: Final = 600
"""A run that takes longer than this of the wall has hung: a day takes 145 s of a slow core."""
STRUCK_MIN: Final = 20
LASTING_MIN: Final = 5
"""What a story should have: faults that struck, and those of them that last."""
JUDGED_FROM: Final = 100
"""Stories from which on a run is judged by its figures."""
FULL_PERCENT_MIN: Final = 95
TIMES_REAL_MIN: Final = 500
"""By the time of a core that it used, so that others who use the machine hardly matter. One that is
slower by itself (`slowness`) need go only so many times less.
"""
FAILURES_SHOWN: Final = 3
SHRINK_S_MAX: Final = 120.0
"""How long a failure is told again and again with less in it."""
WORDS_MAX: Final = 1_000
OTHER_HASH: Final = "told again its hash is"
NO_START: Final = 3
STARTS_MAX: Final = 60
SETTLES: Final = timedelta(minutes=2)
"""The least that a start has until the end of its story."""
DOWN_S: Final = (5, 5, 30, 30, 60)
"""How long the bot is down before it is started again; as long as systemd waits, or a person."""
WORKERS: Final = 2
MEMORY: Final = "/dev/shm"
"""Where stories lie when there is such a place: a sync costs nothing there."""
assert LOADED_LATE, "imported by those who run it in children"


ACCEPTED: Final = {
    "was placed by hand and is ours": "of two equal rows no client can know which is whose",
}
"""What a promise costs that no client of this API can keep (order safety, section 9), by its words.
"""
NOT_YET: Final[Mapping[str, str]] = {}
"""What is known to fail and is being mended, by its words."""
_EXCUSED: Final = (*ACCEPTED, *NOT_YET)


@dataclass(frozen=True)
class Result:
    """What came of a story."""

    seed: int
    found: Sequence[str]
    digest: str
    struck: Counter[str]
    """How often each kind of fault struck."""
    parts: int
    """How many faults of the plan struck, each counted once."""
    lasting: int
    """How many of them last."""
    market_s: float
    cpu_s: float
    kills: int
    starts: int
    intents: int
    lines: Sequence[str] = field(default=(), repr=False)

    @property
    def excused(self) -> Sequence[str]:
        """Findings that are accepted, or not repaired yet."""
        return [each for each in self.found if any(words in each for words in _EXCUSED)]

    @property
    def faults(self) -> Sequence[str]:
        """What breaks a promise; empty if all is well."""
        return [each for each in self.found if each not in self.excused]


Tell = Callable[[Plan], Result]


def run_seed(seed: int) -> Result:
    return run_plan(plan_of(seed))


def run_twice(plan: Plan, tell: Tell | None = None) -> Result:
    """Tell a story twice; that its hash is another one then is a fault of it."""
    first, again = (tell or run_plan)(plan), (tell or run_plan)(plan)
    if first.digest == again.digest:
        return first
    only = [
        next((row for row in mine.lines if row not in set(other.lines)), "nothing more")
        for mine, other in ((first, again), (again, first))
    ]
    hashes = f"{again.digest}, not {first.digest}"
    found = f"{OTHER_HASH} {hashes}; only then {only[1]}; only before {only[0]}"
    return replace(first, found=[*first.found, found])


def run_plan(plan: Plan) -> Result:
    """Tell a story to its end and judge it."""
    shelf = MEMORY if Path(MEMORY).is_dir() else None
    with TemporaryDirectory(dir=shelf, prefix="story") as name:
        folder, begun = Path(name), _cpu_s()
        config, found = _project(folder, plan), []
        _script(config)  # here once, instead of in every run
        codes = list(_live(config, plan))
        if codes[-1] == STUCK:
            return _cut_off(plan, codes, ["everything waits for ever"], _cpu_s() - begun)
        if codes[-1] != 0:
            found.append(f"run {len(codes)} ended with {codes[-1]}: {_last_words(folder)}")
        if not (folder / "state" / "journal.db").exists():
            found = found or ["no run has made a journal"]
            return _cut_off(plan, codes, found, _cpu_s() - begun)
        outcome = outcome_of(folder / "state")
        by_hand = folder / "state" / BY_HAND
        ids = map(json.loads, by_hand.read_text().splitlines()) if by_hand.exists() else ()
        found += faults_in(outcome, by_hand=frozenset(ids))
        found += _told_secrets(config)
        struck, parts, lasting = _struck(folder, plan, kills=codes.count(KILLED))
        cpu_s = _cpu_s() - begun
        rows = list(_rows(outcome))
        digest = sha256("\n".join(rows).encode()).hexdigest()[:16]
        return Result(
            seed=plan.seed,
            found=found,
            digest=digest,
            struck=struck,
            parts=parts,
            lasting=lasting,
            market_s=plan.day.length.total_seconds(),
            cpu_s=cpu_s,
            kills=codes.count(KILLED),
            starts=len(codes),
            intents=len(outcome.rows("select intent_id from intents")),
            lines=rows,
        )


def _cut_off(plan: Plan, codes: Sequence[int], found: Sequence[str], cpu_s: float) -> Result:
    """A story without an end, or without a journal: there is nothing to judge it by."""
    return Result(
        seed=plan.seed,
        found=found,
        digest="",
        struck=Counter(),
        parts=0,
        lasting=0,
        market_s=0.0,
        cpu_s=cpu_s,
        kills=codes.count(KILLED),
        starts=len(codes),
        intents=0,
    )


def _live(config: Path, plan: Plan) -> Iterator[int]:
    """Run the bot, and start it again for as long as it dies; give the code of each end.

    A start that its broker refuses ends with a word of it, and is made again as systemd would. One
    at the end of the story still has time to read what happened before it.
    """
    dice, length = Random(f"lives {plan.seed}"), plan.day.length
    traps = [at for n, at in enumerate(plan.kills) if f"k{n}" not in plan.left_out]
    for part in range(STARTS_MAX):
        trap = Trap(traps.pop(0) if traps else 0)
        down_s = dice.choice(DOWN_S) if part else 0
        length += timedelta(seconds=down_s) + (SETTLES if part else timedelta())
        code = in_child(partial(_run, config, plan, trap, (part, down_s), length))
        yield code
        if code not in {KILLED, NO_START}:
            return


def _project(folder: Path, plan: Plan, *, record: bool = False) -> Path:
    dice = Random(f"scenario {plan.seed}")
    scenario = {
        "day": DAY.isoformat(),
        "start": plan.day.start.isoformat(),
        "symbols": [
            {"symbol": "HPG", "exchange": "HOSE", "reference": 27_000, "level_volume": 300},
            {"symbol": "SHS", "exchange": "HNX", "reference": 18_500, "level_volume": 300},
        ],
        "quota": "PRO",
        "seed": plan.seed,
        "faults": plan.rules(),
        "accounts": [ACCOUNT],
        "switches": {"partial_status": dice.choice(["SENT", "MATCHED"])},
    }
    end = plan.at((plan.day.length - FAIR).total_seconds())
    until = round(end.timestamp())
    strategies = strategies_of(plan.seed, until=until, is_eager=plan.is_eager, pest=plan.pest)
    config = write_project(
        folder,
        scenario=scenario,
        strategies=strategies,
        risk={"allow_amend": plan.may_amend},
        record=record,
    )
    write_plugins(folder)
    return config


def _run(config: Path, plan: Plan, trap: Trap, start: tuple[int, int], length: timedelta) -> None:
    (part, down_s), answer_after = start, timedelta(seconds=20)
    trap.watch_commits()
    options = RunOptions(run_for=length, answer_otp_after=answer_after, is_service=True)

    def make(spec: EnvironmentSpec) -> Simulated:
        dice = Random(f"ways {plan.seed} {part}")
        return Simulated(spec, plan, trap, dice, timedelta(seconds=down_s))

    sys.stderr = (config.parent / "words.txt").open("a")
    faulthandler.dump_traceback_later(STORY_S_MAX, exit=True, file=sys.stderr)
    run_on_machine(run_bot(load_settings(config), options, Shown(), make=make))


def _cpu_s() -> float:
    """What this process and its children have used of a core, in seconds."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def in_child(work: Callable[[], None]) -> int:
    """Do it in a process of its own, which may die of it, or hang; return its exit code."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            faulthandler.dump_traceback_later(STORY_S_MAX, exit=True, file=2)
            work()
            code = 0
        except (OperatorMistake, BrokerError) as error:
            code = NO_START
            sys.stderr.write(f"{error}\n")
        except BaseException:  # noqa: BLE001 (whatever it is, only its trace leaves the child)
            traceback.print_exc(file=sys.stderr)
        finally:
            sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _script(config: Path) -> Scenario:
    loaded = load_settings(config)
    return scenario_of(loaded.settings.sandbox.scenario, loaded.base_dir)


def _told_secrets(config: Path) -> Iterator[str]:
    """Name what the bot has written, and what it said, that holds its key or its secret."""
    script, folder = _script(config), config.parent
    for file in (*(folder / "state").rglob("*"), folder / "words.txt"):
        if file.is_file() and file.name != LEDGER:  # which is the broker's
            written = file.read_bytes()
            for secret in (script.key_text, script.secret_text):
                if secret.encode() in written:
                    yield f"a secret is in {file.name}"


def _last_words(folder: Path) -> str:
    """Return the end of what the children said."""
    file = folder / "words.txt"
    return file.read_text()[-4_000:] if file.exists() else ""


# --------------------------------------------------------------------------------- what happened


def _struck(folder: Path, plan: Plan, *, kills: int) -> tuple[Counter[str], int, int]:
    """Count the strikes of each kind, the faults of the plan that struck, and those that last."""
    lines = read_ledger(folder / "state" / "sandbox.jsonl")
    last = {
        int(str(line["rule"])): int(str(line["struck"]))
        for line in lines
        if line["kind"] == "fault" and line["struck"]
    }
    struck: Counter[str] = Counter()
    for rule, count in last.items():
        struck[plan.faults[rule].name] += count
    others = folder / "state" / STRUCK
    struck.update(acts := others.read_text().splitlines() if others.exists() else [])
    struck[KILL] = kills
    struck[CLOCK_OFF] = is_off = bool(plan.skew) and "skew" not in plan.left_out
    lasting = sum(plan.faults[rule].lasts for rule in last) + is_off
    return struck, len(last) + len(acts) + kills + is_off, lasting


_TABLES: Final = {
    "intents": "intent_id strategy symbol side quantity order_type limit_price why created_at "
    "state state_at state_reason proof order_id follows",
    "attempts": "seq at intent_id verb order_id outcome http_status code reason finished_at",
    "orders": "order_id intent_id symbol side quantity price state broker_status executed_quantity "
    "executed_amount cancelled_quantity fee tax at note",
    "transitions": "seq at intent_id order_id from_state to_state broker_status source note",
    "fills": "at order_id quantity price amount fee tax",
    "decisions": "seq at strategy symbol verdict code why numbers",
    "halts": "seq at scope from_state to_state reason by",
    "notes": "seq at kind symbol text",
}


def _rows(outcome: StoryResult) -> Iterator[str]:
    """Give every row of the journal in its order, without what no seed decides."""
    for table, columns in _TABLES.items():
        known = {
            row["name"] for row in outcome.rows(f"select name from pragma_table_info('{table}')")
        }
        names = [name for name in columns.split() if name in known]
        for row in outcome.rows(f"select {', '.join(names)} from {table} order by rowid"):
            yield f"{table} {json.dumps(row, ensure_ascii=False)}"


# --------------------------------------------------------------------------------- the command


def shrink(plan: Plan, tell: Tell = run_plan, *, within_s: float = SHRINK_S_MAX) -> Plan:
    """Leave out whatever is not needed for the failure: by halves, then one by one, and what was
    left out when the time is over.
    """
    give_up = time.monotonic() + within_s
    needed = [part for part in plan.parts if part not in plan.left_out]
    size = max(len(needed) // 2, 1)
    while True:
        for begin in range(0, len(needed), size):
            if time.monotonic() >= give_up:
                return plan
            smaller = plan.without(needed[begin : begin + size])
            if tell(smaller).faults:
                plan = smaller
                needed = [part for part in needed if part not in plan.left_out]
                break
        else:
            if size == 1:
                return plan
            size = max(size // 2, 1)


def seeds_of(text: str) -> range:
    """Read `200` (the first so many) or `40-59`. Raises ValueError."""
    first, dash, last = text.partition("-")
    return range(int(first), int(last) + 1) if dash else range(int(first))


def main(arguments: Sequence[str]) -> int:
    """Tell the stories asked for; 0 when all is well."""
    asked = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    asked.add_argument("seeds", nargs="?", type=seeds_of, default="200", metavar="200 | 40-59")
    asked.add_argument("--seed", nargs="+", metavar=("N", "LEFT_OUT"), help="one, and all of it")
    asked.add_argument("--twice", action="store_true", help="each twice, and compare the hashes")
    asked.add_argument("--into", type=Path, metavar="FILE", help="go on with the night of a file")
    given = asked.parse_args(arguments)
    if given.seed:
        return _tell_one(int(given.seed[0]), given.seed[1:])
    tell, pieces = run_twice if given.twice else run_plan, list[float]()
    shown = partial(report, is_twice=given.twice, pieces=pieces)
    if given.into is None:
        return shown(_each(given.seeds, tell, pieces), of=len(given.seeds))
    by = {"commit": commit(), "twice": given.twice}
    with alone(given.into):
        before = [_read(story) for story in told_before(given.into, by)]
        left = [seed for seed in given.seeds if seed not in {result.seed for result in before}]
        new = kept(_each(left, tell, pieces), given.into, lambda: commit() == by["commit"])
        return shown(chain(before, new), of=len(before) + len(left))


def _read(story: Mapping[str, Any]) -> Result:
    return Result(**{**story, "struck": Counter(story["struck"])})


def report(
    results: Iterable[Result], *, of: int, is_twice: bool = False, pieces: Sequence[float] = ()
) -> int:
    """Print what came of many stories, while which `pieces` were measured; 0 when all is well."""
    begun = time.perf_counter()
    struck: Counter[str] = Counter()
    excused: Counter[str] = Counter()
    failed: list[Result] = []
    figures = Figures(pieces=pieces)
    for result in results:
        struck += result.struck
        excused.update(words for each in result.excused for words in _EXCUSED if words in each)
        figures.take(result)
        if result.faults:
            failed.append(result)
            _say(f"seed {result.seed} FAILED: {result.faults[0][:WORDS_MAX]}")
            _say(f"  again: make simulate SEED={result.seed}")
        if sys.stdout.isatty():
            _say(f"\r{figures.count} of {of}", end="")
    _say(f"\n{figures.words(time.perf_counter() - begun)}")
    if is_twice:
        other = sum(any(OTHER_HASH in each for each in result.found) for result in failed)
        _say(f"  told twice: {figures.count - other:,} of {figures.count:,} with the same hash")
    for name, count in sorted(struck.items()):
        _say(f"  {name:32} {count:9,}")
    _say("  of the failure catalogue:")
    for name, count in by_id(struck).items():
        _say(f"  {name:32} {count:9,}")
    for name, count in excused.items():
        _say(f"  {count} x {name}: {ACCEPTED.get(name) or NOT_YET[name]}")
    for result in failed[:FAILURES_SHOWN]:
        _tell_failure(result)
    wrong = [*figures.wrong(), *undone(stories=figures.count, intents=figures.intents)]
    if rare := too_rare(struck, figures.count):
        wrong.append(f"struck fewer than {STRIKES_MIN} times: {', '.join(rare)}")
    _say("\n".join(wrong) or "what had to be done was done")
    return 1 if failed or wrong else 0


def _each(seeds: Iterable[int], tell: Tell, pieces: list[float]) -> Iterator[Result]:
    """Run seeds on some processes; no more of them are under way than can be remembered. Measure
    meanwhile how slow the machine is by itself.
    """
    waiting = iter(seeds)
    with ProcessPoolExecutor(WORKERS, initializer=_collect_late) as pool:
        running = {pool.submit(_light, seed, tell) for seed in islice(waiting, 4 * WORKERS)}
        while running:
            done = next(as_completed(running))
            running.remove(done)
            running |= {pool.submit(_light, seed, tell) for seed in islice(waiting, 1)}
            pieces.append(pieces_s(time.process_time))
            yield done.result()


def _collect_late() -> None:
    """Run the garbage collector as seldom as `bot` does: it takes a tenth of a story otherwise."""
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)


def _light(seed: int, tell: Tell) -> Result:
    return replace(tell(plan_of(seed)), lines=())


@dataclass
class Figures:
    """What is printed of many stories."""

    count: int = 0
    market_s: float = 0.0
    cpu_s: float = 0.0
    kills: int = 0
    intents: int = 0
    parts: list[int] = field(default_factory=list)
    lasting: list[int] = field(default_factory=list)
    full: int = 0
    pieces: Sequence[float] = ()
    """How long a core took for the same piece of work, again and again."""

    def take(self, result: Result) -> None:
        self.count += 1
        self.market_s += result.market_s
        self.cpu_s += result.cpu_s
        self.kills += result.kills
        self.intents += result.intents
        if result.struck:
            self.parts.append(result.parts)
            self.lasting.append(result.lasting)
            self.full += result.parts >= STRUCK_MIN and result.lasting >= LASTING_MIN

    @property
    def speed(self) -> float:
        """How many times real time, a core."""
        return self.market_s / max(self.cpu_s, 0.001)

    def wrong(self) -> list[str]:
        """Say what is less than it should be; a few stories are not judged."""
        if self.count < JUDGED_FROM:
            return []
        full = f"{self.full:,} of {self.count:,} stories had the faults that a story should have"
        least = TIMES_REAL_MIN / slowness(self.pieces)
        slow = f"{self.speed:,.0f} times real time a core, {least:,.0f} are asked of it"
        return [
            *([full] if 100 * self.full < FULL_PERCENT_MIN * self.count else []),
            *([slow] if self.speed < least else []),
            *undone(kills=self.kills),
        ]

    def words(self, seconds: float) -> str:
        return (
            f"{self.count:,} seeds in {seconds:.0f} s: {self.market_s / 3600:,.1f} h of market, "
            f"{self.speed:,.0f} times real time a core; {self.kills:,} kills, "
            f"{self.intents:,} intents; faults that struck in a seed: {_spread(self.parts)}, "
            f"of which last: {_spread(self.lasting)}; {self.full:,} with {STRUCK_MIN} or more, "
            f"{LASTING_MIN} of which last"
        )


def _spread(counts: Sequence[int]) -> str:
    """Say the least, the median and the most."""
    if not counts:
        return "none"
    return f"{min(counts)} to {max(counts)}, median {median(counts):g}"


def _tell_one(seed: int, left_out: Sequence[str]) -> int:
    """Tell one story with everything in it."""
    plan = plan_of(seed).without(left_out)
    _say(f"seed {seed}: {plan.day.name}, pest {plan.pest}, eager {plan.is_eager}")
    _say("\n".join(f"  {plan.words(part)}" for part in plan.parts if part not in plan.left_out))
    result = run_plan(plan)
    _say("\n".join(result.lines))
    _say(f"hash {result.digest}, {result.kills} kills, {result.struck.total()} faults struck")
    _say("\n".join(f"NOT AS IT SHOULD BE {each}" for each in result.faults) or "all is well")
    return 1 if result.faults else 0


def _tell_failure(result: Result) -> None:
    _say(f"\nseed {result.seed}:")
    _say("\n".join(f"  {each}" for each in result.faults))
    if all(OTHER_HASH in each for each in result.faults):
        return  # a part that is left out shows nothing: it need not come again
    _say(
        f"  again: make simulate SEED={result.seed}; what it needs takes {SHRINK_S_MAX:g} s at most"
    )
    plan = shrink(plan_of(result.seed))
    left = [part for part in plan.parts if part not in plan.left_out]
    _say(f"  it needs no more than, on the {plan.day.name} with pest {plan.pest}:")
    _say("\n".join(f"    {plan.words(part)}" for part in left) or "    nothing")
    _say(f"  again: make simulate SEED={result.seed} LEFT_OUT='{' '.join(sorted(plan.left_out))}'")


def _say(text: str, end: str = "\n") -> None:
    sys.stdout.write(text + end)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
