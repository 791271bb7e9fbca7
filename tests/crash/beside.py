"""The threads that write beside the journal, into the emergency journal and the heads: kill -9
before every call of theirs, and ENOSPC and EIO at each while the journal is away.

    python -m tests.crash.beside FLOW [kill|ENOSPC|EIO|all]     FLOW: or all; on SQLite

Another program holds the journal's lock while an answer, a cancel or its answer is kept in the
emergency journal; while the journal comes back, the bot starts, or stops. Each of these threads
lives for one piece of work and has no name, so strace follows all threads and takes the calls that
touch these files. With an error both journals are away: no order and no cancel may leave then, and
the bot has to say so; after ENOSPC it goes on, after EIO it is killed before the disk is repaired.
"""

import argparse
import re
import signal
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bot.journal.writing import emergency, heads
from bot.runtime.state_dir import LEDGER
from bot.sandbox.house.ledger import read_ledger
from tests.crash.harness import LOOK_S, READY_S_MAX, Crashing, crashing
from tests.crash.points import RESTING, prepare, show, told
from tests.crash.strikes import CALLS, NOT_HERE, Strike, may_strike, struck, struck_at
from tests.faults.hanging import locked
from tests.proofs import undone

KEEPING: Final = ("answer", "cancel", "cancelled")
"""The flows in which something is kept: a place's answer, a cancel's attempt, a cancel's answer."""
FLOWS: Final = (*KEEPING, "back", "start", "stop")
KILL: Final = "signal=KILL"
WAYS: Final = {"kill": KILL, "ENOSPC": "error=ENOSPC", "EIO": "error=EIO"}
NEVER: Final = "65535"
KEPT_S_MAX: Final = 20.0
LINGER_S: Final = 0.5
"""For how long a flow is watched after its end, and whether an order leaves that may not."""
PATIENCE: Final = {"BOT_JOURNAL__WRITE_TIMEOUT_S": "1"}
SLOW: Final[Mapping[str, Any]] = {"point": "after_apply", "action": {"do": "delay", "seconds": 3}}
"""Answers late enough that the journal is taken away before they come."""
FAULTS: Final = (
    {"match": {"verb": "POST", "path": "*/orders", "times": 0}, **SLOW},
    {"match": {"verb": "DELETE", "times": 0}, **SLOW},
)
_CALL: Final = re.compile(r"(\d+) +(\w+)\(")


@dataclass
class Beside:
    """The result of one flow."""

    flow: str
    points: Counter[str] = field(default_factory=Counter)
    """the calls before which the bot was killed, or that failed"""
    missed: int = 0
    problems: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """The table of the flow."""
        total = f"{self.points.total()} points, {self.missed} not met again"
        return [
            f"{self.flow}: {total}, {len(self.problems)} problems",
            *(f"    {count:>5} {call}" for call, count in sorted(self.points.items())),
            *self.problems,
        ]


def go_through(flow: str, way: str) -> Beside:
    """Strike before each call of the flow, as often as the longest thread makes it, and judge."""
    found = Beside(f"{flow}, {way}")
    left = deque([("openat", KILL, NEVER)])
    while left:
        with crashing(plugin="Once", faults=FAULTS) as story:
            story.settings |= PATIENCE
            story.start_up("-q")
            while left and not story.is_late:
                call, what, when = left.popleft()
                show(f"{found.flow}: {call} {when}")
                strike_at(story, flow, (CALLS if when == NEVER else [call]), what, when, found)
                if when == NEVER:
                    left += [(each, WAYS[way], str(at)) for each, at in _calls(_log(story))]
            story.come_to_rest()
            found.problems += story.judge()
    found.problems += undone(points=found.points.total())
    return found


def strike_at(story: Crashing, flow: str, calls: Any, what: str, when: str, found: Beside) -> None:
    """Carry the flow out once under a strike; afterwards the bot runs again."""
    files = [story.state_dir / name for name in (emergency.FILE, emergency.SPARE, heads.FILE)]
    if list(calls) != ["openat"]:  # others look into the folder all the time
        files.append(story.state_dir)
    strike = Strike(calls, what, when, files, ("-f",))
    with ExitStack() as stack:
        _carry_out(story, flow, strike, stack)
        assert story.bot is not None
        log = _log(story).read_text()
        is_met = ("SIGKILL" in log) if what == KILL else "INJECTED" in log
        if is_met and what != KILL and flow in KEEPING:
            found.problems += _says_so(story, flow, f"{calls[0]} {when}")
        if what == WAYS["EIO"]:
            story.bot.kill()
    if is_met:
        found.points[struck_at(_log(story)) if what == KILL else calls[0]] += 1
    elif when != NEVER:
        found.missed += 1
    is_killed = what == WAYS["EIO"] or (is_met and what == KILL)
    if not is_killed and not _is_dead(story):
        story.until(lambda it: _is_running(story, it), READY_S_MAX)
        return
    _, err = story.bot.communicate()
    if "Traceback" in err or story.bot.returncode not in {0, -signal.SIGKILL}:
        found.problems.append(f"{calls[0]} {when}: ended with {story.bot.returncode}, {err}")
    story.start_up("-q")


def _carry_out(story: Crashing, flow: str, strike: Strike, stack: ExitStack) -> None:
    """Let the flow run to its end, or the bot's; the journal is away until the stack ends."""
    assert story.bot is not None
    journal, log = story.state_dir / "journal.db", _log(story)
    prepare(story, "place" if flow in {"answer", "stop"} else "cancel")
    before = _orders(story)
    if flow in {"answer", "cancel", "stop"}:
        stack.enter_context(struck(story.bot.pid, strike, log))
    if flow == "stop":
        story.bot.send_signal(signal.SIGTERM)
        _until(lambda: story.bot is None or story.bot.poll() is not None)
        return
    if flow == "answer":
        _until(lambda: _is_dead(story) or _is_placed(story, before))
        story.asked.unlink(missing_ok=True)
    away = stack.enter_context(ExitStack())
    away.enter_context(locked(journal))
    if flow != "answer":
        story.ask("cancel", all=True)
    if flow == "cancelled":
        _until(lambda: "AttemptStarted" in _kept(story))
        stack.enter_context(struck(story.bot.pid, strike, log))
    _until(lambda: _is_over(story, "AttemptStarted" if flow == "cancel" else "AttemptFinished"))
    if flow == "back":
        stack.enter_context(struck(story.bot.pid, strike, log))
        away.close()
        _until(lambda: _is_dead(story) or story.status().get("trouble", "?") is None)
    if flow == "start":
        story.kill()
        away.close()
        story.start("-q")
        stack.enter_context(struck(story.bot.pid, strike, log))
        _until(lambda: _is_dead(story) or story.status().get("state") == "RUNNING")
    time.sleep(LINGER_S)


def _says_so(story: Crashing, flow: str, where: str) -> Iterator[str]:
    """Yield what the bot, whose both journals are away, should not do, or does not say."""
    before, give_up = _orders(story), time.monotonic() + KEPT_S_MAX
    while True:  # the failed call comes after the words are in the file, and is told after it
        found = story.status()
        text = (found.get("trouble") or {}).get("text", "")
        is_closed = found.get("state") in {"DEGRADED", "HALTED"}  # HALTED from the third time on
        if is_closed and "the emergency journal can't be written" in text:
            break
        if time.monotonic() > give_up:
            yield f"{where}: it says {found.get('state')}, {text!r}"
            break
        time.sleep(LOOK_S)
    story.ask_for(RESTING)
    story.ask("cancel", all=True)
    time.sleep(LINGER_S)
    story.asked.unlink(missing_ok=True)
    after = _orders(story)
    if after.keys() - before.keys() or (flow != "cancelled" and after != before):
        yield f"{where}: an order or a cancel left: {before}, {after}"


def _is_placed(story: Crashing, before: Mapping[str, str]) -> bool:
    """Whether the broker has a new order. It is asked for until then: a check may keep it back."""
    if not story.asked.exists():
        story.ask_for(RESTING)
    return len(_orders(story)) > len(before)


def _is_running(story: Crashing, found: Mapping[str, Any]) -> bool:
    """Whether it runs; a bot that lost its journal three times waits for a person."""
    if found["state"] == "HALTED":
        story.ask("resume", reason="the disk is repaired", by="operator")
    return bool(found["state"] == "RUNNING")


def _is_over(story: Crashing, kept: str) -> bool:
    said = (story.status().get("trouble") or {}).get("text", "")
    return _is_dead(story) or kept in _kept(story) or "the emergency journal can't" in said


def _is_dead(story: Crashing) -> bool:
    return story.bot is None or story.bot.poll() is not None


def _until(is_so: Callable[[], bool]) -> None:
    give_up = time.monotonic() + KEPT_S_MAX
    while not is_so():
        assert time.monotonic() < give_up, "the flow does not end"
        time.sleep(LOOK_S)


def _kept(story: Crashing) -> str:
    file = story.state_dir / emergency.FILE
    return file.read_text().strip("\0") if file.exists() else ""


def _orders(story: Crashing) -> Mapping[str, str]:
    lines = read_ledger(story.state_dir / LEDGER)
    return {str(it["order"]): str(it["status"]) for it in lines if it["kind"] == "order"}


def _log(story: Crashing) -> Path:
    return story.folder / "strace"


def _calls(log: Path) -> Iterator[tuple[str, int]]:
    """Yield each call up to as many as one thread made."""
    lines = [line for line in log.read_text().splitlines() if "O_DIRECTORY" not in line]
    made = Counter(found.groups() for line in lines if (found := _CALL.match(line)))
    most = Counter[str]()
    for (_, call), count in made.items():
        most[call] = max(most[call], count)
    yield from ((call, at) for call in sorted(most) for at in range(1, most[call] + 1))


def main() -> int:
    """Strike as the command line says; the exit code tells whether all was well."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash.beside")
    parser.add_argument("flow", choices=(*FLOWS, "all"))
    parser.add_argument("way", choices=(*WAYS, "all"), nargs="?", default="all")
    asked = parser.parse_args()
    if not may_strike():
        sys.stdout.write(f"{NOT_HERE}\n")
        return 2
    ways = WAYS if asked.way == "all" else [asked.way]
    flows = FLOWS if asked.flow == "all" else [asked.flow]
    wanted = ((flow, way) for way in ways for flow in flows if way == "kill" or flow in KEEPING)
    return 1 if told(go_through(flow, way) for flow, way in wanted) else 0


if __name__ == "__main__":
    sys.exit(main())
