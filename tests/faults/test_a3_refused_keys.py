"""A3: a broker that refuses our orders alone (401): said at once, and everything else goes on."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bot.broker.calls import KeyBreaker, Proof
from bot.domain.entry import AttemptFinished, Note, OrderUpdated
from bot.domain.order import OrderState
from bot.runtime.watches import refused
from tests.by_hand import Ask, tell_by_hand
from tests.cli.telling.told_whole import require_whole
from tests.rows import every_row
from tests.staging import QUIET
from tests.story import once, tell, write_project

REFUSED = {
    "match": {"verb": "POST", "path": "*/orders", "at": "09:20:20", "times": 0},
    "action": {
        "do": "status",
        "status": 401,
        "body": '{"error_code": "401", "message": "Invalid signature"}',
    },
}
EAGER = """
from bot import Strategy

class Eager(Strategy):
    def on_quote(self, quote):
        self.n = getattr(self, "n", 0) + 1
        if self.symbol == "HPG" and self.n == 2:
            self.buy(100, limit=26_000, why="rests")
        if self.symbol == "SHS" and self.n >= 5:
            self.buy(100, limit=18_000 - 100 * (self.n % 4), why="again")
"""


@pytest.mark.scripted
async def test_refused_orders_are_named_and_a_halt_cancels_at_once(tmp_path: Path) -> None:
    eager = {**once("eager", use="eager", params={}), "symbols": ["HPG", "SHS"]}
    config = write_project(tmp_path, scenario={**QUIET, "faults": [REFUSED]}, strategies=[eager])
    (tmp_path / "strategies" / "eager.py").write_text(EAGER)
    status = Ask(timedelta(seconds=90), {"do": "status"})
    halt = Ask(timedelta(seconds=100), {"do": "halt", "reason": "by hand", "by": "me"})

    told = await tell_by_hand(config, status, halt, minutes=2.5)

    shown = told.story.shown
    sent = [one for one in shown.all(AttemptFinished) if one.http_status == 401]
    assert len(sent) == 2
    codes = [note.numbers["alert"] for note in shown.all(Note) if note.kind == "ALERT"]
    assert codes[0] == "KEY_REFUSED"
    assert not {"CANCEL_LATE", "CANCEL_OPEN", "CANCEL_STUCK"} & set(codes)
    assert "has refused our orders" in str(told.replies[0])
    ends = [one for one in shown.all(OrderUpdated) if one.state is OrderState.CANCELLED]
    assert len(ends) == 1


@pytest.mark.scripted
async def test_orders_that_are_accepted_again_are_told_once(tmp_path: Path) -> None:
    eager = {**once("eager", use="eager", params={}), "symbols": ["HPG", "SHS"]}
    fault = {**REFUSED, "match": {**REFUSED["match"], "until": "09:22:00"}}
    config = write_project(tmp_path, scenario={**QUIET, "faults": [fault]}, strategies=[eager])
    (tmp_path / "strategies" / "eager.py").write_text(EAGER)

    story = await tell(config, minutes=7)

    notes = story.shown.all(Note)
    codes = [note.numbers["alert"] for note in notes if note.kind == "ALERT"]
    ends = [note.text for note in notes if note.kind == "RESUME"]
    assert codes == ["KEY_REFUSED"]
    assert ends == [
        "the broker accepts again what it has refused (401): nothing is kept back for it"
    ]


@every_row("proof", Proof)
def test_the_alert_says_what_to_do_whatever_is_refused(proof: Proof) -> None:
    class Barring(KeyBreaker):
        def __init__(self) -> None: ...

        def barred(self) -> tuple[Proof, datetime]:
            return proof, datetime(2026, 9, 3, 2, 30, tzinfo=UTC)

    (standing,) = refused(Barring())

    require_whole("KEY_REFUSED", standing.text)
