"""PostgreSQL fails over under the running bot, to a server that lacks the last commits.

    python -m tests.crash.failovers

The bot has bought since the copy was made. It has to end as soon as it reaches the copy, and to say
why; the next start has to be held, and sends nothing on what the copy believes.
"""

import signal
import sys
import time
from typing import Final

from bot.config.problems import ExitCode
from tests.crash.harness import LOOK_S, QUIET_S_MAX, Crashing, crashing, databases
from tests.postgres_database import replica

CODE: Final = "E-DB-013"
HELD: Final = "journal and broker do not agree: JOURNAL."
WHY: Final = "this is an older copy"
END_S_MAX: Final = 60.0
HELD_S: Final = 5.0
"""How long a held start is watched; that is 100 s of the market."""


def fail_over_behind(url: str) -> list[str]:
    """Fail over to a copy that lacks a purchase; return everything that breaks a promise."""
    server, name = url.replace("+psycopg", "").rsplit("/", 1)
    with crashing(url, plugin="Once") as story:
        story.start_up("-q")
        with replica(f"{server}/", name) as fail_over:
            story.until(lambda it: it["state"] == "RUNNING", QUIET_S_MAX)
            _buy(story)
            fail_over()
            return _end(story) or _held(story)


def _buy(story: Crashing) -> None:
    story.ask_for("1020")
    give_up = time.monotonic() + QUIET_S_MAX
    while not story.rows("select quantity from fills"):
        assert time.monotonic() < give_up, "nothing was bought"
        time.sleep(LOOK_S)


def _end(story: Crashing) -> list[str]:
    """Wait until the bot has ended by itself; return what is wrong with that."""
    bot = story.bot
    assert bot is not None
    give_up = time.monotonic() + END_S_MAX
    while bot.poll() is None:
        if time.monotonic() > give_up:
            bot.end()
            return ["it went on with a copy that lacks what it had stored"]
        time.sleep(LOOK_S)
    _, told = bot.communicate()
    is_well = bot.returncode == ExitCode.DATABASE and CODE in told and "Traceback" not in told
    return [] if is_well else [f"it ended with code {bot.returncode}, and said: {told}"]


def _held(story: Crashing) -> list[str]:
    """Start on the copy; return what it does that a held start must not."""
    before = len(story.broker_orders())
    bot = story.start("-q")
    story.until(lambda it: HELD in it["reason"], QUIET_S_MAX)
    story.ask_for("1020")
    time.sleep(HELD_S)
    found = story.status()
    bot.send_signal(signal.SIGTERM)
    bot.communicate()
    problems = [f"it is {found['state']}: {found['reason']}"] * (HELD not in found["reason"])
    problems += [f"it does not say why: {found['alerts']}"] * (WHY not in str(found["alerts"]))
    sent = len(story.broker_orders()) - before
    return problems + [f"{sent} orders were sent on what the copy believes"] * bool(sent)


def main() -> int:
    """Fail over once; the exit code tells whether all was well."""
    with databases("postgres") as new, new() as url:
        assert url is not None
        problems = fail_over_behind(url)
    sys.stdout.write("\n".join((*problems, f"{len(problems)} problems", "")))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
