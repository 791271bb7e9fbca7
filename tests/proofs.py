"""What long proofs share: one that has done nothing has found nothing wrong, and shown nothing; and
when a send whose answer was lost is settled or fenced.
"""

import math
from collections.abc import Mapping, Sequence
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
