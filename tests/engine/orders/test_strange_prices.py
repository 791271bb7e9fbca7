"""Rows that show an order of ours at a price that nobody gave it here: it counts at both."""

from dataclasses import replace

import pytest

from bot.domain.entry import Note
from bot.domain.message import AmendAnswered, PlaceOrder
from bot.domain.operations import AmendAsked
from bot.domain.order import Intent, OrderType, SendState, Side
from bot.domain.outcome import Accepted, Refused, Unknown
from bot.domain.plan import Limits
from bot.domain.recovery import Recovery, StoredChanges, StoredIntent
from bot.engine.requests import view_of
from bot.engine.risk.accounts import means_of
from bot.engine.risk.checks import judge, other_orders
from bot.engine.risk.sizing import OrderRequest
from bot.engine.settings import EngineSettings
from bot.engine.tracked import TrackedIntent
from tests.engine.stage import ACCOUNT, DAY, Stage, report_of, result_of, sell_intent
from tests.engine.test_invariants import broken, look, staged

SENT, SHOWN = 27_000, 26_900


def _prices(stage: Stage) -> tuple[int | None, ...]:
    [order] = stage.engine._state.orders.values()
    return order.prices


def _alerts(stage: Stage) -> list[str]:
    return [str(n.numbers.get("alert")) for n in stage.all(Note) if n.kind == "ALERT"]


def _verdict_on_a_sale(stage: Stage, price: int) -> str:
    """What another strategy hears that would sell at a price."""
    state = stage.engine._state
    [strategy] = state.strategies.values()
    request = OrderRequest(
        "other", ACCOUNT, "HPG", Side.SELL, 100, OrderType.LO, price, why="to sell"
    )
    means = means_of(state, strategy, "HPG", ACCOUNT)
    view = view_of(state, strategy, request, means)
    found = judge(request, view, Limits(), (other_orders,))
    return next((one.code for one in found if not one.passed), "OK")


def _shown_at(price: int, stage: Stage | None = None) -> tuple[Stage, Intent]:
    stage = stage or Stage()
    intent = stage.working(100, SENT)
    stage.after(1).book(report_of(intent, price=price))
    return stage, intent


@pytest.mark.parametrize("shown", [26_900, 27_100])
def test_an_order_counts_at_the_price_it_was_sent_at_and_at_the_shown_one(shown: int) -> None:
    stage, intent = _shown_at(shown)
    highest = max(SENT, shown)

    assert _verdict_on_a_sale(stage, highest) == "SELF_CROSS"
    assert _verdict_on_a_sale(stage, highest + 50) == "OK"
    state = stage.engine._state
    amount = 100 * highest
    assert state.index.reserved.of(ACCOUNT) == amount + state.rulebook.fee(amount)

    stage.after(1).book(report_of(intent, executed=100))
    assert _verdict_on_a_sale(stage, SENT) == "OK"


def test_it_is_told_once_and_stands_until_the_order_ends() -> None:
    stage, intent = _shown_at(SHOWN)
    stage.after(1).book(report_of(intent, price=SHOWN))

    assert _alerts(stage) == ["PRICE_DIFFERS"]
    [standing] = stage.engine.status().alerts
    assert standing == (
        "L-0001 (ORD1), BUY 100 HPG at 26,900: that is its price in the broker's row; the bot "
        "sent 27,000. It counts at each of these prices until it ends. Compare it with the "
        "broker's app; if nobody changed it there, or it is not wanted: bot cancel ORD1"
    )

    stage.after(1).book(report_of(intent, executed=100, price=SHOWN))
    assert stage.engine.status().alerts == ()


@pytest.mark.parametrize(("asked", "is_met"), [(27_050, True), (27_100, True), (27_150, False)])
def test_an_order_of_ours_that_it_could_now_trade_with_is_named_and_is_no_fault_of_ours(
    asked: int, *, is_met: bool
) -> None:
    stage, state = staged()
    intent = stage.working(100, SENT)
    other = replace(sell_intent(intent), intent_id="L-0009", limit_price=asked)
    state.index.track_intent(TrackedIntent(other, SendState.REACHED))

    stage.after(1).book(report_of(intent, price=27_100))
    look(stage)

    assert broken(stage) == []
    assert ("trade with your own L-0009" in stage.engine.status().alerts[-1]) is is_met


def test_a_change_that_is_done_leaves_its_own_price_alone() -> None:
    stage = Stage(settings=EngineSettings(amend_enabled=True))
    intent = stage.working(100, SENT)
    stage.handle(AmendAsked(stage.now, "ORD1", SHOWN, None, "operator", "by hand"))
    stage.row(report_of(intent))
    stage.handle(AmendAnswered(stage.now, "ORD1", Accepted(result_of(intent)), None))
    assert _prices(stage) == (SHOWN, SENT)

    stage.after(1).row(report_of(intent, price=SHOWN))

    assert _prices(stage) == (SHOWN,)
    assert _alerts(stage) == []


def test_while_a_change_is_asked_for_it_counts_at_what_was_sent_shown_and_asked() -> None:
    stage, intent = _shown_at(27_100, Stage(settings=EngineSettings(amend_enabled=True)))
    stage.handle(AmendAsked(stage.now, "ORD1", SHOWN, None, "operator", "by hand"))
    stage.row(report_of(intent, price=27_100))
    [order] = stage.engine._state.orders.values()

    assert order.change is not None
    assert _prices(stage) == (SHOWN, SENT, 27_100)
    assert order.prices_given == (SENT, SHOWN)


def test_money_is_kept_back_for_every_price_once_a_change_has_failed_to_show() -> None:
    """The row of the verdict lowers the shown price: only the prices asked for keep it reserved."""
    stage = Stage(settings=EngineSettings(amend_enabled=True))
    intent = stage.working(100, SENT)
    stage.handle(AmendAsked(stage.now, "ORD1", 27_200, None, "operator", "by hand"))
    stage.row(report_of(intent))
    stage.handle(AmendAnswered(stage.now, "ORD1", Unknown("timeout"), None))
    stage.after(1).row(report_of(intent, price=26_950))
    state = stage.engine._state

    assert state.index.reserved.of(ACCOUNT) == 2_720_000 + state.rulebook.fee(2_720_000)


def test_an_order_of_somebody_else_is_none_of_ours_that_it_could_trade_with() -> None:
    stage = Stage()
    intent = stage.working(100, SENT)
    theirs = replace(report_of(intent, "ORD9"), side=Side.SELL, price=27_050)
    stage.after(1).book(report_of(intent), theirs)

    stage.after(1).book(report_of(intent, price=27_100), theirs)

    assert "trade with your own" not in stage.engine.status().alerts[-1]


def test_a_change_whose_row_shows_neither_value_counts_at_all_of_them() -> None:
    stage = Stage(settings=EngineSettings(amend_enabled=True))
    intent = stage.working(100, SENT)
    stage.handle(AmendAsked(stage.now, "ORD1", SHOWN, None, "operator", "by hand"))
    stage.row(report_of(intent))
    stage.handle(AmendAnswered(stage.now, "ORD1", Unknown("timeout"), None))

    stage.after(1).row(report_of(intent, price=26_950))

    assert _prices(stage) == (SHOWN, 26_950, SENT)
    assert _alerts(stage) == ["AMEND_DIFFERS"]


def test_a_price_that_was_refused_is_none_at_which_an_order_counts() -> None:
    stage = Stage(settings=EngineSettings(amend_enabled=True))
    intent = stage.working(100, SENT)
    stage.handle(AmendAsked(stage.now, "ORD1", SHOWN, None, "me", "by hand"))
    stage.row(report_of(intent))
    stage.handle(AmendAnswered(stage.now, "ORD1", Refused("400", "no", 400), None))

    stage.after(1).row(report_of(intent))

    assert [each.verdict for each in stage.engine.status().amends] == ["REFUSED"]
    assert _prices(stage) == (SENT,)


def test_what_is_left_of_a_market_order_has_the_price_at_which_it_came_to_rest() -> None:
    stage = Stage()
    stage.request(lambda s: s.buy(100, market=OrderType.MTL))
    intent = stage.last(PlaceOrder).intent
    stage.accept(intent)

    stage.after(1).book(report_of(intent, order_type="MTL", price=SENT))
    assert (_prices(stage), _alerts(stage)) == ((SENT,), [])
    stage.after(1).book(report_of(intent, order_type="MTL", price=SHOWN))

    assert (_prices(stage), _alerts(stage)) == ((SHOWN, SENT), ["PRICE_DIFFERS"])


@pytest.mark.parametrize(
    ("amended", "expected"), [((), (SHOWN, SENT)), ((26_950,), (SHOWN, 26_950, SENT))]
)
def test_after_a_restart_it_counts_at_both_prices_too(
    amended: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    before, intent = _shown_at(SHOWN)
    stored = (StoredIntent(intent, SendState.ACKED, "ORD1", None),)
    changes = {"ORD1": StoredChanges(prices=amended)}
    row = before.entries_of_order()

    stage = Stage(recovery=Recovery(DAY, 2, intents=stored, orders=(row,), changes=changes))

    assert _prices(stage) == expected


def test_after_a_restart_an_amended_order_has_the_price_that_was_asked_for_last() -> None:
    before, intent = _shown_at(SHOWN)
    stored = (StoredIntent(intent, SendState.ACKED, "ORD1", None),)
    changes = {"ORD1": StoredChanges(prices=(SHOWN,))}
    row = before.entries_of_order()

    stage = Stage(recovery=Recovery(DAY, 2, intents=stored, orders=(row,), changes=changes))

    assert _prices(stage) == (SHOWN,)


def test_after_a_restart_a_price_of_before_an_amendment_is_no_fault_of_ours() -> None:
    """Sent at 27,200 and amended to 27,000, so that a sale at 27,100 could go out."""
    before = Stage()
    buy = before.working(100, 27_200)
    before.after(1).book(report_of(buy, price=SHOWN))
    row = before.entries_of_order()
    sale = replace(sell_intent(buy), intent_id="L-0002", limit_price=27_100)
    sold = replace(row, order_id="ORD2", intent_id="L-0002", side=Side.SELL, price=27_100)
    stored = (
        StoredIntent(buy, SendState.ACKED, "ORD1", None),
        StoredIntent(sale, SendState.ACKED, "ORD2", None),
    )
    changes = {"ORD1": StoredChanges(prices=(27_000,))}
    known = Recovery(DAY, 3, intents=stored, orders=(row, sold), changes=changes)
    stage, state = staged(recovery=known, sellable=500)

    look(stage)

    assert state.orders["ORD1"].prices == (SHOWN, 27_000, 27_200)
    assert broken(stage) == []
