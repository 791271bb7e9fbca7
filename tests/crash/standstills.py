"""A bot stands still: SIGSTOP under load, and a second one that starts meanwhile.

    python -m tests.crash.standstills [seconds] [--db sqlite|postgres]      30 s

First it is stopped under load, and goes on: no order may rest on what it saw before. Then it is
stopped again, and a second bot starts on the same journal, on PostgreSQL from a state directory of
its own as on another machine. While the first holds the lease the second is refused. On PostgreSQL
the first's connections are then ended, as the server does with a peer that is gone; the second
trades, the first is woken up, and must send nothing.
"""

import argparse
import signal
import sys
import time
from random import Random
from typing import Any, Final

import sqlalchemy as sa

from tests.crash.harness import BAD_WEATHER, READY_S_MAX, Crashing, crashing, databases

LOAD_S: Final = 3.0
AFTER_S: Final = 3.0
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
        "second bot refused": second.returncode == 10,
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
    """Run both; the exit code tells whether all was well."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash.standstills")
    parser.add_argument("seconds", type=float, nargs="?", default=30.0)
    parser.add_argument("--db", choices=("sqlite", "postgres"), default="sqlite")
    asked, dice = parser.parse_args(), Random("standstills")
    with databases(asked.db) as new, new() as url, crashing(url, faults=BAD_WEATHER) as story:
        story.start_up("-q")
        story.asked.touch()
        found = stand_still(story, asked.seconds, dice) | stand_aside(story, url, dice)
        story.come_to_rest()
        problems = story.judge()
    lines = [f"{name:<44}{value!s:>10}" for name, value in found.items()]
    sys.stdout.write("\n".join((*lines, *problems, f"{len(problems)} problems", "")))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
