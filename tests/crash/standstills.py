"""A bot stands still: its machine sleeps, SIGSTOP under load, a second one that starts meanwhile.

    python -m tests.crash.standstills [seconds] [--db sqlite|postgres]      30 s

First the machine sleeps, ten times as long, and then the bot is stopped under load, and goes on: no
order may rest on what it saw before. Then it is stopped again, and a second bot starts on the same
journal, on PostgreSQL from a state directory of its own as on another machine. While the first
holds the lease the second is refused. On PostgreSQL the first's connections are then ended, as the
server does with a peer that is gone; the second trades, the first is woken up, and must send
nothing.

No machine is really put to sleep: while the bot is stopped, a library that was loaded before the C
library (`asleep.c`) sets CLOCK_BOOTTIME and CLOCK_REALTIME ahead, for bot and broker, and leaves
CLOCK_MONOTONIC as it is, which is what a process sees of a suspend. A time namespace cannot do it:
its offsets are fixed when its first process enters. Without a compiler this is left out, and said.
"""

import argparse
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any, Final

import sqlalchemy as sa

from bot.config.problems import ExitCode
from tests.crash.harness import BAD_WEATHER, READY_S_MAX, SPEED, Crashing, crashing, databases
from tests.proofs import undone

LIBRARY: Final = "LD_PRELOAD"
ASLEEP: Final = "ASLEEP"
"""Names the file that holds for how many nanoseconds the machine has slept, for `asleep.c`."""
TIMES_AS_LONG: Final = 10
NOT_HERE: Final = "no C compiler: the sleep of the machine is left out\n"
LOAD_S: Final = 3.0
AFTER_S: Final = 3.0
REFUSED: Final = (ExitCode.NOT_RUNNING, ExitCode.TIMED_OUT)
"""By the lease; in the same folder by the first bot, which does not answer who it is."""
NONE: Final = (
    "orders while it stood still",
    "orders of the refused one",
    "requests of the first once woken up",
)
SOME: Final = ("orders before", "orders after")
SOME_AWAKE: Final = "orders after waking up"
"""Of a sleep that was noticed: without any, none can have been decided before it."""
_END_OTHERS: Final = """
    select count(pg_terminate_backend(pid)) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid()
"""


def trade(story: Crashing, seconds: float, dice: Random) -> None:
    """Let it trade for a while, with a person interfering."""
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        story.meddle(dice)
        time.sleep(dice.uniform(0, 0.2))


def posts(story: Crashing) -> int:
    """Return how many orders the broker was ever sent, by its own ledger."""
    return len(story.broker_orders())


def sleep_through(
    story: Crashing, seconds: float, dice: Random
) -> tuple[dict[str, Any], list[str]]:
    """Suspend the machine under load and wake it up; return the result, and what is wrong."""
    assert story.bot is not None
    trade(story, LOAD_S, dice)
    story.bot.send_signal(signal.SIGSTOP)
    time.sleep(0.3)  # what was on its way to the broker has arrived
    before = posts(story)
    Path(os.environ[ASLEEP]).write_bytes(struct.pack("q", round(seconds * 1e9)))
    story.bot.send_signal(signal.SIGCONT)
    started = time.monotonic()
    while not (found := [text for text in _notes(story) if "stood still for" in text]):
        if time.monotonic() - started > READY_S_MAX:
            return {}, [f"a sleep of {seconds:g} s was not noticed"]
        time.sleep(0.05)
    story.until(lambda it: it["state"] == "RUNNING", READY_S_MAX)
    again_s = time.monotonic() - started
    trade(story, AFTER_S, dice)
    old = sum(age_s > seconds * SPEED / 2 for age_s in _ages_when_sent(story))
    result = {
        "the machine slept (s)": round(seconds),
        "and the bot says": found[0].split(":")[0],
        "traded again after (s)": round(again_s, 2),
        SOME_AWAKE: posts(story) - before,
        "of them decided before the sleep": old,
    }
    said_s = float(found[0].split("still for ")[1].split(" s")[0])
    wrong = [f"{old} orders were sent that were decided before the sleep"] if old else []
    wrong += [f"it slept for {seconds:g} s: {found[0]}"] if abs(said_s - seconds) > 5 else []
    return result, wrong


def _notes(story: Crashing) -> Sequence[str]:
    return [str(row["text"]) for row in story.rows("select text from notes")]


def _ages_when_sent(story: Crashing) -> Sequence[float]:
    """Return the market seconds between each order's decision and its attempt."""
    query = (
        "select i.created_at decided, a.at sent from intents i join attempts a "
        "on a.intent_id = i.intent_id where a.verb = 'POST'"
    )
    return [
        (_instant(row["sent"]) - _instant(row["decided"])).total_seconds()
        for row in story.rows(query)
    ]


def _instant(value: object) -> datetime:
    return value if isinstance(value, datetime) else datetime.fromisoformat(str(value))


def stand_still(story: Crashing, seconds: float, dice: Random) -> dict[str, Any]:
    """Stop the bot under load and resume it; return the result."""
    assert story.bot is not None
    trade(story, LOAD_S, dice)
    story.bot.send_signal(signal.SIGSTOP)
    time.sleep(0.3)  # what was on its way to the broker has arrived
    before = posts(story)
    time.sleep(seconds)
    asleep = posts(story) - before
    story.bot.send_signal(signal.SIGCONT)
    started = time.monotonic()
    story.until(lambda it: it["state"] == "RUNNING", READY_S_MAX)
    again_s = time.monotonic() - started
    trade(story, AFTER_S, dice)
    return {
        "orders before": before,
        "orders while it stood still": asleep,
        "trades again after (s)": round(again_s, 2),
        "orders after": posts(story) - before,
    }


def stand_aside(story: Crashing, url: str | None, dice: Random) -> dict[str, Any]:
    """Start a second bot while the first stands still; return the result."""
    first = story.bot
    assert first is not None
    first.send_signal(signal.SIGSTOP)
    time.sleep(0.3)
    before = posts(story)
    if url is not None:
        story.home = "another"
    second = story.start("-q")
    _, told = second.communicate()
    found = {
        "second bot refused": second.returncode in REFUSED,
        "with the words": told.strip().splitlines()[0],
        "orders of the refused one": posts(story) - before,
    }
    if url is None:
        story.bot = first
        first.send_signal(signal.SIGCONT)
        return found
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.connect() as connection:
        connection.execute(sa.text(_END_OTHERS))
    story.start_up("-q")
    epoch = story.rows("select max(epoch) epoch from lease")[0]["epoch"]
    query = f"select attempt_id from attempts where epoch < {epoch}"
    sent = len(story.rows(query))
    first.send_signal(signal.SIGCONT)
    trade(story, AFTER_S, dice)
    out, err = first.communicate()
    return {
        **found,
        "orders of the second after that": posts(story) - before,
        "requests of the first once woken up": len(story.rows(query)) - sent,
        "the first ended with code": first.returncode,
        "and said": (out + err).strip().splitlines()[-1],
    }


def main() -> int:
    """Run all of it; the exit code tells whether all was well."""
    if LIBRARY not in os.environ and shutil.which("cc"):
        return _with_library()
    parser = argparse.ArgumentParser(prog="python -m tests.crash.standstills")
    parser.add_argument("seconds", type=float, nargs="?", default=30.0)
    parser.add_argument("--db", choices=("sqlite", "postgres"), default="sqlite")
    asked, dice = parser.parse_args(), Random("standstills")
    with databases(asked.db) as new, new() as url, crashing(url, faults=BAD_WEATHER) as story:
        story.start_up("-q")
        story.asked.touch()
        slept, wrong = dict[str, Any](), list[str]()
        if LIBRARY in os.environ:
            slept, wrong = sleep_through(story, TIMES_AS_LONG * asked.seconds, dice)
        else:
            sys.stdout.write(NOT_HERE)
        found = slept | stand_still(story, asked.seconds, dice) | stand_aside(story, url, dice)
        story.come_to_rest()
        wrong += [f"{name}: {found[name]}" for name in NONE if found.get(name)]
        wrong += [] if found["second bot refused"] else ["the second bot was not refused"]
        shown = (*SOME, *({SOME_AWAKE} & {*slept}))
        wrong += undone(**{name.replace(" ", "_"): found[name] for name in shown})
        problems = [*wrong, *story.judge()]
    lines = [f"{name:<44}{value!s:>10}" for name, value in found.items()]
    sys.stdout.write("\n".join((*lines, *problems, f"{len(problems)} problems", "")))
    return 1 if problems else 0


def compiled(folder: Path) -> Path:
    """Compile the library that tells processes of a sleep, into `folder`."""
    library, source = folder / "asleep.so", Path(__file__).with_name("asleep.c")
    flags = ["-shared", "-fPIC", "-O1", "-w"]
    subprocess.run(["cc", *flags, "-o", str(library), str(source), "-ldl"], check=True)
    return library


def _with_library() -> int:
    with tempfile.TemporaryDirectory() as made:
        library = str(compiled(Path(made)))
        asleep = Path(made) / "asleep"
        asleep.write_bytes(bytes(8))
        command = [sys.executable, "-W", "ignore", "-m", "tests.crash.standstills", *sys.argv[1:]]
        environment = {**os.environ, LIBRARY: library, ASLEEP: str(asleep)}
        return subprocess.run(command, check=False, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
