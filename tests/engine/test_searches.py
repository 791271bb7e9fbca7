"""No event makes the engine search all that the day has had."""

from collections.abc import Iterator, Mapping

import pytest

from bot.domain.entry import Note
from bot.domain.order import OrderState
from bot.domain.outcome import Unknown
from tests.engine.stage import Stage, report_of


class Unsearched(Mapping[str, object]):
    """Answers what is asked by its key, and nothing about all."""

    def __init__(self, whole: Mapping[str, object]) -> None:
        self._whole = whole

    def __getitem__(self, key: str) -> object:
        return self._whole[key]

    def __len__(self) -> int:
        return len(self._whole)

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("every order of the day was looked at")


def test_no_event_looks_at_all_orders_of_the_day(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(cash=10**9, sellable=10_000)
    state = stage.engine._state
    for number in range(3):
        stage.after(60).quote()
        intent = stage.working(order_id=f"ORD{number}")
        stage.book(report_of(intent, f"ORD{number}", state=OrderState.FILLED, executed=100))
    stage.pass_time(60)  # everything is looked at now and then
    for name in ("orders", "intents"):
        monkeypatch.setattr(state, name, Unsearched(getattr(state, name)))

    stage.after(1).quote(27_100)
    stage.depth()
    stage.account(10_000)
    lost = stage.buy(limit=26_900)
    stage.send(lost)
    stage.answer(lost, Unknown("lost", None))
    stage.pass_time(1)
    # A row that nobody owns may be any intent's whose answer came while the list was read.
    monkeypatch.setattr(state, "intents", state.index.intents)
    stage.book(report_of(lost, "ORD8"), report_of(lost, "ORD9"))
    stage.pass_time(11)

    assert stage.last(Note).numbers["alert"] == "ORDER_AMBIGUOUS"
