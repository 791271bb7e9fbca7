"""Thousands of places whose answer says nothing, of every kind, each settled as the ledger says.

    python -m tests.simulation.ambiguous [SENDS] [SEED]      10,000 sends, the first seed 1

Afternoons of a bot that is busy in nine symbols and that nobody kills; the fate of three places
in four is drawn from `FATES`, and a fifth of the rows that would tell is hidden for a while. The
broker answers all reads. At the close of each day its journal is judged by the broker's ledger,
and every order's story is looked through, as `order_chains` does.
"""

import asyncio
import math
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from bot.drill.oracle import Outcome, faults_in, outcome_of
from tests.simulation.order_chains import chains_in, write_day
from tests.story import Story, tell

SENDS: Final = 10_000
SHARE: Final = 0.75
"""Of the places that a fate befalls."""
HIDDEN: Final = 0.2

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
    found_s: list[float] = field(default_factory=list)
    fenced_s: list[float] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """The table of the run."""
        unknown = self.ends.total()
        return [
            f"{self.places:,} places, {unknown:,} unknown: {dict(self.ends)}",
            *(f"  {fate:28} {count:6,}" for fate, count in sorted(self.fates.items())),
            f"found at the broker after {_shares(self.found_s)}",
            f"known not to be there after {_shares(self.fenced_s)}",
            f"{len(self.problems)} lost, doubled, orphaned, miscounted or unexplained",
            *(f"  {each}" for each in self.problems),
        ]


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


def afternoon(folder: Path, seed: int, counted: Counted) -> None:
    """Live through an afternoon to its close, and judge it."""
    hurry = {"start": "13:45:00", "every": "10s", "price": "last"}
    config = write_day(folder, seed, rules(), **hurry, max_unknown=10)
    story = asyncio.run(tell(config, minutes=95, answer_otp_after=timedelta(seconds=20)))
    state_dir = story.loaded.state_dir
    outcome = outcome_of(state_dir, story.loaded.journal_url)
    _count(outcome, story, counted)
    lacking = {key: what for key, what in chains_in(outcome.journal).items() if what}
    found = [*faults_in(outcome), *(f"{key}: {'; '.join(what)}" for key, what in lacking.items())]
    counted.problems += [f"seed {seed}: {each}" for each in found]


def _count(outcome: Outcome, story: Story, counted: Counted) -> None:
    struck = {line["rule"]: line["struck"] for line in story.ledger() if line["kind"] == "fault"}
    for rule, fate in enumerate(FATES):
        counted.fates[fate] += int(str(struck.get(rule, 0)))
    counted.places += len(story.posts())
    moved = "select intent_id, to_state, at from transitions where machine = 'send' order by seq"
    since = dict[str, datetime]()
    ends = dict[str, str]()
    for row in outcome.rows(moved):
        intent, at = row["intent_id"], datetime.fromisoformat(row["at"])
        if row["to_state"] == "UNKNOWN":
            since.setdefault(intent, at)
        elif intent in since:
            ends[intent] = row["to_state"]
            took = (at - since[intent]).total_seconds()
            {"MATCHED": counted.found_s, "NOT_PLACED": counted.fenced_s}.get(
                row["to_state"], []
            ).append(took)
    counted.ends.update(ends.get(intent, "UNKNOWN") for intent in since)


def _shares(seconds: Sequence[float]) -> str:
    if not seconds:
        return "never"
    ranked = sorted(seconds)
    at = {share: ranked[math.ceil(len(ranked) * share / 100) - 1] for share in (50, 99, 100)}
    return f"p50 {at[50]:.1f} s, p99 {at[99]:.1f} s, at most {at[100]:.1f} s of the market"


def main() -> int:
    """Live through afternoons until there were sends enough; print what was counted."""
    given = [int(each) for each in sys.argv[1:]]
    wanted, seed = (*given, *(SENDS, 1)[len(given) :])
    counted = Counted()
    while counted.ends.total() < wanted:
        with TemporaryDirectory() as name:
            afternoon(Path(name), seed, counted)
        seed += 1
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[K{counted.ends.total():,} of {wanted:,}")
    sys.stdout.write("\n".join(counted.lines()) + "\n")
    return 1 if counted.problems else 0


if __name__ == "__main__":
    sys.exit(main())
