"""P3: a stop waits for an answer that may still come, for as long as an order may take.

`python -m tests.crash.stops` stops as often as the catalogue asks, on either database.
"""

import asyncio
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing, nullcontext
from pathlib import Path

import pytest

from tests.crash.stops import stop_many
from tests.faults.hanging import WITHIN_S, trading
from tests.faults.strikes import STRIKES, times

pytestmark = [pytest.mark.wire, pytest.mark.process, pytest.mark.timeout(240)]

FEW = 3
LATE = [
    {
        "match": {"verb": "POST", "path": "*/orders", "times": 0},
        "point": "after_apply",
        "action": {"do": "delay", "seconds": 9.2},
    }
]


@pytest.mark.long
async def test_answers_of_nine_seconds_are_journalled_before_the_end(tmp_path: Path) -> None:
    async with trading(tmp_path, faults=LATE, is_signed_in=False) as hanging:
        await hanging.give_token()
        give_up = time.monotonic() + WITHIN_S
        while len(hanging.orders()) < 2:
            assert time.monotonic() < give_up
            await asyncio.sleep(0.02)
        code, out, err, took_s = await hanging.end()

    with closing(sqlite3.connect(hanging.state_dir / "journal.db")) as journal:
        attempts = Counter(journal.execute("select verb, outcome from attempts"))
        states = journal.execute("select distinct state from intents").fetchall()
    assert (code, "Traceback" in out + err) == (0, False)
    assert took_s < 30
    assert attempts == {("POST", "ACCEPTED"): 2}
    assert states == [("ACKED",)]
    assert "BUY 100 HPG (L-0001)" in err


@pytest.mark.long
def test_a_stop_at_a_moment_of_chance_leaves_no_request_without_its_answer(
    record_property: Callable[[str, object], None],
) -> None:
    seconds, problems = stop_many(times("P3", FEW), 5, nullcontext)

    assert problems == []
    record_property(STRIKES, len(seconds))
