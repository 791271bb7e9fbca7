"""S9: the broker's ids begin anew each day: an order has the id of another one of yesterday."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from bot.domain.entry import Fill, IntentMoved
from bot.domain.order import SendState
from bot.runtime.state_dir import LEDGER
from tests.staging import QUIET
from tests.story import Story, once, tell, write_project

LOST = {
    "match": {"verb": "POST", "path": "*/orders"},
    "point": "after_apply",
    "action": {"do": "rst"},
}
EXPIRING = {"size": {"shares": 100}, "type": "LIMIT", "price": "ask", "expire": "30s"}


async def _day(folder: Path, day: str, price: int, *, is_lost: bool) -> Story:
    """Live through some minutes of a day at a broker that knows nothing of earlier ones."""
    (folder / "state" / LEDGER).unlink(missing_ok=True)
    strategy = once(params={"price": price}, order=EXPIRING)
    config = write_project(
        folder,
        scenario={**QUIET, "day": day, "faults": [LOST] * is_lost},
        strategies=[strategy],
    )
    return await tell(config, minutes=4)


@pytest.mark.one_strike
@pytest.mark.parametrize("is_lost", [False, True], ids=["heard", "lost"])
async def test_an_order_with_an_id_of_yesterday_is_its_own(tmp_path: Path, is_lost: bool) -> None:
    yesterday = await _day(tmp_path, "2026-11-19", 26_000, is_lost=False)
    today = await _day(tmp_path, "2026-11-20", 27_500, is_lost=is_lost)

    assert yesterday.broker_orders().keys() == today.broker_orders().keys()
    with closing(sqlite3.connect(today.loaded.state_dir / "journal.db")) as journal:
        rows = journal.execute(
            "select trading_date, intent_id, state, executed_quantity from orders order by 1"
        ).fetchall()
    assert rows == [
        ("2026-11-19", "L-0001", "CANCELLED", 0),
        ("2026-11-20", "L-0002", "FILLED", 100),
    ]
    assert {fill.intent_id for fill in today.shown.all(Fill)} == {"L-0002"}
    moves = [each.to_state for each in today.shown.all(IntentMoved)]
    assert moves[-1] is (SendState.MATCHED if is_lost else SendState.ACKED)
