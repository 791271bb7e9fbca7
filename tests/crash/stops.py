"""Asks the real daemon to stop at random moments under load, and judges what it leaves.

    python -m tests.crash.stops [stops] [seed] [--db sqlite|postgres]       200 stops

The bot of `tests.crash.kills` is sent SIGTERM instead of being killed. Each stop ends with exit
code 0 within 15 s, and no request is left without the answer that it could still get; then the next
bot starts. At the end the journal is compared with the broker's ledger.
"""

import signal
import sys
import time
from argparse import ArgumentParser
from contextlib import AbstractContextManager
from random import Random
from typing import Final

from tests.crash.harness import BAD_WEATHER, Crashing, crashing, databases

STOPS_OF_A_STORY: Final = 50
LIFE_S: Final = 1.2
STOP_S_MAX: Final = 15.0
_UNHEARD: Final = "select intent_id, verb from attempts where outcome is null"


def stop_often(
    stops: int, seed: int, new_journal: AbstractContextManager[str | None]
) -> tuple[list[float], list[str]]:
    """Play one story of this many stops; return how long each took, and what was wrong."""
    dice, seconds, problems = Random(f"stops {seed}"), list[float](), list[str]()
    with new_journal as url, crashing(url, seed=seed, faults=BAD_WEATHER) as story:
        story.asked.touch()
        for number in range(stops):
            if story.is_late:
                break
            story.start_up("-q")
            story.trade_for(dice.uniform(0, LIFE_S), dice)
            took_s, wrong = _stop(story)
            seconds.append(took_s)
            problems += [f"seed {seed}, stop {number}: {each}" for each in wrong]
        story.come_to_rest()
        problems += [f"seed {seed}: {each}" for each in story.judge()]
    return seconds, problems


def _stop(story: Crashing) -> tuple[float, list[str]]:
    assert story.bot is not None
    begun = time.monotonic()
    story.bot.send_signal(signal.SIGTERM)
    out, err = story.bot.communicate()
    took_s, code = time.monotonic() - begun, story.bot.returncode
    unheard = [f"{row['verb']} of {row['intent_id']}" for row in story.rows(_UNHEARD)]
    wrong = [
        (code != 0, f"exit code {code}"),
        ("Traceback" in out + err, f"a traceback: {err[-300:]}"),
        (took_s > STOP_S_MAX, f"it took {took_s:.1f} s"),
        (bool(unheard), f"no answer was written down to {', '.join(unheard)}"),
    ]
    return took_s, [text for is_so, text in wrong if is_so]


def main() -> int:
    """Stop as often as the command line says; the exit code says whether all was well."""
    parser = ArgumentParser(prog="python -m tests.crash.stops")
    parser.add_argument("stops", type=int, nargs="?", default=200)
    parser.add_argument("seed", type=int, nargs="?", default=1)
    parser.add_argument("--db", choices=("sqlite", "postgres"), default="sqlite")
    asked = parser.parse_args()
    seconds, problems, seed = list[float](), list[str](), asked.seed
    with databases(asked.db) as new:
        while len(seconds) < asked.stops:
            left = min(STOPS_OF_A_STORY, asked.stops - len(seconds))
            more, wrong = stop_often(left, seed, new())
            seconds, problems, seed = seconds + more, problems + wrong, seed + 1
            sys.stderr.write(f"{len(seconds)} stops, {len(problems)} problems\n")
    told = f"{len(seconds)} stops on {asked.db}, seeds {asked.seed} to {seed - 1}"
    ordered = sorted(seconds)
    share = f"p50 {ordered[len(ordered) // 2]:.2f} s, longest {ordered[-1]:.2f} s"
    sys.stdout.write("\n".join((f"{told}: {share}, {len(problems)} problems", *problems, "")))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
