"""O1: a person trades in the broker's own app, also the very order whose answer we have lost."""

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from random import Random
from shutil import rmtree

import pytest

from bot.drill.oracle import faults_in, outcome_of
from tests.by_hand import Elsewhere, Stranger, tell_by_hand
from tests.faults.strikes import STRIKES, times
from tests.staging import QUIET
from tests.story import once, write_project

SYMBOLS = ("HPG", "FPT", "VNM", "MWG", "SSI", "ACB", "MBB", "VCB", "VIC", "TCB")
QUANTITY, PRICE = 500, 26_000
OTHERS = (
    ("BUY", QUANTITY, PRICE),
    ("BUY", QUANTITY, PRICE),
    ("BUY", QUANTITY, PRICE),
    ("BUY", 400, PRICE),
    ("BUY", QUANTITY, 26_050),
    ("SELL", QUANTITY, 28_000),
)
"""What the person orders: most often the same as we do."""
FIRST_S, LAST_S = 0.5, 10
"""When, in seconds of the story: ours leave in the first seconds."""
NOT_OURS = "not placed here"
PLACES = {"verb": "POST", "path": "*/orders"}
LOST = (
    ("after_apply", {"do": "rst"}),
    ("after_apply", {"do": "hang", "seconds": 11}),
    ("after_apply", {"do": "status", "status": 503}),
    ("accept", {"do": "rst"}),
    ("before_auth", {"do": "status", "status": 502}),
    (None, {"do": "dup_request", "answer": "second"}),
)
"""What befalls our order. Where it arrives its row shows at once: of two rows of which one hides no
client could know whose the other is.
"""


def _scenario(seed: int) -> Mapping[str, object]:
    symbols = [
        {"symbol": each, "exchange": "HOSE", "reference": 27_000, "swing_ticks": 0}
        for each in SYMBOLS
    ]
    faults = [
        {"match": {**PLACES, "prob": 0.2, "times": 0}, "action": action}
        | ({"point": point} if point else {})
        for point, action in LOST
    ]
    holdings = dict.fromkeys(SYMBOLS, 1_000)
    accounts = [{"id": "0009000011", "cash": 900_000_000, "holdings": holdings}]
    return {**QUIET, "symbols": symbols, "seed": seed, "faults": faults, "accounts": accounts}


async def _lived_through(folder: Path, seed: int) -> Counter[str]:
    """Live through a story; count the orders placed elsewhere, those in doubt among them, and those
    that were taken for ours and named.
    """
    dice = Random(seed)
    orders = [
        Elsewhere(timedelta(seconds=dice.uniform(FIRST_S, LAST_S)), each, *dice.choice(OTHERS))
        for each in SYMBOLS * 2
    ]
    strategy = once(
        symbols=SYMBOLS,
        params={"price": PRICE, "shares": QUANTITY},
        order={"size": {"shares": 100}, "type": "LIMIT", "price": "ask", "expire": "60s"},
    )
    config = write_project(folder, scenario=_scenario(seed), strategies=[strategy])
    stranger = Stranger(orders)
    story = (await tell_by_hand(config, minutes=3, place_in=stranger)).story

    outcome = outcome_of(story.loaded.state_dir)
    theirs = frozenset(stranger.placed)
    assert len(theirs) == len(orders), f"seed {seed}"
    rows = {row["order_id"]: row for row in outcome.rows("select * from orders")}
    taken = [each for each in theirs if rows[each]["intent_id"] is not None]
    excused = {f"{each} was placed by hand and is ours" for each in taken}
    assert set(faults_in(outcome, by_hand=theirs)) == excused, f"seed {seed}"
    truth = story.broker_orders()
    assert {truth[each]["cancelled"] for each in theirs} == {0}, f"seed {seed}"
    sent = {row["order_id"] for row in outcome.rows("select order_id from attempts")}
    assert not sent & theirs, f"seed {seed}"
    halts = " ".join(row["reason"] for row in outcome.rows("select reason from halts"))
    assert [each for each in taken if f"If {each} is somebody else's" not in halts] == []
    doubtful = [each for each in theirs if rows[each]["note"] not in {NOT_OURS, ""}]
    alerts = " ".join(row["text"] for row in outcome.rows("select text from notes"))
    assert [each for each in doubtful if each not in alerts] == [], f"seed {seed}"
    return Counter(placed=len(theirs), doubtful=len(doubtful), taken=len(taken))


@pytest.mark.long
async def test_orders_placed_elsewhere_are_counted_and_never_touched_nor_ours_in_silence(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """One that looks like a lost order of ours may be taken for it until the nonce has answered."""
    counted, seed = Counter[str](), 0
    while counted["placed"] < times("O1", 12):
        folder = tmp_path / str(seed)
        counted += await _lived_through(folder, seed)
        seed += 1
        rmtree(folder)

    assert counted["doubtful"] * 10 > counted["placed"]
    assert counted["taken"] * 20 < counted["placed"]
    record_property(STRIKES, counted["placed"])
