"""ENOSPC and EIO at every write and sync of the journal: no order without its committed attempt.

    python -m tests.crash.disks FLOW [--step N]      FLOW: place, amend, cancel, poll or all; SQLite

From the Nth call on, once or for good, the journal's disk refuses the writes of the journal's
thread, while the flow begins. Then the bot is killed, the disk is repaired, and the bot is started
again. An answer that the journal could not store has to be known without asking: the emergency
journal had it, on a working disk.
"""

import argparse
import itertools
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from bot.journal.writing.emergency import FILE
from tests.crash.harness import Crashing, crashing
from tests.crash.points import FLOWS, carry_out, prepare, show, told
from tests.crash.strikes import NOT_HERE, WRITES, Strike, may_strike, struck, threads_of
from tests.proofs import undone

ERRORS: Final = ("ENOSPC", "EIO")
MANNERS: Final = ("", "+")
"""Once, at the Nth call, or at each from there on."""
FAULT_S: Final = 1.0
"""How long a flow is watched under the fault."""
MISSES_MAX: Final = 2
LATE: Final = "2026-11-19T04:00"
"""From 11:00 of the market on a new morning is begun: at lunch nothing can be placed."""


@dataclass
class Refused:
    """The result of one flow. `ends`: how the bots ended."""

    flow: str
    strikes: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    """requests in the journal, by outcome"""
    problems: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """The table of the flow."""
        rows = {**self.strikes, **self.ends, **self.answers, "problems": len(self.problems)}
        table = [f"    {name:<44}{count:>6,}" for name, count in rows.items()]
        return [f"{self.flow}:", *table, *self.problems]


def refuse_all(flow: str, *, step: int = 1, first: int = 1) -> Refused:
    """Refuse every `step`th write of the journal in each manner, and judge."""
    found = Refused(flow)
    for error, manner in itertools.product(ERRORS, MANNERS):
        at, misses, name = first, 0, f"{error} {'for good' if manner else 'once'}"
        while misses < MISSES_MAX:
            with crashing(plugin="Once") as story:
                story.start_up("-q")
                while misses < MISSES_MAX and story.status().get("at", "") < LATE:
                    show(f"{flow} {error}{manner} at {at}")
                    if refuse(story, flow, f"error={error}", f"{at}{manner}", found):
                        found.strikes[name] += 1
                        at, misses = at + step, 0
                    else:
                        misses += 1
                story.come_to_rest()
                found.problems += story.judge()
                for row in story.rows("select verb, outcome from attempts"):
                    found.answers[f"{row['verb']} {row['outcome'] or 'unheard'}"] += 1
        found.problems += undone(**{f"strike_of_{name}": found.strikes[name]})
    return found


def refuse(story: Crashing, flow: str, error: str, when: str, found: Refused) -> bool:
    """Let the disk refuse while the flow runs, then kill. Return whether it got that far."""
    prepare(story, flow)
    assert story.bot is not None
    journal, log = story.state_dir / "journal.db", story.folder / "strace"
    files = [journal, journal.with_name("journal.db-wal"), journal.with_name("journal.db-shm")]
    thread = threads_of(story.bot.pid)[1]
    with struck(thread, Strike(WRITES, error, when, files), log):
        carry_out(story, flow, within_s=FAULT_S)
        ended, state = story.bot.poll() is not None, story.status().get("state", "no answer")
        story.bot.kill()  # before the disk works again
    _, err = story.bot.communicate()
    if "Traceback" in err:
        found.problems.append(err)
    kept = story.state_dir / FILE
    has_answer = kept.exists() and "AttemptFinished" in kept.read_text()
    story.start_up("-q")
    if "INJECTED" not in log.read_text():
        return False
    found.ends["bot ended" if ended else f"bot went on, {state}"] += 1
    found.ends["answer in the emergency journal"] += has_answer
    return True


def main() -> int:
    """Refuse as the command line says; the exit code tells whether all was well."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash.disks")
    parser.add_argument("flow", choices=(*FLOWS, "all"))
    parser.add_argument("--step", type=int, default=1)
    asked = parser.parse_args()
    if not may_strike():
        sys.stdout.write(f"{NOT_HERE}\n")
        return 2
    flows = FLOWS if asked.flow == "all" else [asked.flow]
    return 1 if told(refuse_all(flow, step=asked.step) for flow in flows) else 0


if __name__ == "__main__":
    sys.exit(main())
