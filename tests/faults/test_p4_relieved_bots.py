"""P4: of two bots at one journal only the one that holds its lease reaches the broker."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from random import Random
from shutil import rmtree

import pytest

from bot.broker.link import AsgiApp
from bot.domain.message import PlaceAnswered, SendStarted
from bot.domain.outcome import NotSent
from bot.journal.errors import Holder, LeaseHeld
from bot.journal.writing.lease import LEASE_LIFE_S, acquire
from tests.faults.standbys import posts
from tests.faults.strikes import STRIKES, times
from tests.staging import START, intent, set_stage
from tests.story import lay_journal

SECOND = Holder(2, "second", START)
TURNS_MAX = 12
"""Of the loop: a send has about so many from its commit to its answer."""


class Arrivals:
    """Counts the orders that have reached the broker, taken or not."""

    def __init__(self) -> None:
        self.count = 0

    def before(self, app: AsgiApp) -> AsgiApp:
        async def counting(scope: Mapping[str, object], *rest: object) -> None:
            self.count += scope["method"] == "POST" and str(scope["path"]).endswith("/orders")
            await app(scope, *rest)

        return counting


async def _relieved(folder: Path, seed: int) -> Counter[str]:
    """Stop a bot at some point of its sends, give its journal to another, and let it go on; count
    what became of its orders.
    """
    dice, arrivals = Random(seed), Arrivals()
    url = f"sqlite:///{folder / 'journal.db'}"
    lay_journal(folder / "journal.db")
    first = await set_stage(folder, url, around=arrivals.before)
    with pytest.raises(LeaseHeld):
        acquire(url, SECOND)
    patient = {"ttl_at": START + timedelta(minutes=10)}
    wanted = [
        await first.ready(intent(number, limit_price=26_000 + 50 * number, **patient))
        for number in range(1, dice.randint(2, 4))
    ]
    sends = [asyncio.create_task(first.orders.place(each)) for each in wanted]
    turns, must_be_stored = dice.randint(0, TURNS_MAX), dice.random() < 0.7
    while turns >= 0:
        is_stored = any(isinstance(event, SendStarted) for event in first.events)
        turns -= is_stored or not must_be_stored
        await asyncio.sleep(0)

    first.lease.release()
    second = acquire(url, SECOND)
    first.clock.advance_to(first.clock.now() + timedelta(seconds=LEASE_LIFE_S + 1))
    before = arrivals.count
    await asyncio.gather(*sends)
    sent = arrivals.count

    answers = [event.outcome for event in first.events if isinstance(event, PlaceAnswered)]
    stored = posts(url)
    await first.strike()
    second.release()
    assert sent == before, f"seed {seed}: {sent - before} POSTs of the loser"
    assert len(answers) == len(wanted), f"seed {seed}"
    assert sum(not isinstance(each, NotSent) for each in answers) == before, f"seed {seed}"
    assert {count for _, count, _ in stored} <= {1}, f"seed {seed}"
    assert {epoch for _, _, epoch in stored} <= {1}, f"seed {seed}"
    sent_by_then = Counter({"sent before": before, "stored and not sent": len(stored) - before})
    return sent_by_then + Counter({"neither": len(wanted) - len(stored)})


async def test_a_bot_that_was_relieved_at_any_point_of_its_sends_posts_nothing_more(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    ways = Counter[str]()
    takeovers = times("P4", 20)
    for seed in range(takeovers):
        folder = tmp_path / str(seed)
        folder.mkdir()
        ways += await _relieved(folder, seed)
        rmtree(folder)

    assert ways.keys() == {"sent before", "stored and not sent", "neither"}, ways
    record_property(STRIKES, takeovers)
