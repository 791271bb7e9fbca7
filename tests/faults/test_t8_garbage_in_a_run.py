"""T8: each kind of garbage at each of twelve calls of a whole run, from a random moment to its end.

Nothing crashes, no order leaves because of it, the journal agrees with the ledger, and a read that
brings nothing any more is named on the screen and in the status. `test_t8_garbage` shows what the
client makes of each answer.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from shutil import rmtree
from typing import Any, NamedTuple

import pytest

from bot.domain.entry import Note
from bot.drill.oracle import faults_in, outcome_of
from bot.sandbox.faults.garbage import GarbageKind
from tests.by_hand import Ask, HandStory, tell_by_hand
from tests.faults.named import words_of
from tests.faults.strikes import STRIKES, is_in_full, times
from tests.staging import QUIET, START
from tests.story import once, write_project


class Call(NamedTuple):
    """Whose answers are garbage. `words`: what names it where it brings nothing any more;
    `is_at_start`: from the first on, as it is asked for when the bot starts.
    """

    verb: str
    path: str
    words: str = ""
    is_at_start: bool = False


CALLS = {
    "list": Call("GET", "/trading/*/order-book", "day order book"),
    "detail": Call("GET", "/trading/*/order-book/*"),
    "portfolio": Call("GET", "*/portfolio", "the account"),
    "summary": Call("GET", "*/summary", "the account"),
    "quote": Call("GET", "/market/quotes/stocks/HPG", "the quote"),
    "depth": Call("GET", "/market/quotes/stocks/HPG/order-book", "the depth"),
    "session": Call("GET", "/trading/market/session", is_at_start=True),
    "history": Call("GET", "/market/quotes/stocks/HPG/history", is_at_start=True),
    "rights": Call("GET", "*/user-rights", is_at_start=True),
    "place": Call("POST", "/trading/*/orders", is_at_start=True),
    "amend": Call("PUT", "/trading/*/orders/*"),
    "cancel": Call("DELETE", "/trading/*/orders/*"),
}
ROWS = {
    GarbageKind.VALUES_NULL,
    GarbageKind.KEYS_RENAMED,
    GarbageKind.ROWS_OF_NULL,
    GarbageKind.VALUES_NESTED,
    GarbageKind.VALUES_TRUE,
    GarbageKind.NUMBERS_AS_WORDS,
}
READ_ALL_THE_SAME = {
    "list": ROWS,
    "summary": {GarbageKind.VALUES_NULL, GarbageKind.KEYS_RENAMED},
}
"""What leaves out only what the document does not require, or spoils single rows."""
BREAKS_S, MINUTES, QUOTE_AGE_S = (12, 28), 2.25, 15
STEADY = """
from bot import Strategy


class Steady(Strategy):
    def on_start(self):
        self.asked = 0

    def on_quote(self, quote):
        self.asked += 1
        if self.asked < 10:  # the last order has ended and been seen at the end
            self.buy(100 * (1 + self.asked % 7), limit=quote.last, why="steadily")
"""


async def _told(folder: Path, call: Call, kind: GarbageKind, breaks_s: int) -> HandStory:
    at = {} if call.is_at_start else {"at": f"09:20:{breaks_s:02d}"}
    fault = {
        "match": {"verb": call.verb, "path": call.path, "times": 0, **at},
        "action": {"do": "garbage", "kind": kind.value},
    }
    resting = once(
        params={"price": 26_000},
        order={"size": {"shares": 100}, "type": "LIMIT", "price": "ask", "expire": "60s"},
        wake={"quote": "5s", "depth": "5s"},
    )
    steady = once("steady", use="steady", params={}, wake={"quote": "10s"})
    config = write_project(
        folder,
        scenario={**QUIET, "faults": [fault]},
        strategies=[resting, steady],
        risk={"allow_amend": True},
    )
    (folder / "strategies" / "steady.py").write_text(STEADY)
    modify = {"do": "modify", "order_id": "L-0001", "limit": 26_100}
    looks = Ask(timedelta(seconds=30), modify), Ask(timedelta(minutes=2), {"do": "status"})
    return await tell_by_hand(config, *looks, minutes=MINUTES)


def _wrong(told: HandStory, name: str, kind: GarbageKind, breaks_s: int) -> list[str]:
    outcome, call = outcome_of(told.story.loaded.state_dir), CALLS[name]
    wrong = list(faults_in(outcome))
    posts = outcome.rows("select at from attempts where verb = 'POST'")
    late = START + timedelta(seconds=breaks_s + QUOTE_AGE_S)
    times_of_posts = [datetime.fromisoformat(row["at"]) for row in posts]
    if name == "quote" and (after := [at for at in times_of_posts if at > late]):
        wrong.append(f"orders left at {after} without a quote")
    if call.words and kind not in READ_ALL_THE_SAME.get(name, ()):
        alerts = [note.text for note in told.story.shown.all(Note) if note.kind == "ALERT"]
        if not any(call.words in text for text in alerts):
            wrong.append(f"it is not on the screen: {alerts}")
        status: Any = told.replies[-1]
        if not any(call.words in text for text in words_of(status)):
            wrong.append(f"the status says {words_of(status)}")
    return wrong


def _struck(told: HandStory) -> bool:
    return any(line["struck"] for line in told.story.ledger() if line["kind"] == "fault")


def _kinds(name: str) -> list[GarbageKind]:
    """In full all of them, else one, which is another for each call."""
    kinds = list(GarbageKind)
    return kinds if is_in_full() else [Random(name).choice(kinds)]


@pytest.mark.long
@pytest.mark.parametrize("name", CALLS)
async def test_garbage_crashes_nothing_and_no_order_leaves_because_of_it(
    tmp_path: Path, record_property: Callable[[str, object], None], name: str
) -> None:
    struck = 0
    for kind in _kinds(name):
        breaks_s = Random(f"{name} {kind}").randint(*BREAKS_S)
        folder = tmp_path / kind.value

        told = await _told(folder, CALLS[name], kind, breaks_s)

        assert _struck(told), f"{name}, {kind}"
        assert _wrong(told, name, kind, breaks_s) == [], f"{name}, {kind}, from {breaks_s} s on"
        struck += 1
        rmtree(folder)

    assert struck >= times("T8", len(CALLS)) // len(CALLS)
    record_property(STRIKES, struck)
