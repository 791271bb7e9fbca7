from dataclasses import replace
from datetime import timedelta

import pytest

from bot.domain.entry import Fill, Note, Verdict
from bot.domain.message import NonceBurnt, PlaceOrder
from bot.domain.order import Intent, OrderState, SendState
from bot.domain.outcome import Resolution, Unknown
from bot.domain.recovery import Recovery, StoredIntent
from tests.engine.stage import DAY, PLAN, START, Stage, attempt_of, report_of

OTHER = replace(PLAN, name="other")
SECOND = timedelta(seconds=1)


def _asked() -> tuple[Intent, Intent]:
    """The order of one strategy, and a dearer one of another."""
    stage = Stage(beside=(OTHER,))
    first = stage.buy(300, 26_900)
    stage.after(70).quote()
    stage.request(lambda s: s.buy(300, limit=27_000, why="as asked"), by="other")
    return first, stage.last(PlaceOrder).intent


def _lost(*intents: Intent, beside: Recovery | None = None) -> Stage:
    """Their answers died with the process, and it is too late to try their nonces."""
    known = beside or Recovery(DAY)
    stored = [
        StoredIntent(each, SendState.SENDING, None, attempt_of(each, START + number * SECOND))
        for number, each in enumerate(intents)
    ]
    recovery = replace(known, next_intent_number=3, intents=(*known.intents, *stored))
    stage = Stage(beside=(OTHER,), recovery=recovery, is_open=False)
    stage.after(400)
    for each in intents:
        stage.handle(NonceBurnt(stage.now, each.intent_id, Resolution.REACHED, "window over"))
    return stage


def _changed_into(row, intent, order_id):
    before = replace(
        row,
        status="CANCELLED",
        state=OrderState.CANCELLED,
        remaining_quantity=0,
        cancelled_quantity=row.quantity,
        raw="changed",
    )
    return before, report_of(intent, order_id, root_order_id=row.order_id)


def _owners(stage):
    return {name: order.row.intent_id for name, order in stage.engine._state.orders.items()}


def _told(stage):
    return [note.numbers["alert"] for note in stage.all(Note) if note.kind == "ALERT"]


def _is_told(stage):
    alerts = stage.engine.status().alerts
    return sum("O2 is what O1 was changed into" in text for text in alerts) == 1


def _lost_states(stage):
    return {name: each.state for name, each in stage.engine._state.intents.items()}


@pytest.mark.parametrize("is_sent_first", [True, False])
def test_a_row_into_which_an_order_of_ours_was_changed_is_no_other_lost_place(is_sent_first):
    cheap, dear = _asked()
    stage = _lost(*((cheap, dear) if is_sent_first else (dear, cheap)))
    before, after = _changed_into(report_of(cheap, "O1"), dear, "O2")

    stage.after(1).book(before, after)
    stage.after(15).book(before, after)
    full = report_of(dear, "O2", executed=300, state=OrderState.FILLED, root_order_id="O1")
    stage.after(15).book(before, full)

    assert _owners(stage) == {"O1": cheap.intent_id}
    assert _lost_states(stage) == {
        cheap.intent_id: SendState.MATCHED,
        dear.intent_id: SendState.REACHED,
    }
    assert [(fill.strategy, fill.quantity) for fill in stage.all(Fill)] == [("test", 300)]


def test_a_lost_place_that_was_changed_and_changed_back_goes_on_under_its_last_id():
    cheap, _ = _asked()
    stage = _lost(cheap)
    before, after = _changed_into(report_of(cheap, "O1"), cheap, "O3")

    stage.after(1).book(before, after)
    stage.after(15).book(before, after)

    assert _lost_states(stage) == {cheap.intent_id: SendState.MATCHED}
    assert stage.engine._state.chains.current("O1") == "O3"
    assert _told(stage)[-2:] == ["ORDER_LIVES", "SYMBOL_HALTED"]


@pytest.mark.parametrize(
    "changes", [{}, {"symbol": "VNM"}], ids=["root not listed", "root of another order"]
)
def test_a_row_into_which_an_order_was_changed_is_asked_about_if_that_is_not_ours(changes):
    """It may be the lost place all the same, if that was changed and changed back."""
    cheap, dear = _asked()
    stage = _lost(dear)
    before, after = _changed_into(replace(report_of(cheap, "O1"), **changes), dear, "O2")

    stage.after(1).book(*([before] if changes else []), after)

    assert _lost_states(stage) == {dear.intent_id: SendState.AMBIGUOUS}
    assert _is_told(stage)


def test_a_row_that_names_an_order_of_ours_in_another_symbol_is_asked_about():
    first = Stage()
    own = replace(first.working(300, 26_900, "O1"), intent_id="L-0000", symbol="VNM")
    row = replace(first.entries_of_order("O1"), intent_id="L-0000", symbol="VNM")
    stored = StoredIntent(own, SendState.ACKED, "O1", None)
    _, dear = _asked()
    stage = _lost(dear, beside=Recovery(DAY, intents=(stored,), orders=(row,)))

    stage.after(1).book(report_of(dear, "O2", root_order_id="O1"))

    assert _lost_states(stage)[dear.intent_id] is SendState.AMBIGUOUS
    assert _is_told(stage)


def test_a_lost_place_is_over_for_no_list_while_it_works_under_its_new_id():
    """The row of its new id counted as somebody else's while its place was being answered."""
    stage = Stage()
    intent = stage.buy()
    stage.send(intent)
    old, new = _changed_into(report_of(intent), intent, "ORD2")
    rows = old, replace(new, price=26_950)
    stage.after(6).book(*rows)
    before = _owners(stage)
    stage.after(4).answer(intent, Unknown("deadline", None))

    stage.after(2).book(*rows)
    told, chains = _told(stage), stage.engine._state.chains
    stage.quote()
    stage.account()
    stage.request(lambda s: s.buy(100, limit=26_900, why="mine was cancelled"))

    assert before == {"ORD2": None}
    assert (_owners(stage), chains.current("ORD1")) == ({"ORD1": intent.intent_id}, "ORD2")
    assert told[-2:] == ["ORDER_LIVES", "SYMBOL_HALTED"]
    assert (stage.decided()[0], stage.new(PlaceOrder)) == (Verdict.BLOCKED, [])
