from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest

from bot.domain.account import AccountSnapshot, Holding
from bot.domain.entry import HOLDS_NOTE, Decision, Fill, Note, Verdict
from bot.domain.instrument import Exchange, Phase
from bot.domain.message import (
    AccountRead,
    InstrumentsRead,
    PlaceOrder,
    QuoteReceived,
    ReadAccount,
    Reconciled,
    TradingDayStarted,
)
from bot.domain.operations import AmendAsked, EarlierOrdersRead
from bot.domain.order import OrderState, SendState, Side
from bot.domain.outcome import Accepted, Unknown
from bot.domain.plan import AccountLimits
from bot.domain.recovery import RecoveredStrategy, Recovery
from bot.engine.risk.accounts import means_of, note_holdings
from bot.engine.settings import EngineSettings
from bot.engine.state import Position
from tests.engine.plain_scan import differences
from tests.engine.stage import ACCOUNT, DAY, HPG, RULEBOOK, START, Stage, report_of, result_of


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


@pytest.mark.parametrize("limit", [27_000, None])
def test_an_open_buy_made_elsewhere_reserves_its_money_too(limit):
    stage = Stage()
    stage.quote(27_000)
    other = replace(Stage().buy(500, 27_000), limit_price=limit)
    price = limit or 28_850  # the ceiling

    stage.after(1).book(report_of(other, "APP1"))
    assert _free(stage) == 100_000_000 - _with_fee(500 * price)
    assert stage.engine._state.index.reserved.of(ACCOUNT) == 0
    assert not differences(stage.engine._state)

    rest = _with_fee(300 * price) + _with_fee(200 * 27_000)
    stage.after(1).book(report_of(other, "APP1", executed=200))
    assert _free(stage) == 100_000_000 - rest

    elsewhere = replace(other, account="another account")
    stage.after(1).book(report_of(elsewhere, "APP2"))
    assert _free(stage) == 100_000_000 - rest


def test_a_lost_buy_and_a_row_that_may_be_it_reserve_their_money_once():
    stage = Stage()
    intent = stage.buy(1_000, 27_000)
    stage.send(intent)
    stage.after(1).answer(intent, Unknown("timeout"))
    rows = [report_of(intent, each, placed_at=stage.now) for each in ("ORD7", "ORD8")]

    stage.after(5).book(*rows)

    assert stage.engine._state.intents[intent.intent_id].state is SendState.AMBIGUOUS
    assert _free(stage) == 100_000_000 - 2 * _with_fee(27_000_000)


def test_a_buy_beside_cash_in_doubt_is_deducted_once():
    stage = Stage(cash=100_000_000)
    stage.after(20).account()
    stage.cash -= 1
    stage.after(20).account()
    assert stage.engine.reconciliation().doubts
    stage.quote()
    intent = stage.working(2_000, 27_000)

    stage.after(1).book(report_of(intent, executed=2_000, state=OrderState.FILLED))

    assert _free(stage) == 99_999_999 - _with_fee(54_000_000)


@pytest.mark.parametrize(("shown", "counts"), [(100_000_000, 10_000_000), (15_000_000, 15_000_000)])
def test_cash_that_has_more_than_doubled_counts_once_a_second_read_shows_it(shown, counts):
    stage = Stage(cash=10_000_000)
    for _ in range(2):
        stage.after(20).account()

    stage.cash = shown
    stage.after(20).account()
    assert _free(stage) == counts

    stage.after(60).book()
    stage.after(20).account()
    assert _free(stage) == shown


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


NOON = datetime(2026, 11, 23, 5, 59, 50, tzinfo=UTC)
"""Ten seconds before what was traded on the Thursday settles, on its second trading day."""


def _begin_day(stage, day, total):
    stage.now = datetime(2026, 11, day, 1, 35, tzinfo=UTC)
    stage.handle(TradingDayStarted(stage.now, date(2026, 11, day)))
    stage.handle(EarlierOrdersRead(stage.now, ()))
    stage.book()
    stage.account(total)
    stage.handle(Reconciled(stage.now))


def _sold(*, is_delivered):
    """A bot that has sold 1,000 HPG two days ago, and what that brought; now it is noon."""
    stage = _holding(1_000, sellable=1_000, cash=50_000_000)
    stage.request(lambda s: s.sell(1_000, limit=27_000))
    intent = stage.last(PlaceOrder).intent
    stage.accept(intent)
    stage.after(2).book(report_of(intent, executed=1_000))
    stage.sellable = 0
    for day in (20, 23):
        _begin_day(stage, day, 0)
    proceeds = stage.engine.balances()[0].due[0].cash
    stage.cash += proceeds if is_delivered else 0
    stage.now = NOON
    stage.book()
    stage.account(0)
    return stage, proceeds


def _bought(*, is_delivered, at=NOON):
    """The same of a bot that has bought 1,000 HPG then, and another 1,000 today."""
    stage = Stage(cash=500_000_000)

    def buy(order_id, **row):
        intent = stage.buy(1_000, 27_000)
        stage.accept(intent, order_id)
        filled = report_of(intent, order_id, executed=1_000, state=OrderState.FILLED, **row)
        stage.after(2).book(filled)
        stage.cash -= _with_fee(27_000_000)
        return filled

    buy("ORD1")
    for day in (20, 23):
        _begin_day(stage, day, 1_000)
    stage.phase(Phase.PROGRESS)
    stage.quote()
    second = buy("ORD2", trading_date=date(2026, 11, 23))
    stage.sellable = 1_000 if is_delivered else 0
    stage.now = at
    stage.book(second)
    stage.account(2_000)
    return stage


def _settle(stage):
    stage.pass_time(10)
    stage.quote(updated_at=stage.now)


def test_money_that_was_delivered_at_noon_is_not_spent_twice_at_13_00():
    stage, proceeds = _sold(is_delivered=True)
    assert _free(stage) == 50_000_000 + proceeds

    _settle(stage)

    assert _free(stage) == 50_000_000 + proceeds
    [balance] = stage.engine.balances()
    assert (balance.cash, balance.buying_power) == (balance.broker_cash, balance.broker_cash)
    stage.request(lambda s: s.buy(3_500, limit=27_000))
    assert stage.decided() == (Verdict.BLOCKED, "CASH")
    stage.after(1).account(0)
    assert _free(stage) == 50_000_000 + proceeds


def test_money_that_had_certainly_not_come_by_then_is_spent_from_13_00():
    stage, proceeds = _sold(is_delivered=False)
    assert _free(stage) == 50_000_000

    _settle(stage)

    assert _free(stage) == 50_000_000 + proceeds


def test_money_of_which_no_read_says_whether_it_has_come_counts_from_the_next_read():
    stage, proceeds = _sold(is_delivered=False)
    stage.cash += 1_000_000  # more than before, and not what is due
    stage.after(1).account(0)

    stage.pass_time(9)
    assert _free(stage) == 51_000_000

    stage.cash += proceeds
    stage.after(1).account(0)
    assert _free(stage) == 51_000_000 + proceeds


@pytest.mark.parametrize("is_delivered", [True, False])
def test_shares_are_sold_once_from_13_00_be_they_delivered_at_noon_or_certainly_not(is_delivered):
    stage = _bought(is_delivered=is_delivered)
    assert _means(stage).sellable == (1_000 if is_delivered else 0)

    _settle(stage)
    stage.request(lambda s: s.close(limit=27_000))

    assert stage.last(PlaceOrder).intent.quantity == 1_000


@pytest.mark.parametrize("whose", ["ours", "ours, without an answer yet", "the owner's"])
def test_shares_of_which_a_working_sell_hides_whether_they_have_come_wait_for_the_next_read(whose):
    stage = _bought(is_delivered=True)
    stage.phase(Phase.PROGRESS)
    stage.quote(updated_at=stage.now)
    if whose == "the owner's":
        elsewhere = replace(stage.last(PlaceOrder).intent, side=Side.SELL, limit_price=28_000)
        stage.book(report_of(elsewhere, "ORD3", trading_date=date(2026, 11, 23)))
    else:
        stage.request(lambda s: s.sell(1_000, limit=28_000))
        stage.send(stage.last(PlaceOrder).intent)
    if whose == "ours":
        stage.answer(sale := stage.last(PlaceOrder).intent, Accepted(result_of(sale, "ORD3")))
    stage.sellable = 0  # as little as before the delivery
    stage.after(1).account(2_000)
    if whose == "ours, without an answer yet":
        stage.answer(sale := stage.last(PlaceOrder).intent, Accepted(result_of(sale, "ORD3")))

    _settle(stage.after(-1))
    assert _means(stage).sellable == 0

    stage.sellable = 1_000  # more has come, from elsewhere
    stage.after(1).account(2_000)
    assert _means(stage).sellable == 1_000


def test_an_unexplained_difference_makes_no_base_of_what_was_delivered_at_noon():
    stage = _bought(is_delivered=True, at=NOON - timedelta(minutes=5))
    stage.cash += 1_000_000
    for _ in range(3):
        stage.after(100).book(*stage.engine._state.set_aside[ACCOUNT].reports)
        stage.account(2_000)
    assert len(_breaks(stage)) == 1

    _settle(stage)

    assert _means(stage).sellable == 1_000


def test_the_account_is_read_at_a_settlement_until_its_figures_are_of_after_it():
    stage, _ = _sold(is_delivered=True)
    settles = NOON + timedelta(seconds=10)
    assert stage.due() == settles

    stage.pass_time(10)
    assert stage.new(ReadAccount) == [ReadAccount("a settlement")]
    stage.pass_time(1)
    assert stage.new(ReadAccount) == []
    stage.pass_time(14)
    assert stage.new(ReadAccount) == [ReadAccount("a settlement")]
    stage.account(0)
    stage.pass_time(15)

    assert stage.new(ReadAccount) == []
    assert stage.engine.next_due() is None


def test_a_bot_that_was_started_since_reads_the_account_at_the_settlement_too():
    bought = Stage()
    bought.after(1).book(report_of(bought.working(200, 27_000), executed=200))
    fill = bought.last(Fill)
    held = {"HPG": Holding("HPG", 200, 0, 200, 27_000)}
    base = AccountSnapshot(fill.at + timedelta(seconds=1), ACCOUNT, 94_000_000, 94_000_000, held)
    today = NOON.date()

    stage = Stage(
        recovery=Recovery(today, recent_fills=((DAY, fill),), bases=(base,)), is_open=False
    )

    assert stage.due() == NOON + timedelta(seconds=10)
    stage.now = NOON
    assert ReadAccount("a settlement") in stage.pass_time(10)


def test_an_account_that_is_not_answered_is_asked_for_because_of_a_settlement_for_a_minute():
    stage, _ = _sold(is_delivered=True)

    for _ in range(20):
        stage.pass_time(10)

    asked = [one for one in stage.commands if one == ReadAccount("a settlement")]
    assert (len(asked), stage.engine.next_due()) == (3, None)


BLOCKED = "blocked by a sale that has just ended: the account is read again"


def _resting_sale(*, is_in_figures):
    """A sale of all 300 HPG that works, and figures of the account from before it or of since."""
    stage = _holding(300, sellable=300)
    stage.request(lambda s: s.sell(300, limit=28_000))
    intent = stage.last(PlaceOrder).intent
    stage.accept(intent)
    stage.sellable = 0
    if is_in_figures:
        stage.after(20).account(300)
    return stage, intent


def _end(stage, intent, executed=0, state=OrderState.CANCELLED):
    ended = report_of(intent, executed=executed, cancelled=300 - executed, state=state)
    return stage.after(5).book(ended)


@pytest.mark.parametrize("end", [OrderState.CANCELLED, OrderState.EXPIRED])
def test_a_sale_that_ends_has_the_account_read_if_its_figures_lack_the_shares(end):
    stage, intent = _resting_sale(is_in_figures=True)

    _end(stage, intent, executed=100, state=end)
    assert ReadAccount("L-0001 has ended, its shares are free") in stage.done
    stage.quote()
    stage.request(lambda s: s.close())
    decision = stage.last(Decision)
    assert (decision.code, decision.why.split(" (")[0]) == ("NOT_SETTLED", BLOCKED)

    stage.sellable = 200
    stage.after(1).account()
    assert not stage.new(ReadAccount)
    assert _means(stage).sellable == 200
    assert not stage.engine._state.reconciling.ended_sales


def test_the_account_is_read_once_more_after_a_read_that_a_sale_s_end_has_overtaken():
    stage, intent = _resting_sale(is_in_figures=False)
    stage.book(report_of(replace(intent, side=Side.BUY, limit_price=26_000), "APP1"))
    asked_at = stage.after(20).now
    _end(stage, intent)
    assert not stage.new(ReadAccount)

    late = Holding("HPG", 300, 0, 0, 20_000)
    stage.handle(
        AccountRead(
            stage.now, AccountSnapshot(asked_at, ACCOUNT, stage.cash, stage.cash, {"HPG": late})
        )
    )

    assert stage.new(ReadAccount) == [ReadAccount("a sale has ended, its shares are free")]
    stage.sellable = 300
    stage.after(1).account()
    assert not stage.new(ReadAccount)
    assert _means(stage).sellable == 300


def test_a_sale_that_the_figures_do_not_know_or_that_sold_all_frees_nothing():
    unknown, sale = _resting_sale(is_in_figures=False)
    _end(unknown, sale)
    assert not unknown.new(ReadAccount)
    assert _means(unknown).sellable == 300

    filled, sale = _resting_sale(is_in_figures=True)
    _end(filled, sale, executed=300, state=OrderState.FILLED)
    assert filled.new(ReadAccount) == [ReadAccount("fill F-0001")]


def test_a_buy_that_ends_frees_no_shares():
    stage = Stage()
    intent = stage.working(300, 26_900)
    stage.after(20).account()

    _end(stage, intent)

    assert not stage.new(ReadAccount)


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
    assert _free(stage) == 100_000_000 - _with_fee(2_885_000)
    stage.engine._state.beliefs["HPG"].frame = None
    assert _free(stage) == 100_000_000 - _with_fee(2_700_000)


OF_NET_ASSETS = AccountLimits(max_gross_nav_ppm=200_000, max_loss_nav_ppm=15_000)


def _allowed(base, *reads):
    """What a start with this base allows after each read: bought in all, and lost in a day."""
    known = AccountSnapshot(START - timedelta(hours=1), ACCOUNT, 100_000_000, base or 0, {})
    recovery = Recovery(DAY, bases=() if base is None else (known,))
    settings = EngineSettings(account_limits=OF_NET_ASSETS)
    stage = Stage(settings=settings, recovery=recovery, is_open=False)
    allowed = []
    for each in reads:
        stage.after(15).account(net_assets=each)
        limits = {one.key: one.allowed for one in stage.engine.limits() if one.scope == "account"}
        allowed.append((limits["max_gross_of_nav"], limits["max_loss_per_day"]))
    return allowed


def test_the_first_net_assets_of_a_run_open_no_limit_before_a_second_read():
    right, large = 100_000_000, 1_000_000_000
    of_right, of_large = (20_000_000, 1_500_000), (200_000_000, 15_000_000)

    assert _allowed(right, large, right, large) == [of_right] * 3
    assert _allowed(right, right, large, right) == [of_right] * 3
    assert _allowed(right, large, large) == [of_right, of_large], "it was paid in"
    assert _allowed(right, 2 * right + 1)[0] == of_right
    assert _allowed(right, 2 * right)[0] == (40_000_000, 3_000_000)
    assert _allowed(large, right) == [of_right], "a fall counts at once"
    for none in (0, -1, None):
        assert _allowed(none, large) == [of_large], "nothing is known that speaks against it"


def test_a_first_read_whose_net_assets_are_too_large_lets_no_order_out():
    known = AccountSnapshot(START - timedelta(hours=1), ACCOUNT, 100_000_000, 100_000_000, {})
    settings = EngineSettings(account_limits=OF_NET_ASSETS)
    stage = Stage(settings=settings, recovery=Recovery(DAY, bases=(known,)), is_open=False)
    stage.handle(InstrumentsRead(stage.now, (HPG,)))
    stage.phase(Phase.PROGRESS)
    stage.account(net_assets=1_000_000_000)
    stage.handle(Reconciled(stage.now))
    stage.quote()

    stage.request(lambda s: s.buy(2_000, limit=27_000, why="54 of 100 million"))

    assert stage.decided() == ("BLOCKED", "GROSS")


@pytest.mark.parametrize(
    ("exchange", "held"),
    [
        (None, ["FPT 100, no price", "HPG 100, unrealised +100,000", "HPG 200 of gone"]),
        (Exchange.HOSE, ["HPG 100, unrealised +100,000", "HPG 200 of gone"]),
        (Exchange.HNX, []),
    ],
)
def test_what_is_held_is_named_also_where_its_price_is_not_known_or_its_strategy_does_not_run(
    exchange, held
):
    strategies = {
        "test": RecoveredStrategy(
            {"HPG": (100, 2_600_000), "FPT": (100, 9_000_000)}, 0, 0, 0, "on"
        ),
        "gone": RecoveredStrategy({"HPG": (200, 5_400_000), "SSI": (0, 0)}, 0, 0, 0, "on"),
    }
    stage = Stage(recovery=Recovery(DAY, strategies=strategies), sellable=300)

    note_holdings(stage.engine._state, exchange)
    stage.quote()

    words = " · ".join(held).replace("of gone", "of gone, which does not run")
    notes = [note.text for note in stage.all(Note) if note.kind == HOLDS_NOTE]
    assert notes == ([f"still open: {words}"] if held else [])
