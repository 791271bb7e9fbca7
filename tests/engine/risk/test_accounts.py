from dataclasses import replace
from datetime import timedelta

import pytest

from bot.domain.account import AccountSnapshot, Holding
from bot.domain.entry import Decision, Verdict
from bot.domain.message import AccountRead, PlaceOrder, QuoteReceived
from bot.domain.operations import AmendAsked
from bot.domain.order import Side
from bot.domain.outcome import Unknown
from bot.domain.recovery import RecoveredStrategy, Recovery
from bot.engine.risk.accounts import means_of
from bot.engine.settings import EngineSettings
from bot.engine.state import Position
from tests.engine.plain_scan import differences
from tests.engine.stage import ACCOUNT, DAY, RULEBOOK, Stage, report_of


def _means(stage):
    state = stage.engine._state
    return means_of(state, state.strategies["test"], "HPG")


def _holding(shares, **more):
    known = RecoveredStrategy({"HPG": (shares, shares * 27_000)}, 0, 0, 0, "on")
    return Stage(recovery=Recovery(DAY, strategies={"test": known}), **more)


def _free(stage):
    return _means(stage).cash


def _with_fee(amount):
    return amount + RULEBOOK.fee(amount)


def test_a_working_buy_reserves_price_and_fee():
    stage = Stage()

    stage.working(500, 27_000)

    assert _free(stage) == 100_000_000 - _with_fee(13_500_000)


def test_an_intent_that_has_not_been_answered_reserves_in_full():
    stage = Stage()

    stage.buy(500, 27_000)

    assert _free(stage) == 100_000_000 - _with_fee(13_500_000)


def test_a_fill_costs_what_it_cost_and_the_rest_stays_reserved():
    stage = Stage()
    intent = stage.working(500, 27_000)

    stage.after(1).book(report_of(intent, executed=200, average=26_900))

    assert _free(stage) == 100_000_000 - _with_fee(5_380_000) - _with_fee(8_100_000)


def test_the_brokers_newer_numbers_contain_older_fills():
    stage = Stage()
    intent = stage.working(200, 27_000)
    stage.after(1).book(report_of(intent, executed=200))
    stage.cash = 94_000_000

    stage.after(1).account(200)

    assert _free(stage) == 94_000_000


def test_what_was_bought_can_be_sold_from_13_00_of_the_second_day():
    stage = Stage()
    intent = stage.working(200, 27_000)
    stage.after(1).book(report_of(intent, executed=200))
    stage.after(61).quote()

    stage.request(lambda s: s.close())
    decision = stage.last(Decision)
    assert (decision.verdict, decision.code) == (Verdict.SKIPPED, "NOT_SETTLED")
    assert decision.why.startswith("not settled until 2026-11-")
    assert decision.why.split(" (")[0].endswith("13:00")

    settles = stage.engine._state.flows.next_delivery(ACCOUNT, "HPG", stage.now)
    assert settles is not None
    stage.now = settles
    stage.quote()
    assert _means(stage).sellable == 200


def test_the_owners_settled_shares_let_a_position_be_closed_the_same_day():
    stage = Stage(sellable=1_000)
    intent = stage.working(200, 27_000)
    stage.after(1).book(report_of(intent, executed=200))
    stage.after(61).quote()

    stage.request(lambda s: s.close())

    assert stage.last(PlaceOrder).intent.quantity == 200


def test_a_strategy_sells_no_more_than_its_own():
    stage = Stage(sellable=1_000)

    stage.request(lambda s: s.sell(100, limit=27_000))

    assert stage.decided() == (Verdict.BLOCKED, "SELLABLE")


def test_shares_in_a_working_sell_are_not_sold_twice():
    stage = Stage(sellable=1_000)
    stage.after(1).book(report_of(stage.working(200, 27_000), executed=200))
    stage.after(61).quote()
    stage.request(lambda s: s.sell(200, limit=28_000))
    stage.accept(stage.last(PlaceOrder).intent, "ORD2")

    assert _means(stage).sellable == 0
    stage.request(lambda s: s.sell(100, limit=28_050))
    assert stage.decided() == (Verdict.BLOCKED, "SELLABLE")


@pytest.mark.parametrize("becomes", ["ready", "sending", "unknown"])
def test_shares_in_a_sell_without_an_answer_are_not_sold_out_of_the_owners(becomes):
    stage = _holding(100, sellable=1_000)
    stage.request(lambda s: s.sell(100, limit=27_000))
    intent = stage.last(PlaceOrder).intent
    if becomes != "ready":
        stage.send(intent)
    if becomes == "unknown":
        stage.after(1).answer(intent, Unknown("timeout"))
    stage.after(5).quote()

    stage.request(lambda s: s.sell(100, limit=27_050))

    assert (_means(stage).sellable, stage.decided()) == (0, (Verdict.BLOCKED, "SELLABLE"))


def test_both_sells_of_a_call_are_of_own_shares():
    stage = _holding(300, sellable=1_000)

    stage.request(
        lambda s: s.sell(200, limit=27_000),
        lambda s: s.sell(200, limit=27_050),
        lambda s: s.sell(100, limit=27_100),
    )

    assert [one.code for one in stage.new(Decision)] == ["OK", "SELLABLE", "OK"]


def test_a_sell_grows_by_no_share_that_another_one_without_an_answer_has():
    stage = _holding(300, sellable=1_000, settings=EngineSettings(amend_enabled=True))
    stage.request(lambda s: s.sell(100, limit=28_000))
    first = stage.last(PlaceOrder).intent
    stage.accept(first)
    stage.after(1).book(report_of(first))
    stage.request(lambda s: s.sell(100, limit=28_050))

    def refused(quantity):
        return stage.engine.objection(
            AmendAsked(stage.now, "ORD1", None, quantity, "operator", "more")
        )

    assert refused(200) is None
    assert refused(300).code == "SELLABLE"


def test_the_second_request_of_a_call_sees_what_the_first_has_taken():
    stage = Stage(sellable=200)
    stage.after(1).book(report_of(stage.working(200, 27_000), executed=200))
    stage.after(61).quote()

    stage.request(lambda s: s.sell(200, limit=28_000), lambda s: s.sell(100, limit=28_050))
    assert [one.code for one in stage.new(Decision)] == ["OK", "SELLABLE"]

    stage = Stage()
    stage.request(lambda s: s.buy(100, limit=27_000), lambda s: s.buy(100, limit=27_050))
    assert [one.code for one in stage.new(Decision)] == ["OK", "ORDER_WORKING"]


def test_while_an_own_order_works_buy_and_close_are_skips():
    stage = Stage(sellable=1_000)
    stage.after(1).book(report_of(stage.working(300, 27_000), executed=200))
    stage.quote()

    for request in (lambda s: s.buy(), lambda s: s.close()):
        stage.request(request)
        assert stage.decided() == (Verdict.SKIPPED, "ORDER_WORKING")


def test_without_a_position_a_close_requests_nothing():
    stage = Stage(sellable=1_000)

    stage.request(lambda s: s.close())

    assert stage.decided() == (Verdict.SKIPPED, "NO_SIGNAL")


@pytest.mark.parametrize(
    ("sold", "amount", "realised", "left"),
    [
        (100, 2_800_000, 100_000, Position(200, 5_400_001)),
        (200, 5_400_000, 0, Position(100, 2_700_001)),
        (300, 8_000_000, -100_001, Position(0, 0)),
        (400, 8_000_000, -100_001, Position(-100, 0)),
    ],
)
def test_the_cost_of_a_sale_is_rounded_down_and_nothing_is_lost(sold, amount, realised, left):
    position = Position()
    position.take(Side.BUY, 300, 8_100_001)

    assert (position.take(Side.SELL, sold, amount), position) == (realised, left)


# --------------------------------------------------------------------------------------- drift


def _breaks(stage):
    return [each.text for each in stage.engine.reconciliation().breaks]


def _read(stage, shares, times=2):
    for _ in range(times):
        stage.after(60).book()
        stage.account(shares)


def test_the_owners_own_shares_are_no_drift():
    stage = Stage(sellable=1_000)

    _read(stage, None)

    assert _breaks(stage) == []


def test_a_difference_is_certain_at_the_second_equal_read():
    stage = Stage()
    _read(stage, 300, times=1)
    assert _breaks(stage) == []

    _read(stage, 300, times=1)

    text = "HPG in all: expected 0, found 300: +300 shares that no order explains"
    assert _breaks(stage) == [text]
    assert stage.engine.status().halted_symbols == {"HPG": f"B-0001: {text}"}
    _read(stage, 300)
    assert len(_breaks(stage)) == 1


@pytest.mark.parametrize(("before", "after", "change"), [(0, 300, "+300"), (300, 0, "-300")])
def test_shares_that_come_from_nowhere_or_go_are_a_difference_without_a_position(
    before, after, change
):
    def read(shares):
        held = {"HPG": Holding("HPG", shares, shares, 0, 20_000)} if shares else {}
        snapshot = AccountSnapshot(stage.now, ACCOUNT, 10**8, 10**8, held)
        stage.after(60).book()
        stage.handle(AccountRead(stage.now, replace(snapshot, at=stage.now)))

    stage = Stage(is_open=False)
    read(before)
    stage.quote()

    for _ in range(2):
        read(after)

    [text] = _breaks(stage)
    assert text.endswith(f"{change} shares that no order explains")


def test_a_symbol_with_shares_of_the_owner_is_a_break_and_trades_on():
    stage = Stage(sellable=1_000)

    _read(stage, 900)

    assert len(_breaks(stage)) == 1
    assert stage.engine.status().halted_symbols == {}


def test_halting_on_drift_is_a_setting():
    stage = Stage(settings=EngineSettings(halt_on_drift=False))

    _read(stage, 300)

    assert (len(_breaks(stage)), stage.engine.status().halted_symbols) == (1, {})


def test_an_order_that_is_being_filled_is_no_drift():
    stage = Stage()
    stage.working(500)

    _read(stage, 200, times=3)

    assert _breaks(stage) == []


def test_an_account_that_was_never_read_buys_nothing():
    stage = Stage(is_open=False)

    assert _free(stage) is None
    assert _means(stage).sellable == 0


@pytest.mark.parametrize("has_the_fill", [True, False])
def test_numbers_that_were_asked_for_earlier_take_no_newer_ones_place(has_the_fill):
    stage = Stage()
    first = stage.engine._state.accounts[ACCOUNT]
    intent = stage.working(200, 27_000)
    stage.after(1).book(report_of(intent, executed=200))
    stage.cash = 94_000_000
    stage.after(1).account(200)
    newest = stage.engine._state.accounts[ACCOUNT]
    doubts = dict(stage.engine._state.ledgers[ACCOUNT].doubts)

    late = replace(newest if has_the_fill else first, at=first.at + timedelta(milliseconds=1))
    stage.handle(AccountRead(stage.now, late))

    assert stage.engine._state.accounts[ACCOUNT] == newest
    assert _free(stage) == 94_000_000
    assert differences(stage.engine._state) == []
    assert stage.engine._state.ledgers[ACCOUNT].doubts == doubts


def test_accounts_are_kept_apart():
    stage = Stage()
    other = AccountSnapshot(
        stage.now, "120C900001.6", 1, 1, {"HPG": Holding("HPG", 9_000, 9_000, 0, 0)}
    )

    stage.handle(AccountRead(stage.now + timedelta(seconds=1), other))

    assert _free(stage) == 100_000_000
    assert _means(stage).sellable == 0


def test_an_order_without_a_price_reserves_at_the_ceiling():
    stage = Stage()
    stage.request(lambda s: s.buy(100, market="MTL"))

    assert _free(stage) == 100_000_000 - _with_fee(2_885_000)
    quote = stage.engine._state.quotes["HPG"].quote
    stage.handle(QuoteReceived(stage.now, replace(quote, ceiling=None)))
    assert _free(stage) == 100_000_000 - _with_fee(2_700_000)
