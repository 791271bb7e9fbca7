"""kill -9 at random moments of a bot under load; nothing is lost, doubled, or counted wrong.

    python -m tests.crash.kills [kills] [seed] [--db sqlite|postgres]      50 kills, seed 1

A plug-in trades twelve symbols, a person amends and cancels, answers come late or never; the
process dies while it starts or trades, and is started again. After each 50 kills all is left to
settle and the bot's journal is compared with the broker's ledger. It also says how soon a bot is
ready again, and how soon a send whose answer was lost is settled, or fenced by its nonce.
"""

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from tests.crash.harness import BAD_WEATHER, Crashing, counted, crashing, databases
from tests.proofs import pieces_s, slowness, undone, within

KILLS_OF_A_STORY: Final = 50
MORE_MAX: Final = 20
"""This many further kills until an order reached the broker: on a slow machine a short life may
have none.
"""
READY_S_WANTED: Final = 2.0
READY_S_MAX: Final = 2 * READY_S_WANTED
"""How soon 99 of 100 starts trade: on a machine that does nothing else, and on one that does. One
that is slower by itself (`slowness`) has so many times as long, here and below.
"""
SETTLED_S_WANTED: Final = {50: 2.0, 99: 35.0}
"""Shares of the sends of unknown outcome, and how soon they are settled or fenced while a bot runs;
twice that fails.
"""
JUDGED_FROM: Final = 50
"""Kills from which on a run is judged by these."""
BUSY: Final = 2.0
"""A machine that has so many processes a core to run says how soon, and no more."""
EARLY: Final = 0.25
"""How often it dies before it is up."""
EARLY_S, LIFE_S = 0.6, 1.2
"""How long it lives at most: started and not waited for, and once it trades."""


@dataclass
class Tally:
    """The results of many stories. `points`: the last entry that a killed bot had journalled."""

    kills: int = 0
    points: Counter[str] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)
    """what the kills left of the files, where they took some along"""
    sent: Counter[str] = field(default_factory=Counter)
    """requests in the journals, by verb and outcome"""
    ends: Counter[str] = field(default_factory=Counter)
    """intents in the journals, by the state in which they were left"""
    orders: int = 0
    codes: int = 0
    problems: list[str] = field(default_factory=list)
    ready_s: list[float] = field(default_factory=list)
    settled_s: list[float] = field(default_factory=list)
    pieces: list[float] = field(default_factory=list)
    """how long the machine took for the same piece of work, again and again"""

    def lines(self) -> Sequence[str]:
        """The table at the end."""
        wrong = counted(self.problems)
        ready = {f"p{share}": self.ready_within_s(share) for share in (50, 99)}
        settled = {f"p{share}": within(self.settled_s, share) for share in SETTLED_S_WANTED}
        rows = {
            "kills": self.kills,
            "orders at the broker": self.orders,
            "2FA codes asked for": self.codes,
            **{f"killed after {name}": count for name, count in self.points.most_common()},
            **{f"left: {name}": count for name, count in self.left.most_common()},
            **{f"requests {name}": count for name, count in sorted(self.sent.items())},
            **{f"intents {name}": count for name, count in sorted(self.ends.items())},
            **{kind: wrong[kind] for kind in ("lost", "doubled", "orphans", "wrong fills")},
            "other problems": wrong["other"],
            "starts that came up": len(self.ready_s),
            **{f"ready after, {name} (s)": round(value, 2) for name, value in ready.items()},
            "unknown sends": len(self.settled_s),
            **{f"settled or fenced, {name} (s)": round(s, 2) for name, s in settled.items()},
            "slowness of the machine": round(slowness(self.pieces), 2),
        }
        return [f"{name:<36}{value:>10,}" for name, value in rows.items()]

    def ready_within_s(self, share: int) -> float:
        """In how many seconds so many of 100 starts were ready; 0 where there were none."""
        ready = sorted(self.ready_s)
        return ready[(len(ready) - 1) * share // 100] if ready else 0.0

    def slow(self) -> list[str]:
        """Say if a start in 100, or an unknown send, takes longer than is wanted."""
        return [
            f"SLOW: {what} {took_s:.2f} s; {wanted_s:g} s are wanted, over {most_s:.3g} s it "
            f"fails{', but for a machine as busy as this' if is_busy() else ''}"
            for what, took_s, wanted_s, most_s in self._figures()
            if took_s > wanted_s
        ]

    def is_too_slow(self) -> bool:
        """Whether something takes so long that the run fails for it."""
        is_over = any(took_s > most_s for _, took_s, _, most_s in self._figures())
        return is_over and not is_busy()

    def _figures(self) -> Iterator[tuple[str, float, float, float]]:
        """Yield what is judged, how long it takes, how long it should at most, and how long it may
        here.
        """
        twice = 2 * slowness(self.pieces)
        yield "ready again p99", self.ready_within_s(99), READY_S_WANTED, twice * READY_S_WANTED
        for share, wanted_s in SETTLED_S_WANTED.items():
            took_s = within(self.settled_s, share)
            yield f"settled or fenced p{share}", took_s, wanted_s, twice * wanted_s


def is_busy() -> bool:
    """Whether so much else runs here that no time says anything of the bot."""
    return os.getloadavg()[0] > BUSY * (os.cpu_count() or 1)


def kill_once(story: Crashing, dice: Random) -> str:
    """Start the bot, kill it at a random moment; return the last entry it has journalled."""
    if dice.random() < EARLY:
        story.start("--json")
        time.sleep(dice.uniform(0, EARLY_S))
        return _last(story.kill(), "a start")
    story.start_up("--json")
    story.trade_for(dice.uniform(0, LIFE_S), dice)
    return _last(story.kill(), "a start")


Lose = Callable[[Path, Random], str]
"""Removes from a state directory what a kill loses, and returns how; called before the first start,
too.
"""


def kill_often(
    kills: int,
    seed: int,
    new_journal: AbstractContextManager[str | None],
    tally: Tally,
    lose: Lose | None = None,
) -> None:
    """Play one story of this many kills, or more for an order, and add its result."""
    dice = Random(f"kills {seed}")
    with new_journal as url, crashing(url, seed=seed, faults=BAD_WEATHER) as story:
        story.asked.touch()
        if lose is not None:
            lose(story.state_dir, dice)
        for number in range(kills + MORE_MAX):
            if story.is_late or (number >= kills and story.broker_orders()):
                break
            tally.points[kill_once(story, dice)] += 1
            tally.kills += 1
            tally.pieces.append(pieces_s())
            if lose is not None:
                tally.left[lose(story.state_dir, dice)] += 1
            _show(f"{tally.kills} kills")
        story.come_to_rest()
        tally.ready_s += story.ready_s
        tally.settled_s += story.settled_s()
        tally.codes += story.codes.total()
        tally.problems += [
            f"seed {seed}: {codes} 2FA codes were used on {day}: a token got lost"
            for day, codes in story.codes.items()
            if codes > 1
        ]
        tally.problems += [f"seed {seed}: {each}" for each in story.judge()]
        for row in story.rows("select verb, coalesce(outcome, 'unheard') outcome from attempts"):
            tally.sent[f"{row['verb']} {row['outcome']}"] += 1
        for row in story.rows("select state from intents"):
            tally.ends[row["state"]] += 1
        tally.orders += len(story.rows("select order_id from orders"))


def _last(said: str, nothing: str) -> str:
    lines = [line for line in said.splitlines() if line.endswith("}")]
    if not lines:
        return nothing
    entry = json.loads(lines[-1])
    return " ".join(filter(None, [entry["entry"], entry.get("verb"), entry.get("to_state")]))


def _show(text: str) -> None:
    if sys.stderr.isatty() or text.endswith("\n"):
        sys.stderr.write(f"\r\x1b[K{text}" if sys.stderr.isatty() else text)
        sys.stderr.flush()


def main(lose: Lose | None = None) -> int:
    """Kill as often as the command line says; the exit code says whether all was well."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash.kills")
    parser.add_argument("kills", type=int, nargs="?", default=50)
    parser.add_argument("seed", type=int, nargs="?", default=1)
    parser.add_argument("--db", choices=("sqlite", "postgres"), default="sqlite")
    asked = parser.parse_args()
    started, tally, seed = time.monotonic(), Tally(), asked.seed
    with databases(asked.db) as new:
        while tally.kills < asked.kills:
            kills = min(KILLS_OF_A_STORY, asked.kills - tally.kills)
            kill_often(kills, seed, new(), tally, lose)
            _show(f"seed {seed}: {tally.kills} kills, {len(tally.problems)} problems\n")
            seed += 1
    _show("")
    is_judged = tally.kills >= JUDGED_FROM and lose is None
    tally.problems += undone(kills=tally.kills, orders=tally.orders)
    if is_judged:
        tally.problems += undone(unknown_sends=len(tally.settled_s))
    title = f"random kills of the daemon, journal on {asked.db}, seeds {asked.seed} to {seed - 1}"
    took = f"{time.monotonic() - started:.0f} s"
    slow = tally.slow() if is_judged else []
    sys.stdout.write("\n".join((title, *tally.lines(), *slow, *tally.problems, took)) + "\n")
    return 1 if tally.problems or (is_judged and tally.is_too_slow()) else 0


if __name__ == "__main__":
    sys.exit(main())
