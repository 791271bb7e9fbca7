"""How often each fault of the failure catalogue struck in the simulation, and whether often enough.

A kind of fault plays the ids that `PLAYS` gives it, beside the kinds. Those that no story can play
(TLS, memory, the bytes of a file) are counted by the tests of `tests/faults` alone.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from tests.faults.strikes import rows_of_catalogue
from tests.simulation.plan import PLAYS

STRIKES_MIN: Final = 50
"""What the catalogue asks of a night."""
NIGHT: Final = 1_000
"""Seeds from which on a run is a night, and is judged. In fewer the kinds that strike once and then
keep places from leaving, such as a lost token, come a few dozen times by mere chance.
"""


def by_id(struck: Mapping[str, int]) -> Mapping[str, int]:
    """Add the strikes of the kinds up to those of the ids that they play, in the catalogue's order.

    An id that is played and never struck has 0.
    """
    sums = Counter[str]()
    for kind, ids in PLAYS.items():
        for each in ids.split():
            sums[each] += struck.get(kind, 0)
    return {each: sums[each] for each in rows_of_catalogue() if each in sums}


def too_rare(struck: Mapping[str, int], seeds: int) -> list[str]:
    """Name the ids that struck too seldom in so many seeds; none in a run that is not a night."""
    if seeds < NIGHT:
        return []
    counts = by_id(struck)
    return [f"{each} ({count})" for each, count in counts.items() if count < STRIKES_MIN]
