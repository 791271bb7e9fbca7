"""Asks the real daemon to stop at random moments under load, and judges what it leaves.

    python -m tests.crash.stops [stops] [seed] [--db sqlite|postgres] [--hangs]       200 stops

The bot of `tests.crash.kills` is asked to stop instead of being killed. Each stop ends with exit
code 0 within 15 s, and no request is left without the answer that it could still get; then the next
bot starts. With --hangs the journal takes no write from a while before the stop until after it: the
stop ends within 12 s then, and says what could not be written. At the end the journal is compared
with the broker's ledger.
"""

import signal
import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from random import Random
from typing import Final

from tests.crash.harness import BAD_WEATHER, Crashing, crashing, databases
from tests.faults.hanging import locked
from tests.journal.breaking_proxy import BreakingProxy, breaking_proxy
from tests.proofs import undone

STOPS_OF_A_STORY: Final = 50
LIFE_S: Final = 1.2
BY_COMMAND: Final = 0.3
"""How often it is asked over its control socket instead of by a signal."""
STOP_S_MAX: Final = 15.0
HANG_S: Final = 8.0
"""How long the journal hangs at most until the stop: longer than it takes to be noticed."""
HANGING_STOP_S_MAX: Final = 12.0
NOT_WRITTEN: Final = 7
"""The exit code of a stop that could not write everything."""
_UNHEARD: Final = "select intent_id, verb from attempts where outcome is null"


def stop_many(
    stops: int,
    seed: int,
    new: Callable[[], AbstractContextManager[str | None]],
    *,
    hangs: bool = False,
) -> tuple[list[float], list[str]]:
    """Play as many stories as so many stops take; return as `stop_often` does."""
    seconds, problems = list[float](), list[str]()
    while len(seconds) < stops:
        few = min(STOPS_OF_A_STORY, stops - len(seconds))
        more, wrong = stop_often(few, seed, new(), hangs=hangs)
        seconds, problems, seed = seconds + more, problems + wrong, seed + 1
        sys.stderr.write("\n".join((*wrong, f"{len(seconds)} stops, {len(problems)} problems", "")))
    return seconds, problems


def stop_often(
    stops: int,
    seed: int,
    new_journal: AbstractContextManager[str | None],
    *,
    hangs: bool = False,
) -> tuple[list[float], list[str]]:
    """Play one story of this many stops; return how long each took, and what was wrong."""
    dice, seconds, problems = Random(f"stops {seed}"), list[float](), list[str]()
    with (
        new_journal as direct,
        breaking_proxy(direct) if direct and hangs else nullcontext((None, direct)) as (proxy, url),
        crashing(url, seed=seed, faults=BAD_WEATHER) as story,
    ):
        story.asked.touch()
        for number in range(stops):
            if story.is_late:
                break
            story.start_up("-q")
            story.trade_for(dice.uniform(0, LIFE_S), dice)
            if hangs:
                with _hanging(story, proxy):
                    story.trade_for(dice.uniform(0, HANG_S), dice)
                    took_s, wrong = _stop_unwritten(story, dice)
            else:
                took_s, wrong = _stop(story, dice)
            seconds.append(took_s)
            problems += [f"seed {seed}, stop {number}: {each}" for each in wrong]
        story.come_to_rest()
        problems += [f"seed {seed}: {each}" for each in story.judge()]
        if stops >= STOPS_OF_A_STORY:
            problems += undone(orders=len(story.broker_orders()))
    return seconds, problems


@contextmanager
def _hanging(story: Crashing, proxy: BreakingProxy | None) -> Iterator[None]:
    """Have the journal take no write meanwhile."""
    if proxy is None:
        with locked(story.state_dir / "journal.db"):
            yield
        return
    proxy.flows.clear()
    try:
        yield
    finally:
        proxy.flows.set()


def _stop(story: Crashing, dice: Random) -> tuple[float, list[str]]:
    took_s, code, said = _ended(story, dice)
    unheard = [f"{row['verb']} of {row['intent_id']}" for row in story.rows(_UNHEARD)]
    wrong = [
        (code != 0, f"exit code {code}"),
        ("Traceback" in said, f"a traceback: {said[-300:]}"),
        (took_s > STOP_S_MAX, f"it took {took_s:.1f} s"),
        (bool(unheard), f"no answer was written down to {', '.join(unheard)}"),
    ]
    return took_s, [text for is_so, text in wrong if is_so]


def _stop_unwritten(story: Crashing, dice: Random) -> tuple[float, list[str]]:
    took_s, code, said = _ended(story, dice)
    wrong = [
        (code not in {0, NOT_WRITTEN}, f"exit code {code}"),
        (code == NOT_WRITTEN and "Not written" not in said, f"it names nothing: {said[-300:]}"),
        ("Traceback" in said, f"a traceback: {said[-300:]}"),
        (took_s > HANGING_STOP_S_MAX, f"it took {took_s:.1f} s"),
    ]
    return took_s, [text for is_so, text in wrong if is_so]


def _ended(story: Crashing, dice: Random) -> tuple[float, int | None, str]:
    """Ask for the end, by signal or as `bot stop`; return how long it took, the exit code and what
    was said.
    """
    assert story.bot is not None
    begun = time.monotonic()
    if dice.random() < BY_COMMAND:
        assert story.ask("stop", reason="enough").get("ok")
    else:
        story.bot.send_signal(signal.SIGTERM)
    out, err = story.bot.communicate()
    return time.monotonic() - begun, story.bot.returncode, out + err


def main() -> int:
    """Stop as often as the command line says; the exit code says whether all was well."""
    parser = ArgumentParser(prog="python -m tests.crash.stops")
    parser.add_argument("stops", type=int, nargs="?", default=200)
    parser.add_argument("seed", type=int, nargs="?", default=1)
    parser.add_argument("--db", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--hangs", action="store_true")
    asked = parser.parse_args()
    with databases(asked.db) as new:
        seconds, problems = stop_many(asked.stops, asked.seed, new, hangs=asked.hangs)
    how = ", each with a journal that hangs" if asked.hangs else ""
    told = f"{len(seconds)} stops on {asked.db}{how}, from seed {asked.seed}"
    ordered = sorted(seconds) or [0.0]
    problems += undone(stops=len(seconds))
    share = f"p50 {ordered[len(ordered) // 2]:.2f} s, longest {ordered[-1]:.2f} s"
    sys.stdout.write("\n".join((f"{told}: {share}, {len(problems)} problems", *problems, "")))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
