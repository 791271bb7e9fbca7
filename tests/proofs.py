"""What long proofs share: one that has done nothing has found nothing wrong, and shown nothing;
when a send whose answer was lost is settled or fenced; and how slow a machine is by itself.
"""

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from statistics import median
from typing import Any, Final

NONCE_USED: Final = "the nonce had been used"
"""How the journal's note on a send that is REACHED begins if that is proved, and no copy of it can
arrive any more. Others are REACHED because their nonce was given up.
"""
_ENDS: Final = frozenset({"FRESH", "MATCHED", "AMBIGUOUS", "NOT_PLACED", "EOD_ABSENT"})


def undone(**counts: int) -> list[str]:
    """Name each thing that a proof should have done, or met, at least once and has not."""
    return [
        f"NOTHING SHOWN: no {name.replace('_', ' ')}" for name, count in counts.items() if not count
    ]


def is_settled(move: Mapping[str, Any]) -> bool:
    """Whether a transition shows that rows of a send are known, or none can come, or that its nonce
    keeps copies away.
    """
    state = move["to_state"]
    return state in _ENDS or (state == "REACHED" and move["note"].startswith(NONCE_USED))


def within(seconds: Sequence[float], share: int) -> float:
    """In how many seconds so many of 100 were over; 0 where there were none."""
    return sorted(seconds)[math.ceil(len(seconds) * share / 100) - 1] if seconds else 0.0


# ------------------------------------------------------------------------------- slow machines

PIECES: Final = 200
LOOKS: Final = 3
PIECES_S: Final = 0.0045
"""What `pieces_s` gives on the cores by which the limits of time are set."""


def pieces_s(clock: Callable[[], float] = time.perf_counter) -> float:
    """In how many seconds, of a clock, a machine does now what has nothing to do with the bot: the
    least of some, as the first one wakes a core up.
    """
    return min(_pieces_s(clock) for _ in range(LOOKS))


def _pieces_s(clock: Callable[[], float]) -> float:
    begun = clock()
    for number in range(PIECES):
        levels = [[price, 100 * price] for price in range(20)]
        row = {"intent_id": f"L-{number:04}", "price": 27_000 + number, "levels": levels}
        text = json.dumps(row, sort_keys=True)
        sha256(text.encode()).hexdigest()
        again = {name: (value, len(str(value))) for name, value in json.loads(text).items()}
        sorted(again["levels"][0], key=lambda level: -level[1])
    return clock() - begun


def slowness(pieces: Sequence[float]) -> float:
    """How many times as long as on those cores all takes here, by what was measured in the course
    of a proof; 1 where a machine is quicker, and where nothing was measured.
    """
    return max(1.0, median(pieces) / PIECES_S) if pieces else 1.0
