"""What a loss of the day of an account or a strategy stops, and what its repeated trades stop."""

from dataclasses import replace
from datetime import datetime, time, timedelta
from typing import Any

import pytest

from bot.domain.account import AccountSnapshot, Holding
from bot.domain.entry import (
    DAY_NOTE,
    Decision,
    Fill,
    Note,
    RunState,
    StateChanged,
    StrategySwitched,
    Verdict,
)
from bot.domain.instrument import EXCHANGE_TZ, Exchange, Instrument, Phase
from bot.domain.message import (
    CancelOrder,
    InstrumentsRead,
    PhaseChanged,
    PlaceOrder,
    QuoteReceived,
    ReadOrderToCancel,
    Reconciled,
    TradingDayStarted,
)
from bot.domain.operations import Action, OperatorActed, TradingDayEnded
from bot.domain.order import OrderState, SendState, Side
from bot.domain.outcome import Accepted, Refused
from bot.domain.plan import AccountLimits, Limits, Wake
from bot.domain.quote import ClosesRead, LastClose, Quote
from bot.domain.recovery import RecoveredStrategy, Recovery, StoredIntent
from bot.engine import belief
from bot.engine.account_state import DayTrade, Mark
from bot.engine.belief import GOOD_ANSWERS
from bot.engine.settings import EngineSettings
from tests.engine.stage import (
    ACCOUNT,
    DAY,
    HPG,
    PLAN,
    START,
    Stage,
    report_of,
    result_of,
    sell_intent,
)

LIMIT = AccountLimits(max_loss_per_day=100_000)


def staged(limits=LIMIT, plan=PLAN, **settings):
    return Stage(plan, settings=EngineSettings(account_limits=limits, **settings), cash=10**9)


def bought(stage, quantity=1_000, price=27_000):
    """A position of a thousand shares, which loses 50,000 VND with each tick."""
    intent = stage.working(quantity, price)
    stage.after(1).book(
        report_of(intent, executed=quantity, state=OrderState.FILLED, status="MATCHED")
    )
    return intent


def _asked(stage, ask):
    stage.request(ask)
    return stage.decided()


def _buy(strategy):
    strategy.buy(100, limit=26_900, why="as asked")


def _alerts(stage):
    return [n.numbers.get("alert") for n in stage.all(Note) if n.kind == "ALERT"]


def test_a_day_loss_at_the_limit_stops_entries_and_lets_sales_out():
    stage = Stage(settings=EngineSettings(account_limits=LIMIT), cash=10**9, sellable=5_000)
    bought(stage)
    stage.after(60).quote(26_950)

    assert _asked(stage, _buy)[0] is Verdict.PASSED
    stage.accept(stage.last(PlaceOrder).intent, "ORD2")
    stage.after(1).quote(26_900)
    stage.account(total=6_000)

    assert _alerts(stage) == ["ENTRIES_STOPPED"]
    assert [one.order_id for one in stage.all(CancelOrder)] or stage.engine.status().cancels
    row = report_of(stage.last(PlaceOrder).intent, "ORD2", cancelled=100)
    stage.after(1).book(replace(row, state=OrderState.CANCELLED, status="CANCELLED"))
    assert _asked(stage, _buy) == (Verdict.BLOCKED, "DAY_LOSS")
    assert _asked(stage, lambda s: s.sell(100, limit=26_900))[0] is Verdict.PASSED


@pytest.mark.parametrize(("volume", "is_lost"), [(1_000, True), (None, True), (0, False)], ids=str)
def test_a_share_is_worth_its_last_price_unless_nothing_was_traded(volume, is_lost):
    stage = Stage(settings=EngineSettings(account_limits=LIMIT), cash=10**9, is_open=False)
    stage.handle(InstrumentsRead(stage.now, (HPG,)))
    stage.phase(Phase.PROGRESS)
    stage.quote(volume=volume)
    stage.account()
    stage.handle(Reconciled(stage.now))
    bought(stage)

    stage.after(60).quote(26_850, volume=volume)
    stage.account(total=1_000)

    assert _alerts(stage) == ["ENTRIES_STOPPED"] * is_lost


def _of_an_earlier_day(volume=None, **changes):
    """A thousand shares held over night at UPCOM, whose reference is yesterday's average, and a
    way to show their quote, whose last price is still yesterday's last: 500,000 VND below it.
    """
    held = RecoveredStrategy({"HPG": (1_000, 11_000_000)}, 0, 0, 0, "on")
    recovery = Recovery(DAY, strategies={"test": held})
    settings = EngineSettings(account_limits=LIMIT)
    stage = Stage(settings=settings, cash=10**9, sellable=1_000, recovery=recovery, is_open=False)
    listed = Instrument("HPG", Exchange.UPCOM)
    stage.handle(InstrumentsRead(stage.now, (listed,)))
    stage.handle(PhaseChanged(stage.now, Exchange.UPCOM, Phase.PROGRESS, None))
    quote = Quote(
        "HPG", Exchange.UPCOM, 11_500, 12_000, 13_800, 10_200, None, None, None, volume, stage.now
    )

    def show(**changes):
        stage.after(5)
        now = replace(quote, updated_at=stage.now, **changes)
        stage.handle(QuoteReceived(stage.now, now))
        stage.account()
        return _alerts(stage)

    show(**changes)
    stage.handle(Reconciled(stage.now))
    return stage, show


@pytest.mark.parametrize("volume", [None, 0])
def test_a_last_price_of_an_earlier_day_is_no_loss_of_today(volume):
    stage, show = _of_an_earlier_day(volume)

    assert [show(), show()] == [[], []]
    assert stage.engine.status().state is RunState.RUNNING


STOPPED = ["ENTRIES_STOPPED", "LOSS_HALT"]


@pytest.mark.parametrize(
    "changes", [{"last": 11_400}, {"open": 11_500}, {"high": 11_500}, {"volume": 100}], ids=str
)
def test_a_quote_without_a_volume_counts_once_something_says_that_the_symbol_has_traded(changes):
    stage, show = _of_an_earlier_day()

    told = show(**changes)
    again = show()

    assert (told, again) == (STOPPED, STOPPED)
    assert stage.engine._state.exposure.mark_of("HPG") == Mark(11_500, 12_000)


BANDS = {
    Exchange.HOSE: (28_850, 25_150),
    Exchange.HNX: (29_700, 24_300),
    Exchange.UPCOM: (31_000, 23_000),
}


def _locked_at_the_floor(exchange, **known):
    """A thousand shares that went to the floor before the bot began, where no price moves any
    more; what their loss of 1,850,000 VND or more is told as.
    """
    ceiling, floor = BANDS[exchange]
    held = RecoveredStrategy({"HPG": (1_000, 27_000_000)}, 0, 0, 0, "on")
    recovery = Recovery(DAY, strategies={"test": held})
    settings = EngineSettings(account_limits=LIMIT)
    stage = Stage(settings=settings, cash=10**9, sellable=1_000, recovery=recovery, is_open=False)
    stage.handle(InstrumentsRead(stage.now, (Instrument("HPG", exchange),)))
    stage.handle(PhaseChanged(stage.now, exchange, Phase.PROGRESS, None))
    for name, value in known.items():
        setattr(belief.of(stage.engine._state, "HPG"), name, value)
    for reference in (27_000, None):
        band = {"reference": reference, "ceiling": ceiling, "floor": floor}
        stage.after(5).quote(floor, exchange=exchange, volume=None, **band)
        stage.account()
    return _alerts(stage)


@pytest.mark.parametrize("exchange", [Exchange.HOSE, Exchange.HNX])
@pytest.mark.parametrize("known", [{}, {"are_ex_dates_unread": True, "close": 27_000}], ids=str)
def test_another_price_than_the_last_close_is_of_today_though_it_never_moves(exchange, known):
    assert _locked_at_the_floor(exchange, **known) == STOPPED


@pytest.mark.parametrize(
    ("exchange", "known"),
    [
        (Exchange.UPCOM, {}),
        (Exchange.HOSE, {"ex_dates": frozenset({DAY})}),
        (Exchange.HOSE, {"are_ex_dates_unread": True}),
        (Exchange.HOSE, {"are_ex_dates_unread": True, "close": 27_500}),
    ],
    ids=str,
)
def test_where_the_reference_is_no_last_close_another_price_may_be_yesterdays(exchange, known):
    assert _locked_at_the_floor(exchange, **known) == []


def test_what_has_traded_on_one_day_has_not_on_the_next():
    stage, show = _of_an_earlier_day()
    show(last=12_000)
    stage.now = datetime.combine(DAY + timedelta(days=1), time(9, 30), EXCHANGE_TZ)
    stage.handle(TradingDayStarted(stage.now, DAY + timedelta(days=1)))
    stage.handle(PhaseChanged(stage.now, Exchange.UPCOM, Phase.PROGRESS, None))

    show()

    assert stage.engine._state.exposure.mark_of("HPG") == Mark(12_000, 12_000)


def test_an_own_fill_of_today_says_that_the_symbol_has_traded():
    stage, show = _of_an_earlier_day()
    bought(stage, 100, 11_500)

    show()

    assert stage.engine._state.exposure.mark_of("HPG") == Mark(11_500, 12_000)


@pytest.mark.parametrize("volume", [None, 0])
def test_a_volume_that_goes_missing_switches_no_limit_off(volume):
    stage = staged()
    bought(stage)
    for _ in range(GOOD_ANSWERS):
        stage.after(60).quote(26_900)

    for _ in range(3):
        stage.after(10).quote(26_900, volume=volume)
    stage.account(total=1_000)

    assert _alerts(stage)[-1] == "ENTRIES_STOPPED"


def test_a_share_stays_worth_its_last_price_once_a_person_accepts_a_volume_of_0():
    stage = staged()
    bought(stage)
    for _ in range(GOOD_ANSWERS):
        stage.after(60).quote(26_950)
    stage.after(10).quote(26_900, volume=0)
    stage.handle(OperatorActed(stage.now, Action.RESUME, "looked", "ann", symbol="HPG"))

    stage.after(10).quote(26_900, volume=0)
    stage.account(total=1_000)

    assert _alerts(stage) == ["HELD_DATA", "ENTRIES_STOPPED"]


def test_a_reference_that_changes_during_the_day_hides_no_loss():
    held = RecoveredStrategy({"HPG": (1_000, 27_000_000)}, 0, 0, 0, "on")
    recovery = Recovery(DAY, strategies={"test": held})
    settings = EngineSettings(account_limits=LIMIT)
    stage = Stage(settings=settings, cash=10**9, sellable=1_000, recovery=recovery)
    stage.account()
    for _ in range(GOOD_ANSWERS):
        stage.after(60).quote(26_850)

    stage.after(10).quote(26_850, reference=26_850, ceiling=28_700, floor=25_000)
    stage.account()

    assert _alerts(stage) == ["HELD_DATA", "ENTRIES_STOPPED"]


def test_entries_stay_stopped_when_the_price_comes_back_until_a_new_day():
    stage = staged()
    bought(stage)
    stage.after(60).quote(26_850)
    stage.account()
    stage.after(60).quote(27_500)

    assert _asked(stage, _buy) == (Verdict.BLOCKED, "DAY_LOSS")
    [standing] = stage.engine.status().alerts
    assert standing.startswith("REDUCING: nothing is bought until tomorrow (day loss")

    stage.now = datetime.combine(DAY + timedelta(days=1), time(8, 30), EXCHANGE_TZ)
    stage.handle(TradingDayStarted(stage.now, DAY + timedelta(days=1)))
    stage.phase(Phase.CLOSED)
    assert stage.engine.status().alerts == ()


def test_twice_the_limit_halts_the_bot_and_cancels_sales_too():
    stage = Stage(settings=EngineSettings(account_limits=LIMIT), cash=10**9, sellable=5_000)
    bought(stage)
    assert _asked(stage, lambda s: s.sell(100, limit=27_500))[0] is Verdict.PASSED
    stage.accept(stage.last(PlaceOrder).intent, "ORD2")
    stage.after(60).quote(26_750)

    stage.account(total=6_000)

    assert _alerts(stage) == ["ENTRIES_STOPPED", "LOSS_HALT"]
    assert stage.new(ReadOrderToCancel) == [
        ReadOrderToCancel("ORD2", "before cancel: halt")
    ]  # a sale, too
    status = stage.engine.status()
    assert (status.state, status.causes[0].by) == (RunState.HALTED, "limit")

    stage.handle(OperatorActed(stage.now, Action.RESUME, "looked at it", "operator"))
    assert stage.engine.status().state is RunState.REDUCING
    stage.account()
    assert stage.engine.status().state is RunState.HALTED  # the loss is as high as before
    assert _alerts(stage)[2:] == ["LOSS_HALT"]


def _lost(stage):
    """Lose more than twice the limit of the day."""
    stage.after(10).quote(25_500)
    stage.account(total=6_000)
    assert _alerts(stage)[-1] == "LOSS_HALT"


@pytest.mark.parametrize("is_on_its_way", [False, True], ids=["held", "on its way"])
def test_a_sale_that_waits_for_a_token_is_given_up_with_the_halt_by_a_loss(is_on_its_way):
    patient = replace(PLAN, hold_2fa=timedelta(hours=3))
    settings = EngineSettings(account_limits=LIMIT)
    stage = Stage(patient, settings=settings, cash=10**9, sellable=5_000)
    bought(stage)
    stage.request(lambda s: s.sell(100, limit=27_000))
    sale = stage.last(PlaceOrder).intent
    stage.send(sale)
    if is_on_its_way:
        _lost(stage)
    stage.answer(sale, Refused("OTP_SESSION_EXPIRED", "2FA", 403))
    if not is_on_its_way:
        _lost(stage)
    ended = [one for one in stage.all(Decision) if one.verdict is Verdict.EXPIRED]
    assert [(one.code, one.numbers["reason"]) for one in ended] == [("HALTED", "halted")]

    stage.token()
    stage.handle(OperatorActed(stage.now, Action.RESUME, "looked at it", "ann"))

    assert stage.last(PlaceOrder).intent is sale


def test_a_close_that_waits_is_given_up_with_the_halt_by_a_loss():
    limits = replace(LIMIT, max_orders_per_minute=1)
    stage = Stage(settings=EngineSettings(account_limits=limits), cash=10**9, sellable=5_000)
    bought(stage)
    stage.request(lambda s: s.sell(100, limit=27_000))
    first = stage.last(PlaceOrder).intent
    stage.accept(first, "ORD2")
    filled = report_of(first, "ORD2", executed=100, state=OrderState.FILLED, status="MATCHED")
    stage.after(1).book(filled)
    stage.request(lambda s: s.close(limit=27_000, why="out"))
    assert stage.decided() == (Verdict.SKIPPED, "EXIT_WAITS")

    _lost(stage)
    assert stage.last(Decision).why == "given up: halted (out)"
    stage.handle(OperatorActed(stage.now, Action.RESUME, "looked at it", "ann"))
    stage.after(61).quote(27_000)

    assert stage.last(PlaceOrder).intent is first


def test_a_fill_that_loses_too_much_stops_entries_with_it():
    stage = Stage(settings=EngineSettings(account_limits=LIMIT), cash=10**9, sellable=5_000)
    bought(stage)
    stage.request(lambda s: s.sell(1_000, limit=26_950))
    sale = stage.last(PlaceOrder).intent
    stage.accept(sale, "ORD2")

    stage.after(1).book(report_of(sale, "ORD2", executed=1_000, state=OrderState.FILLED))

    assert [n.numbers["alert"] for n in stage.new(Note) if n.kind == "ALERT"] == ["ENTRIES_STOPPED"]


@pytest.mark.parametrize("is_answered", [True, False], ids=["open", "on its way"])
def test_entries_stopped_cancel_buys_and_leave_sales(is_answered):
    stage = Stage(settings=EngineSettings(account_limits=LIMIT), cash=10**9, sellable=5_000)
    bought(stage)
    stage.request(lambda s: s.sell(100, limit=27_500))
    sale = stage.last(PlaceOrder).intent
    stage.send(sale)
    answer = Accepted(result_of(sale, "ORD2"))
    if is_answered:
        stage.answer(sale, answer)
    stage.after(60).quote(26_900)

    stage.account(total=6_000)
    if not is_answered:
        stage.answer(sale, answer)

    assert _alerts(stage) == ["ENTRIES_STOPPED"]
    assert stage.engine.status().cancels == ()


@pytest.mark.parametrize(
    ("limit", "alerts"),
    [
        (50_001, ["ENTRIES_STOPPED"]),
        (100_000, ["ENTRIES_STOPPED"]),
        (100_001, []),
        (50_000, ["ENTRIES_STOPPED", "LOSS_HALT"]),
    ],
)
def test_a_limit_is_reached_at_its_own_value_and_a_halt_at_twice_of_it(limit, alerts):
    stage = held(limits=AccountLimits(max_loss_per_day=limit))
    stage.sellable = 1_000
    stage.quote(26_900)  # 100,000 VND under the reference

    stage.account(total=1_000)

    assert _alerts(stage) == alerts


def test_what_is_left_to_lose_counts_to_the_limit_then_to_its_double_then_to_nothing():
    stage = held(limits=LIMIT)
    stage.sellable = 1_000
    left = []
    for last in (27_000, 26_950, 26_900, 26_850, 26_800):
        stage.after(60).quote(last)
        stage.account(total=1_000)
        left.append(stage.engine.passing.left_to_lose(ACCOUNT))

    assert left == [100_000, 50_000, 100_000, 50_000, None]


def test_a_part_of_the_net_assets_is_a_limit_too():
    stage = staged(AccountLimits(max_loss_nav_ppm=100))  # of 10^9: 100,000
    bought(stage)
    stage.after(60).quote(26_900)

    stage.account()

    assert _alerts(stage) == ["ENTRIES_STOPPED"]


def test_one_read_that_shows_no_money_is_no_limit_of_zero_and_halts_nothing():
    stage = staged(AccountLimits(max_loss_nav_ppm=1_000))  # of 10^9: 1,000,000
    bought(stage)
    stage.cash -= 27_040_500
    stage.after(1).account(total=1_000)
    stage.after(60).quote(26_900)
    stage.cash, cash = 0, stage.cash

    stage.after(1).account(total=1_000)
    limit = {each.key: each.allowed for each in stage.engine.limits() if each.scope == "account"}
    stage.cash = cash
    stage.after(5).account(total=1_000)

    assert limit["max_loss_per_day"] == 972_959
    assert _alerts(stage) == []
    assert stage.engine.status().state is RunState.RUNNING


def test_a_second_read_that_shows_less_money_makes_the_limit_smaller():
    stage = staged(AccountLimits(max_loss_nav_ppm=1_000))
    bought(stage)
    stage.cash -= 27_040_500
    stage.after(1).account(total=1_000)
    stage.after(60).quote(26_900)
    stage.cash = 100_000_000  # of which 100,000

    stage.after(1).account(total=1_000)
    early = _alerts(stage)
    stage.after(130).book()
    stage.account(total=1_000)

    assert early == []
    assert _alerts(stage) == ["BREAK", "ENTRIES_STOPPED"]


@pytest.mark.parametrize("net_assets", [0, 400_000_000, 3_000_000_000])
def test_net_assets_that_jump_count_once_a_second_read_shows_them(net_assets):
    stage = staged(AccountLimits(max_loss_nav_ppm=1_000))  # of 10^9: 1,000,000
    bought(stage)
    stage.cash -= 27_040_500
    stage.after(1).account(total=1_000)
    stage.after(60).quote(26_900)

    limits = []
    for each in (net_assets, None, net_assets, net_assets):
        stage.after(1).account(total=1_000, net_assets=each)
        limits += [
            one.allowed
            for one in stage.engine.limits()
            if (one.scope, one.key) == ("account", "max_loss_per_day")
        ]
        assert limits[-1] == net_assets // 1_000 or _alerts(stage) == []

    assert limits == [972_959, 972_959, 972_959, net_assets // 1_000]


def test_false_net_assets_of_before_count_no_longer_than_it_takes_to_read_the_right_ones():
    settings = EngineSettings(account_limits=AccountLimits(max_loss_nav_ppm=1_000))
    nothing = {"HPG": Holding("HPG", 0, 0, 0, 20_000)}
    base = AccountSnapshot(START - timedelta(minutes=5), ACCOUNT, 10**9, 0, nothing)
    restarted = Stage(
        settings=settings, cash=10**9, sellable=0, recovery=Recovery(DAY, bases=(base,))
    )
    new = Stage(settings=settings, cash=10**9, sellable=0, is_open=False)
    new.handle(InstrumentsRead(new.now, (HPG,)))
    new.phase(Phase.PROGRESS)
    new.account(net_assets=0)
    new.handle(Reconciled(new.now))
    new.after(15).account()
    new.quote()

    for stage in (restarted, new):
        bought(stage)

        assert _alerts(stage) == []


def test_a_doubt_about_cash_after_a_read_of_false_net_assets_halts_nothing():
    stage = staged(AccountLimits(max_loss_nav_ppm=1_000))
    bought(stage)
    stage.cash -= 27_040_500
    stage.after(1).account(total=1_000)
    stage.after(60).quote(26_900)
    stage.after(1).account(total=1_000, net_assets=0)

    stage.cash -= 500
    stage.after(60).account(total=1_000)

    assert _alerts(stage) == []


@pytest.mark.parametrize(
    ("limits", "shown"),
    [
        (AccountLimits(max_gross_nav_ppm=100_000), "max_gross_of_nav"),
        (AccountLimits(max_position_nav_ppm=100_000), "max_position_value"),
    ],
)
def test_net_assets_that_are_too_large_open_no_limit_before_a_second_read(limits, shown):
    stage = staged(limits)
    stage.after(1).account()

    allowed = []
    for net_assets in (None, 10 * stage.cash, 10 * stage.cash, stage.cash // 10):
        stage.after(1).account(net_assets=net_assets)
        allowed += [each.allowed for each in stage.engine.limits() if each.key == shown]

    assert allowed == [stage.cash // 10, stage.cash // 10, stage.cash, stage.cash // 100]


def test_an_order_is_judged_by_the_net_assets_that_count():
    stage = staged(AccountLimits(max_gross_nav_ppm=28_000))
    bought(stage)
    stage.cash -= 27_040_500
    stage.after(1).account(total=1_000)
    stage.after(60).quote(27_000)
    stage.account(total=1_000, net_assets=10 * stage.cash)

    assert _asked(stage, _buy)[:2] == (Verdict.BLOCKED, "GROSS")


def test_a_restart_keeps_entries_stopped_while_there_is_a_limit():
    kept = Recovery(DAY, reduced={ACCOUNT: "day loss"})

    limited = Stage(settings=EngineSettings(account_limits=LIMIT), recovery=kept)
    free = Stage(recovery=kept)

    assert _asked(limited, _buy) == (Verdict.BLOCKED, "DAY_LOSS")
    assert _asked(free, _buy)[0] is Verdict.PASSED


def test_fills_that_repeat_themselves_disable_the_strategy_until_a_person_resumes_it():
    stage = staged(AccountLimits(), replace(PLAN, limits=Limits(max_repeats=3)))
    for number in range(2):
        _filled(stage, f"ORD{number}", pieces=5)
    assert stage.all(StrategySwitched) == []

    _filled(stage, "ORD2", pieces=1)

    assert _alerts(stage) == ["STRATEGY_REPEATS"]
    assert [one.state for one in stage.all(StrategySwitched)] == ["disabled"]
    stage.handle(OperatorActed(stage.now, Action.RESUME, "seen", "operator", strategy="test"))
    _filled(stage, "ORD3", pieces=1)
    assert stage.engine.status().strategies[0].state == "on"


def test_a_new_day_counts_repeats_from_nothing():
    stage = staged(AccountLimits(), replace(PLAN, limits=Limits(max_repeats=3)))
    for number in range(2):
        _filled(stage, f"ORD{number}", pieces=1)
    assert stage.engine._state.strategies["test"].repeats == {("HPG", Side.BUY): 2}

    stage.after(86_400)
    stage.handle(TradingDayStarted(stage.now, DAY + timedelta(days=1)))

    assert stage.engine._state.strategies["test"].repeats == {}


def _filled(stage, order_id, pieces):
    stage.after(120).quote()
    stage.request(lambda strategy: strategy.buy(100 * pieces, limit=26_900))
    intent = stage.last(PlaceOrder).intent
    stage.accept(intent, order_id)
    for piece in range(1, pieces + 1):
        row = report_of(intent, order_id, executed=100 * piece)
        if piece == pieces:
            row = replace(row, state=OrderState.FILLED, status="MATCHED")
        stage.after(1).book(row)


def test_a_restart_goes_on_counting_repeats_flips_and_what_is_realised():
    before = staged()
    bought(before)
    [fill] = before.all(Fill)
    fills = (
        (DAY - timedelta(days=1), fill),
        (DAY, replace(fill, at=START)),
        (DAY, replace(fill, at=START + timedelta(seconds=2), side=Side.SELL, realised=-5_000)),
    )
    stored = RecoveredStrategy({"HPG": (200, 5_400_000)}, 2, -5_000, 0, "on", state_since=START)

    stage = Stage(
        recovery=Recovery(DAY, strategies={"test": stored}, recent_fills=fills), is_open=False
    )

    state = stage.engine._state
    assert state.usage.of(ACCOUNT).flips["HPG"] == 1
    assert state.exposure.of(ACCOUNT).fees == 2 * (fill.fee + fill.tax)
    assert state.exposure.of(ACCOUNT).days == {"HPG": DayTrade(200)}
    assert state.strategies["test"].days == {"HPG": DayTrade(200)}
    assert state.strategies["test"].repeats == {("HPG", Side.SELL): 1}


def test_fills_on_either_side_are_a_flip():
    stage = Stage(settings=EngineSettings(), sellable=5_000)
    bought(stage, quantity=100)
    stage.after(70).quote()
    stage.request(lambda s: s.sell(100, limit=27_000))
    sale = stage.last(PlaceOrder).intent
    stage.accept(sale, "ORD2")

    stage.after(1).book(report_of(sale, "ORD2", executed=100, state=OrderState.FILLED))

    assert stage.engine._state.usage.of(ACCOUNT).flips["HPG"] == 1


def held(shares=1_000, cost=31_000_000, fills=(), limits=LIMIT, **changes):
    """A strategy that has held shares since before today, each 4,000 VND below its cost."""
    stored = RecoveredStrategy({"HPG": (shares, cost)}, 0, 0, 0, "on")
    recovery = Recovery(DAY, strategies={"test": stored}, recent_fills=fills)
    return Stage(settings=EngineSettings(account_limits=limits, **changes), recovery=recovery)


def results(stage):
    """The day's result of the account and of its strategy, which here must agree."""
    status = stage.engine.status()
    assert -stage.engine._state.exposure.of(ACCOUNT).loss == status.day_result
    return status.day_result


def test_shares_of_earlier_days_have_lost_nothing_at_the_reference_however_dear_they_were():
    stage = held()

    stage.after(1).quote(27_000)
    at_reference = results(stage)
    stage.after(60).quote(26_950)

    assert (at_reference, results(stage)) == (0, -50_000)
    stage.account()
    assert _alerts(stage) == []


def test_a_reference_adjusted_on_an_ex_date_is_no_loss():
    stage = held()
    stage.after(1)

    stage.engine._state.exposure.mark("HPG", Mark(24_050, 24_000))

    assert results(stage) == 50_000


def test_before_the_first_trade_of_the_day_a_share_is_worth_the_reference():
    stage = held()

    stage.after(1).quote(26_500, volume=0)

    assert results(stage) == 0


def _in_the_morning(close, day=DAY - timedelta(days=1), exchange=Exchange.HOSE, **more):
    """A thousand shares held over night, at 09:05, and a way to show a reference."""
    stored = RecoveredStrategy({"HPG": (1_000, 27_000_000)}, 0, 0, 0, "on")
    recovery = Recovery(DAY, strategies={"test": stored})
    settings = EngineSettings(account_limits=LIMIT)
    stage = Stage(settings=settings, cash=10**9, sellable=1_000, recovery=recovery, is_open=False)
    stage.now = START - timedelta(minutes=25)
    stage.handle(InstrumentsRead(stage.now, (Instrument("HPG", exchange),)))
    phase = Phase.PROGRESS if exchange is Exchange.UPCOM else Phase.OPEN
    stage.handle(PhaseChanged(stage.now, exchange, phase, None))
    stage.handle(ClosesRead(stage.now, (LastClose("HPG", close, day, 10**6, **more),)))
    stage.account()
    stage.handle(Reconciled(stage.now))

    def show(reference, last=27_000, volume=None):
        band = {"ceiling": None, "floor": None, "exchange": exchange}
        stage.after(5).quote(last, reference=reference, volume=volume, **band)
        stage.account()
        return -results(stage)

    return stage, show


UNREAD = {"are_ex_dates_unread": True}


@pytest.mark.parametrize("volume", [None, 0, 5_000_000])
@pytest.mark.parametrize("more", [{}, UNREAD], ids=["read", "unread"])
def test_a_reference_of_yesterday_makes_no_loss_of_what_the_price_moved_then(volume, more):
    stage, show = _in_the_morning(27_000, **more)

    lost = [show(28_500, volume=volume) for _ in range(4)]
    lost += [show(27_000, volume=volume)]

    assert lost == [0] * 5
    assert _alerts(stage) == []
    assert stage.engine.status().state is RunState.RUNNING


def test_a_lower_reference_than_our_close_may_be_of_an_ex_date_that_nobody_told():
    _, show = _in_the_morning(27_000)

    assert show(26_500, last=26_500, volume=1_000) == 0


def test_what_a_price_falls_from_our_close_is_a_loss_whatever_the_reference():
    stage, show = _in_the_morning(27_000)

    assert [show(28_500, last=26_900), show(27_000, last=26_900)] == [100_000, 100_000]
    assert _alerts(stage) == ["ENTRIES_STOPPED"]


NO_CERTAIN_CLOSE: dict[str, dict[str, Any]] = {
    "an average": {"exchange": Exchange.UPCOM},
    "an ex-date": {"ex_dates": frozenset({DAY})},
    "an older close": {"day": DAY - timedelta(days=2)},
    "not a reference": {"is_reference": False},
}


@pytest.mark.parametrize("why", NO_CERTAIN_CLOSE)
def test_where_no_close_is_certain_a_higher_reference_counts_once_it_is_shown_twice(why):
    stage, show = _in_the_morning(27_000, **NO_CERTAIN_CLOSE[why])

    once = [show(28_000, volume=1_000), show(27_000, volume=1_000), show(28_000, volume=1_000)]
    told = _alerts(stage)
    twice = show(28_000, volume=1_000)

    assert (once, told) == ([0, 0, 0], [])
    assert twice == 1_000_000


def test_a_reference_shown_yesterday_is_not_one_shown_twice_today():
    stage, show = _in_the_morning(27_000, exchange=Exchange.UPCOM)
    show(28_000)
    stage.handle(TradingDayStarted(stage.now, DAY + timedelta(days=1)))
    assert belief.of(stage.engine._state, "HPG").shown_reference is None


def test_without_a_reference_of_today_nothing_is_counted_and_it_is_said():
    stage = held()
    state = stage.engine._state
    state.exposure.begin_day()

    assert results(stage) == 0
    [said] = stage.engine.status().alerts
    assert said.startswith("today's reference is not known for HPG: the day's result leaves it out")
    stage.after(60).quote(26_950)
    assert (results(stage), stage.engine.status().alerts) == (-50_000, ())


def test_a_symbol_that_no_strategy_trades_any_more_is_said_to_be_left_out_of_the_days_result():
    before = staged()
    bought(before)
    sold = replace(before.all(Fill)[0], side=Side.SELL, symbol="FPT")
    stored = RecoveredStrategy({"SSI": (100, 2_000_000)}, 1, 0, 0, "on")
    recovery = Recovery(DAY, strategies={"test": stored}, recent_fills=((DAY, sold),))

    stage = Stage(recovery=recovery)

    [said] = [one for one in stage.engine.status().standing if one.code == "DAY_RESULT"]
    left_out = "today's reference is not known for FPT, SSI: the day's result leaves it out"
    assert said.text.startswith(f"{left_out}. No strategy of this run trades it, so its quotes")
    assert said.facts == {"symbols": "FPT, SSI", "is_quoted": False}
    assert _alerts(stage) == ["SYMBOL_LEFT"]


def test_a_fall_is_counted_from_the_reference_known_when_a_quote_brings_none():
    stage = held()
    stage.after(60).quote(26_950)

    seen = stage.engine._state.quotes["HPG"].quote
    without = replace(seen, last=26_900, reference=None)
    stage.handle(QuoteReceived(stage.after(1).now, without))

    assert results(stage) == -100_000


def test_a_quote_while_closed_says_nothing_about_the_new_day():
    stage = staged()
    bought(stage)
    stage.after(60).quote(26_950)
    stage.handle(TradingDayStarted(stage.now, DAY + timedelta(days=1)))
    stage.phase(Phase.CLOSED)

    stage.after(60).quote(26_850)

    assert results(stage) == 0
    assert stage.engine._state.exposure.of(ACCOUNT).days == {"HPG": DayTrade(1_000)}


def test_a_restart_during_the_day_tells_what_was_there_at_its_start():
    before = staged()
    bought(before)
    [fill] = before.all(Fill)
    stage = held(1_500, 45_000_000, fills=((DAY, replace(fill, quantity=1_000)),))

    stage.after(60).quote(26_950)

    assert stage.engine._state.strategies["test"].days == {"HPG": DayTrade(500, 1_000, 27_000_000)}
    assert stage.engine._state.exposure.of(ACCOUNT).result == -75_000


def _beside_gone(beside=(), **recovered):
    """The stage's strategy with 1,000 shares of before, after a restart during the day; another
    one, "gone", has traded too. Since then the price has fallen by 1,000.
    """
    mine = RecoveredStrategy({"HPG": (1_000, 27_000_000)}, 0, 0, 0, "on")
    others = {name: RecoveredStrategy(*held) for name, held in recovered.pop("held").items()}
    recovery = Recovery(DAY, 2, 2, strategies={"test": mine, **others}, **recovered)
    stage = Stage(settings=EngineSettings(account_limits=LIMIT), recovery=recovery, beside=beside)
    stage.after(60).quote(26_000)
    return stage


@pytest.mark.parametrize("beside", [(replace(PLAN, name="gone"),), ()], ids=["runs", "gone"])
def test_a_sale_of_a_strategy_that_runs_no_more_is_not_of_the_shares_of_another(beside):
    before = staged()
    bought(before)
    sold = replace(before.all(Fill)[0], side=Side.SELL, strategy="gone")

    sold_all: Any = {"gone": ({}, 1, 0, 40_500, "on")}
    stage = _beside_gone(beside, held=sold_all, recent_fills=((DAY, sold),))

    worth = stage.engine._state.exposure.of(ACCOUNT)
    assert worth.days == {"HPG": DayTrade(2_000, -1_000, -27_000_000)}
    assert worth.loss == 1_000_000 + sold.fee + sold.tax
    stage.account(total=1_000)
    assert _alerts(stage) == STOPPED


def test_shares_that_a_strategy_that_runs_no_more_may_yet_sell_count_before_and_after():
    before = staged()
    sale = replace(sell_intent(before.working(1_000)), strategy="gone")
    row = replace(before.entries_of_order(), side=Side.SELL, strategy="gone")
    asked = StoredIntent(sale, SendState.ACKED, "ORD1", None)
    lost = replace(asked, state=SendState.AMBIGUOUS, order_id=None)
    still = {"gone": ({"HPG": (1_000, 27_000_000)}, 1, 0, 0, "on")}

    stage = _beside_gone(held=still, intents=(asked,), orders=(row,))
    unanswered = _beside_gone(held=still, intents=(lost,))
    of_earlier = _beside_gone(held=still, orders=(row,))

    stages = (stage, unanswered, of_earlier)
    worths = [one.engine._state.exposure.of(ACCOUNT) for one in stages]
    assert [worth.loss for worth in worths] == [2_000_000] * 3
    stage.book(report_of(sale, executed=1_000, state=OrderState.FILLED, status="MATCHED"))
    [sold] = stage.all(Fill)
    assert worths[0].loss == 1_000_000 + sold.fee + sold.tax


def test_what_is_sold_of_both_counts_from_the_reference_and_from_what_it_cost_today():
    day = DayTrade(1_000)
    before = staged()
    bought(before)
    [fill] = before.all(Fill)

    day.take(fill)  # 1,000 at 27,000
    day.take(replace(fill, side=Side.SELL, quantity=1_500, amount=1_500 * 26_000))

    # 1,000 from 28,000 to 26,000; 500 of today to 26,000; 500 are worth 27,500
    mark = Mark(27_500, 28_000)
    assert day.result(mark) == 500 * 27_500 + 39_000_000 - 28_000_000 - 27_000_000


def test_shares_moved_in_from_elsewhere_change_no_result_and_count_from_the_reference_when_sold():
    stage = held()
    stage.after(60).quote(26_950)
    stage.account(total=9_000)
    day = DayTrade()
    before = staged()
    bought(before)
    [fill] = before.all(Fill)

    day.take(replace(fill, side=Side.SELL))

    assert results(stage) == -50_000
    assert day == DayTrade(0, -1_000, -27_000_000)
    assert day.result(Mark(26_950, 26_900)) == 27_000_000 - 1_000 * 26_900


def test_a_strategy_paused_by_its_limit_yesterday_is_on_after_a_restart():
    yesterday = START - timedelta(days=1)
    paused = RecoveredStrategy({}, 0, 0, 0, "paused", "loss", "limit", yesterday)

    stage = Stage(recovery=Recovery(DAY, strategies={"test": paused}), is_open=False)
    same_day = Stage(
        recovery=Recovery(DAY, strategies={"test": replace(paused, state_since=START)}),
        is_open=False,
    )

    assert stage.engine.status().strategies[0].state == "on"
    assert same_day.engine.status().strategies[0].state == "paused"


def _only_sells(**more):
    """A strategy that has sold 100 of its 1,000 shares at a loss over its limit."""
    stage = Stage(replace(PLAN, limits=Limits(max_loss_per_day=100_000)), sellable=1_000, **more)
    bought(stage)
    stage.after(60).quote(26_900)
    stage.request(lambda s: s.sell(100, limit=26_900))
    intent = stage.last(PlaceOrder).intent
    stage.accept(intent, "ORD2")
    stage.after(1).book(
        report_of(intent, "ORD2", executed=100, state=OrderState.FILLED, status="MATCHED")
    )
    return stage


def test_a_strategy_that_its_own_loss_has_paused_is_woken_to_sell_the_rest():
    stage = _only_sells()

    assert [one.by for one in stage.new(StrategySwitched)] == ["limit"]
    [shown] = stage.engine.status().strategies
    reason = "only sells until tomorrow (day loss 147,225 VND of 100,000)"
    assert (shown.state, shown.reason) == ("paused", reason)
    assert _asked(stage, lambda s: s.buy(100, limit=26_900)) == (Verdict.BLOCKED, "PAUSED")
    assert stage.last(Decision).numbers["reason"] == f"test is paused: {reason}"
    assert _asked(stage, lambda s: s.close(limit=26_900)) == (Verdict.PASSED, "OK")
    assert stage.engine.reason_not_to_send(stage.last(PlaceOrder).intent) is None


def test_what_only_sells_and_lacks_its_bars_says_that_it_waits():
    heard = []
    minute = replace(PLAN, wake=Wake(bar=timedelta(minutes=1)), limits=Limits(max_loss_per_day=1))
    stage = Stage(minute, hooks={"warm_up": 5, "on_bar": lambda _, bar: heard.append(bar)})
    bought(stage)
    stage.after(1).quote(26_900)
    _asked(stage, _buy)
    assert stage.engine.status().strategies[0].state == "paused"

    stage.after(60).quote(26_900)

    assert stage.decided() == (Verdict.SKIPPED, "WARMING")
    assert "WARMING_POSITION" in _alerts(stage)


def _pause(stage):
    stage.handle(
        OperatorActed(stage.now, Action.PAUSE, "I look at it", "operator", strategy="test")
    )


def _refuse(stage):
    for count in range(3):
        stage.after(70).quote(26_900)
        stage.request(lambda s: s.sell(100, limit=26_900))
        intent = stage.last(PlaceOrder).intent
        stage.send(intent)
        stage.answer(intent, Refused("-900017", f"no {count}", 200))


@pytest.mark.parametrize(("stop", "by"), [(_pause, "operator"), (_refuse, "engine")])
def test_whom_its_loss_lets_only_sell_a_person_or_three_refusals_silence_for_good(stop, by):
    stage = _only_sells()

    stop(stage)

    assert [(one.state, one.by) for one in stage.all(StrategySwitched)][1:] == [("paused", by)]
    stage.after(70).quote(26_900)
    assert stage.request(lambda s: s.close(limit=26_900)) == []
    stage.after(86_400).handle(TradingDayStarted(stage.now, DAY + timedelta(days=1)))
    assert stage.engine.status().strategies[0].state == "paused"


def test_a_pause_that_ends_with_the_day_waits_for_nobody():
    stage = _only_sells()

    stage.after(20_000).phase(Phase.CLOSED)
    stage.handle(TradingDayEnded(stage.now, DAY))
    stage.after(60_000).handle(TradingDayStarted(stage.now, DAY + timedelta(days=1)))

    [summary] = [one for one in stage.entries if isinstance(one, Note) and one.kind == DAY_NOTE]
    assert "test is paused" not in summary.text
    assert stage.engine.status().strategies[0].state == "on"


def test_a_stop_of_entries_wakes_strategies_which_may_sell():
    stage = Stage(sellable=1_000)
    bought(stage)
    pause = OperatorActed(stage.now, Action.PAUSE, "enough", "operator", entries_only=True)
    stage.handle(pause)

    assert _asked(stage, _buy) == (Verdict.BLOCKED, "REDUCING")
    assert _asked(stage, lambda s: s.close(limit=27_000)) == (Verdict.PASSED, "OK")


def test_a_stop_of_entries_is_journalled_under_a_scope_of_its_own():
    stage = staged()
    bought(stage)
    stage.after(60).quote(26_900)
    stage.account()

    found = [one for one in stage.all(StateChanged) if one.scope.startswith("entries:")]

    assert [(one.scope, one.to_state) for one in found] == [(f"entries:{ACCOUNT}", RunState.HALTED)]
