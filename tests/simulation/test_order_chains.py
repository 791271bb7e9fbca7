"""The check of whole stories finds what is left out of one."""

from collections.abc import Callable

import pytest

from bot.domain.entry import AttemptFinished, AttemptStarted, Decision, Entry, Fill, OrderResultSeen
from bot.journal.journal import Journal
from tests.journal.facts import Story
from tests.simulation.order_chains import chains_in

Leave = Callable[[Entry], bool]


async def lacks(url: str, leave_out: Leave) -> str:
    """What the story of an order lacks when some of its entries are never written."""
    story, journal = Story(), Journal.open(url)
    for entries in [*story.placed(), story.filled(500, position=500)]:
        await journal.write([each for each in entries if not leave_out(each)])
    await journal.close()
    return "; ".join(chains_in(url)[story.local_id])


async def test_a_filled_order_lacks_nothing(sqlite_url: str) -> None:
    assert await lacks(sqlite_url, lambda _: False) == ""


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (Decision, "no decision with its checks"),
        (AttemptStarted | AttemptFinished, "0 POSTs"),
        (OrderResultSeen, "the broker never said anything of it"),
        (Fill, "executed 500, fills 0"),
    ],
    ids=["decision", "attempt", "report", "fill"],
)
async def test_what_is_left_out_is_named(kind: type, told: str, sqlite_url: str) -> None:
    assert told in await lacks(sqlite_url, lambda entry: isinstance(entry, kind))


async def test_an_order_that_never_ended_is_named(sqlite_url: str) -> None:
    story, journal = Story(), Journal.open(sqlite_url)
    for entries in story.placed():
        await journal.write(entries)
    await journal.close()

    assert "never ended: ACCEPTED" in "; ".join(chains_in(sqlite_url)[story.local_id])
