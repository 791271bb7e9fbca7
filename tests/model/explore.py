"""Explores every interleaving of one order's sending, and proves each policy safe or finds the
shortest way to two orders.

    python -m tests.model.explore            all of it: more than a million states

SAFETY: never two orders for one intent, be the second one a copy or what the strategy places after
the bot was certain, wrongly, that there is none.
"""

import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from bot.domain.order import UNRESOLVED_SENDS, SendState
from bot.engine.settings import UnknownPolicy
from tests.model.client import News
from tests.model.world import (
    CLIENT,
    NUMBER,
    ORDERS,
    SKEW,
    SKEWS,
    TICK_S,
    Assumptions,
    Policy,
    World,
)
from tests.proofs import pieces_s, slowness

STATES_MIN: Final = 1_000_000
SECONDS_MAX: Final = 60.0
"""Of a core; one that is slower by itself (`slowness`) has so many times as long."""

SAID_ABSENT: Final = str(News.SAID_ABSENT.value)

FENCE = Policy("fence")
FENCE_AND_HORIZON = Policy("fence and horizon", UnknownPolicy.FENCE_AND_HORIZON)
OF_THE_CODE = {UnknownPolicy.FENCE: FENCE, UnknownPolicy.FENCE_AND_HORIZON: FENCE_AND_HORIZON}

_LATE = {(SendState.UNKNOWN, News.ABSENT_LATE), (SendState.REACHED, News.ABSENT_LATE)}
AGAIN_AT_ONCE = Policy(
    "order again at once",
    rules=frozenset((SendState.SENDING, news) for news in (News.LOST, News.RESTART)),
    burns=False,
)
ABSENT_5_TIMES = Policy(
    "absent 5 times",
    rules=frozenset({(SendState.UNKNOWN, News.ABSENT)}),
    burns=False,
    reads_needed=5,
)
HORIZON = Policy("horizon", rules=frozenset(_LATE), burns=False)
NO_WINDOW = Policy("fence, whenever answered", has_window=False)
FENCE_OR_HORIZON = Policy("fence or horizon", rules=frozenset(_LATE))

SOUND = Assumptions()
LAG = replace(SOUND, bounded_lag=True)
SPLIT = replace(SOUND, sound_nonces=False)
SPLIT_LAG = replace(LAG, sound_nonces=False)
NO_TIMESTAMPS = replace(SOUND, timestamps=False)
NO_TIMESTAMPS_LAG = replace(LAG, timestamps=False)
SHORT_OF_SKEW = replace(HORIZON, name="horizon for a clock 5 s off", horizon=timedelta(seconds=100))
SHORT_OF_20_S = replace(
    HORIZON, name="horizon for a clock 15 s off", horizon=timedelta(seconds=105)
)
QUOTA = replace(SOUND, quota_spares_copies=False)
AGE = replace(SOUND, age_spares_copies=False)
HASTY = replace(SOUND, hasty_about=UNRESOLVED_SENDS)
OVERDUE = frozenset({SendState.FRESH})
HASTY_IF_OVERDUE = replace(SOUND, hasty_about=OVERDUE)

SAFE: Final = (
    (HORIZON, LAG),
    (FENCE, SOUND),
    (FENCE_AND_HORIZON, SOUND),
    (FENCE_AND_HORIZON, SPLIT_LAG),
    (FENCE_OR_HORIZON, LAG),
    (FENCE_AND_HORIZON, HASTY_IF_OVERDUE),
)
BAD: Final = (
    (AGAIN_AT_ONCE, LAG),
    (ABSENT_5_TIMES, LAG),
    (HORIZON, SOUND),
    (SHORT_OF_SKEW, LAG),
    (SHORT_OF_20_S, LAG),
    (NO_WINDOW, SOUND),
    (FENCE, SPLIT_LAG),
    (FENCE, NO_TIMESTAMPS),
    (FENCE_AND_HORIZON, SPLIT),
    (FENCE_AND_HORIZON, NO_TIMESTAMPS_LAG),
    (FENCE_OR_HORIZON, SOUND),
    (FENCE_AND_HORIZON, QUOTA),
    (FENCE_AND_HORIZON, AGE),
    (FENCE, HASTY),
    (FENCE_AND_HORIZON, replace(SPLIT_LAG, hasty_about=OVERDUE)),
)
"""The last four: a proxy's copy that the quota refuses, or that comes too late by a clock that is
far behind, says nothing about the other one; a person who says that there is no order, and is
wrong, is believed, also of one that never arrived by its nonce, where the nonces lie.
"""


@dataclass(frozen=True)
class Explored:
    """The result of one exploration. `trace` is empty exactly if there is no way to two orders."""

    states: int
    trace: Sequence[str]
    released_s: int | None
    """When the bot first releases an unknown order by itself, in seconds after its send."""
    moves: frozenset[tuple[SendState, SendState]]

    @property
    def is_safe(self) -> bool:
        return not self.trace


def explore(policy: Policy, holds: Assumptions) -> Explored:
    """Visit every state, nearest first, until two orders live or nothing new is left."""
    world = World(policy, holds)
    came_from: dict[int, int | None] = dict.fromkeys(world.start())
    waiting, released_s = deque(came_from), None
    not_placed = NUMBER[SendState.NOT_PLACED]
    while waiting:
        state = waiting.popleft()
        if state // ORDERS & 3 >= 2:
            trace = _trace(world, came_from, state)
            return Explored(len(came_from), trace, released_s, world.moves())
        is_over = released_s is not None or state // CLIENT == not_placed
        for words, after in world.steps(state):
            if not is_over and after // CLIENT == not_placed and SAID_ABSENT not in words:
                released_s, is_over = (after & 31) * TICK_S, True
            if after not in came_from:
                came_from[after] = state
                waiting.append(after)
    return Explored(len(came_from), (), released_s, world.moves())


def _trace(world: World, came_from: dict[int, int | None], state: int) -> list[str]:
    """Tell the shortest way to a state in words, each step with its second."""
    told: list[str] = []
    while (before := came_from[state]) is not None:
        words = next(words for words, after in world.steps(before) if after == state)
        if words:
            told.append(f"{(before & 31) * TICK_S:4} s  {words}")
        state = before
    off = SKEWS[state // SKEW & 3] * TICK_S
    return [f"our clock is {off:+} s off", *reversed(told)]


def in_words(policy: Policy, holds: Assumptions) -> str:
    """Name an exploration: `fence | nonces sound | timestamps on | lag unbounded`."""
    parts = (
        policy.name,
        "nonces sound" if holds.sound_nonces else "nonces split",
        "timestamps on" if holds.timestamps else "timestamps off",
        "lag <= 60 s" if holds.bounded_lag else "lag unbounded",
    )
    quota = () if holds.quota_spares_copies else ("quota refuses one copy",)
    age = () if holds.age_spares_copies else ("a late copy is answered as too old",)
    person = () if not holds.hasty_about else ("a hasty person",)
    if holds.hasty_about == OVERDUE:
        person = ("a person hasty about what is overdue",)
    return " | ".join((*parts, *quota, *age, *person))


def main() -> int:
    """Explore everything, print the results, and return 0 if all is as it should be."""
    begun, states, wrong, pieces = time.process_time(), 0, 0, list[float]()
    for policy, holds in (*SAFE, *BAD):
        found = explore(policy, holds)
        states += found.states
        pieces.append(pieces_s(time.process_time))
        is_as_expected = found.is_safe == ((policy, holds) in SAFE)
        wrong += not is_as_expected
        result = "safe" if found.is_safe else "DOUBLE ORDER"
        release = "" if found.released_s is None else f", earliest release {found.released_s} s"
        mark = "" if is_as_expected else "   NOT AS EXPECTED"
        print(f"{in_words(policy, holds)}: {found.states:,} states, {result}{release}{mark}")  # noqa: T201
        if not is_as_expected:
            print("\n".join(f"    {line}" for line in found.trace))  # noqa: T201
    seconds = time.process_time() - begun
    print(f"{states:,} states in {seconds:.1f} s")  # noqa: T201
    is_slow = seconds > SECONDS_MAX * slowness(pieces)
    return 1 if wrong or states < STATES_MIN or is_slow else 0


if __name__ == "__main__":
    sys.exit(main())
