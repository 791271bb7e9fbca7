"""The connection to PostgreSQL breaks in the middle of a COMMIT: the bot has to find out what is
stored.

    python -m tests.crash.commits [runs] [seed]      200 runs, seed 1

Between bot and server stands a proxy. In each run the next COMMIT breaks, before it reaches the
server or after it was carried out, while an order is placed, amended or cancelled. The bot has to
find out by itself what is stored; at the end journal and ledger are compared. The third journal
lost within half an hour of the market halts entries, and a person resumes them.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import Any, Final

from tests.crash.harness import LOOK_S, QUIET_S_MAX, Crashing, crashing, databases
from tests.crash.points import FLOWS, carry_out, prepare, show
from tests.journal.breaking_proxy import Break, breaking_proxy
from tests.proofs import undone

BREAK_S_MAX: Final = 5.0
FLOW_S: Final = 1.0


def break_often(url: str, runs: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Break commits; return how often each case occurred, and everything that breaks a promise."""
    dice, counts = Random(f"commits {seed}"), Counter[str]()
    with breaking_proxy(url) as (proxy, through), crashing(through, plugin="Once") as story:
        story.start_up("-q")
        for run in range(runs):
            flow = dice.choice([flow for flow, verb in FLOWS.items() if verb])
            how = dice.choice([Break.BEFORE, Break.AFTER])
            counts["resumed by a person"] += _resumed(story)
            prepare(story, flow)
            time.sleep(dice.uniform(0, 0.05))
            proxy.armed = how
            carry_out(story, flow, within_s=FLOW_S)
            give_up = time.monotonic() + BREAK_S_MAX
            while proxy.armed is not Break.NEVER and time.monotonic() < give_up:
                time.sleep(LOOK_S)
            counts[f"{flow}, {how.value}"] += proxy.armed is Break.NEVER
            show(f"{run + 1} commits")
        story.come_to_rest()
        for row in story.rows("select verb, outcome from attempts"):
            counts[f"{row['verb']} {row['outcome'] or 'unheard'}"] += 1
        return counts, list(story.judge())


def _resumed(story: Crashing) -> bool:
    """Allow entries again if journals that were lost have halted them."""

    seen = ""

    def is_back(found: Mapping[str, Any]) -> bool:
        nonlocal seen
        seen = str(found["state"])
        return seen in {"HALTED", "RUNNING"}

    story.until(is_back, QUIET_S_MAX)
    if seen == "HALTED":
        assert "journal could not be written" in story.status()["reason"], story.status()
        story.ask("resume", reason="the database is back")
    return seen == "HALTED"


def main() -> int:
    """Break as often as the command line says; the exit code says whether all was well."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash.commits")
    parser.add_argument("runs", type=int, nargs="?", default=200)
    parser.add_argument("seed", type=int, nargs="?", default=1)
    asked = parser.parse_args()
    started = time.monotonic()
    with databases("postgres") as new, new() as url:
        assert url is not None
        counts, problems = break_often(url, asked.runs, asked.seed)
    broken = sum(count for what, count in counts.items() if "," in what)
    problems += undone(broken_commits=broken)
    show("")
    lines = [f"{name:<60}{count:>6,}" for name, count in sorted(counts.items())]
    took = f"{len(problems)} problems, {time.monotonic() - started:.0f} s"
    sys.stdout.write("\n".join((*lines, *problems, took, "")))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
