"""Thousands of places whose answer says nothing, of every kind, each settled as the ledger says.

    python -m tests.simulation.ambiguous [SENDS] [SEED]      10,000 sends, the first seed 1

Afternoons of a bot that is busy in nine symbols and that nobody kills; the fate of three places
in four is drawn from `FATES`, a fifth of the rows that would tell is hidden for a while, and some
places are kept by a proxy for up to two minutes and delivered when the bot has given them up (T4).
The broker answers all reads. At the close of each day its journal is judged by the broker's ledger,
and every order's story is looked through, as `order_chains` does.

How soon a send is settled or fenced is said in seconds of the stepped market, in which a request
takes no time: it is what the bot waits for, and none of what its requests take. For that, on the
real clock, see `tests.crash.kills`.

An afternoon has about 200 such sends and takes 20 to 35 s of a core: each of its 1,300 day order
books has more rows than the one before. It is lived through on a simulated machine, where an answer
that never comes is waited for in no time. What was counted so far is printed after each on a
terminal, and also when the run is interrupted or terminated.
"""

import math
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count, islice
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

from bot.drill.oracle import StoryResult, faults_in, outcome_of
from tests.by_hand import tell_by_hand
from tests.proofs import is_settled, undone, within
from tests.simulation.machine import run_on_machine
from tests.simulation.order_chains import chains_in, write_day
from tests.simulation.simulate import MEMORY, WORKERS
from tests.simulation.weather import BehindWeather, Exchange, Message, Weather
from tests.story import Story

SENDS: Final = 10_000
SHARE: Final = 0.75
"""Of the places that a fate befalls."""
WITHIN_S: Final = {50: 2.0, 99: 35.0}
"""Shares of the unknown sends, and for how many seconds they wait at most until they are settled or
fenced. No busy machine makes them more: they are seconds of the market.
"""
HIDDEN: Final = 0.2
KEPT: Final = 0.06
"""How many of the places a proxy keeps, for up to two minutes."""

FATES: Final[Mapping[str, Mapping[str, Any]]] = {
    "reset on its way": {"point": "accept", "action": {"do": "rst"}},
    "reset when taken": {"point": "after_apply", "action": {"do": "rst"}},
    "closed when taken": {"point": "after_apply", "action": {"do": "fin"}},
    "reset after the head": {"point": "headers_sent", "action": {"do": "rst"}},
    "closed in the body": {"point": "mid_body", "action": {"do": "fin"}},
    "nothing of the body": {"action": {"do": "truncate", "length": 0}},
    "60 bytes of the body": {"action": {"do": "truncate", "length": 60}},
    "garbage": {"action": {"do": "garbage", "kind": "html"}},
    "too late": {"action": {"do": "hang", "seconds": 11}},
    "500 when taken": {"point": "after_apply", "action": {"do": "status", "status": 500}},
    "503 when taken": {"point": "after_apply", "action": {"do": "status", "status": 503}},
    "502 before": {"point": "before_auth", "action": {"do": "status", "status": 502}},
    "doubled on its way": {"action": {"do": "dup_request", "answer": "second"}},
    "no row": {"action": {"do": "swap_row", "rows": 0}},
    "two rows": {"action": {"do": "swap_row", "rows": 2}},
    "a row of another price": {"action": {"do": "swap_row", "field": "price"}},
    "a row of another side": {"action": {"do": "swap_row", "field": "side"}},
}


@dataclass
class Counted:
    """What has come of it so far. Times are seconds of the market."""

    places: int = 0
    fates: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    """Of each send that was unknown, its state at the day's end."""
    fenced_s: list[float] = field(default_factory=list)
    """Until a row was found, or the nonce showed that no copy can arrive any more."""
    found_s: list[float] = field(default_factory=list)
    absent_s: list[float] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """The table of the run."""
        unknown = self.ends.total()
        return [
            f"{self.places:,} places, {unknown:,} unknown: {dict(self.ends)}",
            *(f"  {fate:28} {count:6,}" for fate, count in sorted(self.fates.items())),
            f"settled or fenced after waiting for {_shares(self.fenced_s)}",
            f"found at the broker after {_shares(self.found_s)}",
            f"counted as not placed after {_shares(self.absent_s)}",
            f"{len(self.problems)} lost, doubled, orphaned, miscounted or unexplained",
            *(f"  {each}" for each in (*self.problems, *self.late())),
        ]

    def late(self) -> list[str]:
        """Say which share of the unknown sends was settled or fenced later than it should be."""
        found = [(share, within(self.fenced_s, share), most) for share, most in WITHIN_S.items()]
        return [
            f"LATE p{share} is {seconds:.1f} s, at most {most:g} s are wanted"
            for share, seconds, most in found
            if seconds > most
        ]

    def add(self, other: "Counted") -> None:
        """Add what another has counted."""
        self.places += other.places
        self.fates += other.fates
        self.ends += other.ends
        for mine, theirs in (
            (self.fenced_s, other.fenced_s),
            (self.found_s, other.found_s),
            (self.absent_s, other.absent_s),
        ):
            mine.extend(theirs)
        self.problems += other.problems


class Keeping(Weather):
    """A proxy that keeps some places and delivers them later; nothing else befalls anything."""

    def _kind(self, exchange: Exchange) -> str:
        is_place = exchange.verb == "POST" and exchange.path.endswith("/orders")
        return "delayed" if is_place and self.dice.random() < KEPT else "fine"

    async def _fine(self, exchange: Exchange) -> list[Message]:
        return await exchange.put_to(self.app)


def rules() -> list[Mapping[str, Any]]:
    """Return the faults; of several that meet a place the first one strikes."""
    met, found = 1.0, list[Mapping[str, Any]]()
    for fate in FATES.values():
        odds = SHARE / len(FATES) / met
        met -= SHARE / len(FATES)
        found.append(_rule(odds, **fate))
    return [*found, _rule(HIDDEN, action={"do": "hide_row", "seconds": 40})]


def _rule(odds: float, **fate: Any) -> Mapping[str, Any]:
    match = {"verb": "POST", "path": "/trading/*/orders", "prob": round(odds, 4), "times": 0}
    return {"match": match, **fate}


def afternoon(seed: int) -> Counted:
    """Live through an afternoon to its close, and judge it."""
    shelf = MEMORY if Path(MEMORY).is_dir() else None
    with TemporaryDirectory(dir=shelf, prefix="afternoon") as name:
        hurry = {"start": "13:45:00", "every": "10s", "price": "last"}
        config = write_day(Path(name), seed, rules(), **hurry, max_unknown=10)
        proxy = BehindWeather(Keeping, Random(f"proxy {seed}"))
        code_after = timedelta(seconds=20)
        told = tell_by_hand(config, minutes=95, place_in=proxy, answer_otp_after=code_after)
        story = run_on_machine(told).story
        outcome = outcome_of(story.loaded.state_dir, story.loaded.journal_url)
        counted = _counted(outcome, story)
        counted.fates["kept by a proxy"] = len(proxy.made[0].marks)
        lacking = {key: what for key, what in chains_in(outcome.journal).items() if what}
        found = [*faults_in(outcome), *(f"{key}: {'; '.join(it)}" for key, it in lacking.items())]
        counted.problems = [f"seed {seed}: {each}" for each in found]
        return counted


def _counted(outcome: StoryResult, story: Story) -> Counted:
    counted = Counted(places=len(story.posts()))
    struck = {line["rule"]: line["struck"] for line in story.ledger() if line["kind"] == "fault"}
    for rule, fate in enumerate(FATES):
        counted.fates[fate] = int(str(struck.get(rule, 0)))
    moved = "select * from transitions where machine = 'send' order by seq"
    since = dict[str, datetime]()
    ends, fenced = dict[str, str](), set[str]()
    for row in outcome.rows(moved):
        intent, state, at = row["intent_id"], row["to_state"], datetime.fromisoformat(row["at"])
        if state == "UNKNOWN":
            since.setdefault(intent, at)
        elif intent in since:
            took_s = (at - since[intent]).total_seconds()
            if intent not in fenced and is_settled(row):
                fenced.add(intent)
                counted.fenced_s.append(took_s)
            ends[intent] = state
            {"MATCHED": counted.found_s, "NOT_PLACED": counted.absent_s}.get(state, []).append(
                took_s
            )
    counted.fenced_s += [math.inf] * (len(since) - len(fenced))
    counted.ends.update(ends.get(intent, "UNKNOWN") for intent in since)
    return counted


def _shares(seconds: Sequence[float]) -> str:
    if not seconds:
        return "never"
    at = {share: within(seconds, share) for share in (50, 99, 100)}
    return f"p50 {at[50]:.1f} s, p99 {at[99]:.1f} s, at most {at[100]:.1f} s of the market"


def main() -> int:
    """Live through afternoons until there were sends enough; 0 when all is well.

    An afternoon that has none ends it.
    """
    given = [int(each) for each in sys.argv[1:]]
    wanted, seed = (*given, *(SENDS, 1)[len(given) :])
    counted = Counted()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for each in _afternoons(seed, lambda: counted.ends.total() < wanted):
            counted.add(each)
            if not each.ends:
                break
            if sys.stderr.isatty():
                late = f"{counted.ends.total():,} of {wanted:,}, {len(counted.problems)} problems"
                sys.stderr.write(f"\r\x1b[K{late}; settled or fenced {_shares(counted.fenced_s)}")
    except KeyboardInterrupt:
        sys.stdout.write("interrupted; so far:\n")
    counted.problems += undone(unknown_sends=counted.ends.total(), fences=len(counted.fenced_s))
    sys.stdout.write("\n".join(counted.lines()) + "\n")
    return 1 if counted.problems or counted.late() or counted.ends.total() < wanted else 0


def _afternoons(seed: int, is_needed: Callable[[], bool]) -> Iterator[Counted]:
    """Live through afternoons on some processes, until no more of them are needed."""
    seeds = count(seed)
    with ProcessPoolExecutor(WORKERS) as pool:
        first = islice(seeds, WORKERS if is_needed() else 0)
        running = {pool.submit(afternoon, each) for each in first}
        try:
            while running and is_needed():
                done = next(as_completed(running))
                running.remove(done)
                running.add(pool.submit(afternoon, next(seeds)))
                yield done.result()
        finally:
            for each in running:
                each.cancel()


if __name__ == "__main__":
    sys.exit(main())
