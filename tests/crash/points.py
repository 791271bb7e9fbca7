"""kill -9 at every I/O call of one place, amend, cancel or poll, thread by thread.

    python -m tests.crash.points FLOW [--db sqlite|postgres] [--step N]     FLOW: or all

For N = 1, 2, 3 … the bot comes to rest, strace is attached to one of its threads, the flow begins,
and the bot dies before the thread's Nth call of one kind (strace counts each system call by
itself); it is started again and has to come to rest. That goes on until the flow is over before the
Nth call comes, and then with the next kind of call, and the next thread. At the end the bot's
journal is compared with the broker's ledger.
"""

import argparse
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from tests.crash.harness import (
    LOOK_S,
    QUIET_S_MAX,
    Crashing,
    NotReady,
    counted,
    crashing,
    databases,
)
from tests.crash.strikes import CALLS, NOT_HERE, Strike, may_strike, struck, struck_at, threads_of
from tests.proofs import undone

FLOWS: Final[Mapping[str, str | None]] = {
    "place": "POST",
    "amend": "PUT",
    "cancel": "DELETE",
    "poll": None,
}
"""The request whose answer ends a flow; polls have none."""
FLOW_S_MAX: Final = 30.0
POLL_S: Final = 3.0
"""How long polls are watched, and never less: they write when something has changed."""
BLOCKED_S: Final = 3.0
"""How long a change may take before its state is looked at, which are calls too."""
SETTLE_S: Final = 0.1
"""How long a flow may still write after its answer."""
THREADS: Final = 2
"""The main thread and the journal's. `tests.crash.beside` has those that write beside it."""
AGAIN_S: Final = 15.0
UNSTRUCK_S: Final = 0.1
"""How long after strace has ended a bot may still die of the last call."""
MISSES_MAX: Final = 2
"""How often a flow must end before the Nth call until that is believed: polls interfere."""
RESTING, NEAR = "970", "1000"
"""Prices in parts of 1,000 of the last: rests at the broker, or is filled sooner or later."""


@dataclass
class Reached:
    """The result of one flow. `points`: the calls before which the bot was killed."""

    flow: str
    points: Counter[str] = field(default_factory=Counter)
    threads: Counter[int] = field(default_factory=Counter)
    """points of each thread: the main one, the journal's"""
    problems: list[str] = field(default_factory=list)
    ready_s: list[float] = field(default_factory=list)

    def undone(self) -> list[str]:
        """Name the thread before whose calls the bot was never killed: it may be none of those of
        a flow, as the journal's is known by its work alone.
        """
        return undone(
            points_of_the_main_thread=self.threads[0], points_of_the_journal_thread=self.threads[1]
        )

    def lines(self) -> list[str]:
        """The table of the flow."""
        wrong, ready, kills = counted(self.problems), sorted(self.ready_s), self.threads.total()
        shares = {share: ready[(len(ready) - 1) * share // 100] for share in (50, 99)}
        return [
            f"{self.flow}: {kills} points, {self.threads[0]} of the main thread and "
            f"{self.threads[1]} of the journal's; "
            + ", ".join(f"{wrong[kind]} {kind}" for kind in ("lost", "doubled", "orphans"))
            + f", {wrong['wrong fills']} wrong fills, {wrong['other']} other problems; "
            + f"ready after p50 {shares[50]:.2f} s, p99 {shares[99]:.2f} s",
            *(f"    {count:>5} before {call}" for call, count in self.points.most_common()),
            *self.problems,
        ]


def go_through(
    flow: str,
    new: Callable[[], AbstractContextManager[str | None]],
    *,
    step: int = 1,
    calls: Sequence[str] = CALLS,
) -> Reached:
    """Kill at every `step`th call of each kind and thread, and judge. A story lasts for a market
    morning, so there may be several, each with its own journal.
    """
    reached, place = Reached(flow), Place(calls)
    while not place.is_over:
        with new() as url, crashing(url, plugin="Once") as story:
            story.start_up("-q")
            while not (story.is_late or place.is_over):
                _kill_at(story, place, step, reached)
            story.come_to_rest()
            reached.ready_s += story.ready_s
            reached.problems += story.judge()
    reached.problems += reached.undone()
    return reached


@dataclass
class Place:
    """The progress: the thread, the kind of call, and the one before which the bot dies next."""

    calls: Sequence[str]
    thread: int = 0
    kind: int = 0
    at: int = 1
    misses: int = 0

    @property
    def is_over(self) -> bool:
        return self.thread >= THREADS

    def missed(self) -> None:
        """The flow ended earlier: after some of these, the thread makes no more calls
        of the kind.
        """
        self.misses += 1
        if self.misses >= MISSES_MAX:
            self.kind, self.at, self.misses = self.kind + 1, 1, 0
        if self.kind >= len(self.calls):
            self.thread, self.kind = self.thread + 1, 0


def _kill_at(story: Crashing, place: Place, step: int, reached: Reached) -> None:
    """Carry the flow out once, to be killed in it, and start the bot again."""
    prepare(story, reached.flow)
    assert story.bot is not None
    thread, log = threads_of(story.bot.pid)[place.thread], story.folder / "strace"
    strike = Strike([place.calls[place.kind]], "signal=KILL", str(place.at))
    with struck(thread, strike, log):
        carry_out(story, reached.flow)
    time.sleep(UNSTRUCK_S)  # strace may end before it has reported the kill
    if "SIGKILL" not in log.read_text() and story.bot.poll() is None:
        place.missed()
        return
    _, err = story.bot.communicate()
    assert "Traceback" not in err, err
    assert story.bot.returncode == -signal.SIGKILL, f"it had ended: {story.bot.returncode}, {err}"
    reached.threads[place.thread] += 1
    reached.points[struck_at(log)] += 1
    place.at, place.misses = place.at + step, 0
    show(f"{reached.flow}: thread {place.thread}, {strike.calls[0]} {place.at}")
    story.start_up("-q")


def prepare(story: Crashing, flow: str) -> None:
    """Let the bot come to rest, with an order at the broker where the flow is about one."""
    story.until_settled()
    if flow == "place":  # a strategy with an open order asks for no second one
        story.until_nothing_is_open()
        return
    if flow == "poll" and story.status()["open_orders"]:
        return
    give_up = time.monotonic() + QUIET_S_MAX
    while _untouched(story) is None:  # one that a check keeps back is asked for again
        story.ask_for(NEAR if flow == "poll" else RESTING)
        with suppress(NotReady):
            story.until(lambda _: _untouched(story) is not None, AGAIN_S)
        assert time.monotonic() < give_up, story.status()


def carry_out(story: Crashing, flow: str, *, within_s: float | None = None) -> None:
    """Start the flow, and return when it is over, the bot is dead, or its time is over."""
    assert story.bot is not None
    verb = FLOWS[flow]
    if verb is None:
        polled_at = time.monotonic() + POLL_S
        while story.bot.poll() is None and time.monotonic() < polled_at:
            time.sleep(LOOK_S)
        return
    before, row = _answers(story, verb), None if flow == "place" else _untouched(story)
    reply = _begin(story, flow, row)
    look_at = time.monotonic() + BLOCKED_S
    give_up = time.monotonic() + (within_s or FLOW_S_MAX)
    while story.bot.poll() is None and _answers(story, verb) == before:
        if not within_s and time.monotonic() > look_at:
            look_at = time.monotonic() + BLOCKED_S
            if _is_blocked(story, flow, reply):
                reply = _begin(story, flow, row)
        if time.monotonic() > give_up:
            last = story.rows("select * from attempts order by seq")[-3:]
            assert within_s, (row, reply, story.status(), last)
            return
        time.sleep(LOOK_S)
    time.sleep(SETTLE_S)


def _begin(story: Crashing, flow: str, row: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Ask for what begins the flow; return what the bot said to that."""
    if flow == "place":
        kept_back = _kept_back(story)
        story.ask_for(RESTING)
        return {"kept_back": kept_back}
    if row is not None and flow == "amend":
        return story.ask("modify", order_id=row["order_id"], quantity=row["quantity"] + 100)
    if row is not None:
        return story.ask("cancel", order_id=row["order_id"])
    return {}


def _is_blocked(story: Crashing, flow: str, reply: Mapping[str, Any]) -> bool:
    """Whether it was given up unsent: on a starved machine 15 s of its market pass before the
    order's row has been read, or 10 s before a quote is judged.
    """
    if flow == "place":
        return _kept_back(story) > int(reply["kept_back"])
    changes = story.status().get("amends", ()) if flow == "amend" else ()
    asked_at = reply.get("asked_at")
    return any(one["asked_at"] == asked_at and one["verdict"] == "BLOCKED" for one in changes)


def _kept_back(story: Crashing) -> int:
    query = "select intent_id from intents where state in ('DENIED', 'EXPIRED_LOCAL')"
    blocks = "select seq from decisions where verdict = 'BLOCKED'"
    return len(story.rows(query)) + len(story.rows(blocks))


def _answers(story: Crashing, verb: str) -> int:
    query = f"select attempt_id from attempts where verb = '{verb}' and outcome is not null"
    return len(story.rows(query))


def _untouched(story: Crashing) -> Mapping[str, Any] | None:
    """The newest open order that is neither changed nor cancelled now."""
    found = story.status()
    touched = {one["order_id"] for one in found.get("cancels", ())}
    touched |= {one["order_id"] for one in found.get("amends", ()) if not one["verdict"]}
    rows = [one for one in found.get("open_orders", ()) if one["order_id"] not in touched]
    return rows[-1] if rows else None


def show(text: str) -> None:
    """Show the progress on a terminal."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


class Table(Protocol):
    """What came of a flow."""

    problems: list[str]

    def lines(self) -> list[str]:
        """The table of the flow."""


def told(found: Iterable[Table], where: str = "") -> int:
    """Print each table as it comes, and how long all took; return how many problems there are."""
    started, problems = time.monotonic(), 0
    for each in found:
        problems += len(each.problems)
        show("")
        sys.stdout.write("\n".join((*each.lines(), "")))
        sys.stdout.flush()
    sys.stdout.write(f"{where}{time.monotonic() - started:.0f} s\n")
    return problems


def main() -> int:
    """Go through the flows of the command line; the exit code tells whether all was well."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash.points")
    parser.add_argument("flow", choices=(*FLOWS, "all"))
    parser.add_argument("--db", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--step", type=int, default=1)
    asked = parser.parse_args()
    if not may_strike():
        sys.stdout.write(f"{NOT_HERE}\n")
        return 2
    flows = list(FLOWS) if asked.flow == "all" else [asked.flow]
    with databases(asked.db) as new:
        found = (go_through(flow, new, step=asked.step) for flow in flows)
        return 1 if told(found, f"journal on {asked.db}, ") else 0


if __name__ == "__main__":
    sys.exit(main())
