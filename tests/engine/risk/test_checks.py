from dataclasses import replace
from datetime import time, timedelta

import pytest

from bot.config.limits import AccountSection, LimitsSection
from bot.config.settings.model import RiskSettings
from bot.domain.entry import CheckResult, Decision, IntentRecorded, StrategySwitched, Verdict
from bot.domain.instrument import Exchange, Instrument, InstrumentKind, Phase
from bot.domain.message import InstrumentsRead, PlaceOrder
from bot.domain.order import OrderState, OrderType, SendState, Side
from bot.domain.plan import Limits, StrategyMode, When
from bot.domain.quote import Quote
from bot.domain.status import Administration, Sanction, SymbolStatus
from bot.engine.risk.checks import judge
from bot.engine.risk.codes import CODES, short_money
from bot.engine.risk.sizing import OrderRequest
from bot.engine.risk.view import Opposite, View
from bot.engine.state import tighter
from tests.engine.risk import account_rows
from tests.engine.stage import HPG, PLAN, RULEBOOK, START, Stage, limited, report_of
from tests.rows import every_row

REQUEST = OrderRequest("test", "A.1", "HPG", Side.BUY, 100, OrderType.LO, 27_000, "why")
SELL = replace(REQUEST, side=Side.SELL)
MARKET = replace(REQUEST, order_type=OrderType.MTL, limit_price=None)
QUOTE = Quote("HPG", Exchange.HOSE, 27_000, 27_000, 28_850, 25_150, None, None, None, 0, None)
VIEW = View(
    at=START,
    rulebook=RULEBOOK,
    state="RUNNING",
    is_gate_open=True,
    instrument=HPG,
    symbol_halt=None,
    held_data=None,
    phase=Phase.PROGRESS,
    available=None,
    when=When(),
    quote=QUOTE,
    quote_age=timedelta(seconds=3),
    quote_age_max=timedelta(seconds=10),
    price=27_000,
    position=0,
    orders_today=0,
    loss_today=0,
    cash_free=100_000_000,
    sellable=1_000,
    twin=None,
    opposites=(),
    unknown_in_account=0,
    unknown_in_account_max=1,
    unknown=0,
    unknown_max=2,
)
NO_LIMITS = Limits()
FAR = (Opposite("L-0001", 26_900),)
HABIT = (540_000, 540_000, 540_000, 10**9, 1)
"""The median of these is a fifth of what REQUEST is worth."""
UPCOM = Instrument("VGI", Exchange.UPCOM)
RESTRICTED = SymbolStatus(Administration.RES)
SUSPENDED = SymbolStatus(sanction=Sanction.SUS)
WARNED = SymbolStatus(Administration.WFR)

REFUSED = [
    ("GATE", REQUEST, {"is_gate_open": False}, {}),
    ("SYMBOL", REQUEST, {"instrument": None}, {}),
    ("SYMBOL", REQUEST, {"instrument": Instrument("CW", Exchange.UPCOM, InstrumentKind.CW)}, {}),
    ("SYMBOL_HALTED", REQUEST, {"symbol_halt": "drift"}, {}),
    ("SYMBOL_HALTED", REQUEST, {"instrument": replace(HPG, status=RESTRICTED)}, {}),
    ("SYMBOL_HALTED", REQUEST, {"instrument": replace(HPG, status=SUSPENDED)}, {}),
    ("HELD_DATA", REQUEST, {"held_data": ("a price off tick", {"price": 27_010})}, {}),
    ("PHASE", REQUEST, {"phase": Phase.BREAK}, {}),
    ("PHASE", REQUEST, {"phase": Phase.CLOSED}, {}),
    ("PHASE", REQUEST, {"when": When(phases=frozenset({Phase.OPEN}))}, {}),
    ("WINDOW", REQUEST, {"when": When(start=time(9, 31))}, {}),
    ("WINDOW", REQUEST, {"when": When(end=time(9, 30))}, {}),
    ("ORDER_TYPE", replace(MARKET, order_type=OrderType.ATO), {}, {}),
    ("ORDER_TYPE", replace(MARKET, order_type=OrderType.MAK), {}, {}),
    ("ORDER_TYPE", MARKET, {"available": frozenset({OrderType.LO})}, {}),
    ("ORDER_TYPE", MARKET, {"available": frozenset()}, {}),
    ("ORDER_TYPE", MARKET, {"instrument": UPCOM}, {}),
    ("LOT", replace(REQUEST, quantity=150), {}, {}),
    ("LOT", replace(REQUEST, quantity=0), {}, {}),
    ("LOT", replace(REQUEST, quantity=-100), {}, {}),
    ("ODD_LOT", replace(MARKET, quantity=50), {}, {}),
    ("MAX_QUANTITY", replace(REQUEST, quantity=500_100), {}, {}),
    ("PRICE", replace(REQUEST, limit_price=0), {}, {}),
    ("PRICE", replace(REQUEST, limit_price=None), {}, {}),
    ("PRICE", replace(MARKET, limit_price=27_000), {}, {}),
    ("TICK", replace(REQUEST, limit_price=27_010), {}, {}),
    ("BAND", replace(REQUEST, limit_price=28_900), {}, {}),
    ("BAND", replace(REQUEST, limit_price=25_100), {}, {}),
    ("BAND", REQUEST, {"quote": replace(QUOTE, floor=None)}, {}),
    ("BAND", MARKET, {"quote": replace(QUOTE, ceiling=None)}, {}),
    ("BAND", REQUEST, {"quote": None}, {}),
    ("QUOTE_AGE", REQUEST, {"quote_age": timedelta(seconds=11)}, {}),
    ("PRICE_GAP", replace(REQUEST, limit_price=27_550), {}, {"max_price_gap_ppm": 20_000}),
    ("MAX_ORDER_VALUE", REQUEST, {}, {"max_order_value": 2_699_999}),
    ("MAX_POSITION", REQUEST, {"position": 901}, {"max_position": 1_000}),
    ("UNIT_SLIP", replace(REQUEST, limit_price=27_000_000), {}, {}),
    ("UNIT_SLIP", replace(SELL, limit_price=27), {}, {}),
    ("UNIT_SLIP", replace(REQUEST, limit_price=337_500), {}, {}),
    ("UNIT_SLIP", replace(REQUEST, limit_price=202_500), {}, {}),
    ("FAT_FINGER", replace(REQUEST, quantity=200), {"recent_buys": HABIT}, {"max_times_median": 5}),
    ("CAPITAL", REQUEST, {"invested": 7_300_001}, {"capital": 10_000_000}),
    ("SELF_CROSS", SELL, {"opposites": FAR, "is_auction_near": True}, {}),
    ("SELF_CROSS", SELL, {"opposites": FAR, "phase": Phase.PRE_CLOSED}, {}),
    ("MAX_ORDERS", REQUEST, {"orders_today": 20}, {"max_orders_per_day": 20}),
    ("MAX_LOSS", REQUEST, {"loss_today": 500_000}, {"max_loss_per_day": 500_000}),
    ("CASH", REQUEST, {"cash_free": 2_704_049}, {}),
    ("CASH", REQUEST, {"cash_free": None}, {}),
    ("UNPRICED_BUY", REQUEST, {"unpriced": ("ORD9", "FPT")}, {}),
    ("SELLABLE", SELL, {"sellable": 99}, {}),
    ("DUPLICATE", REQUEST, {"twin": "L-0001"}, {}),
    ("SELF_CROSS", REQUEST, {"opposites": (Opposite("L-0001", 27_000),)}, {}),
    ("SELF_CROSS", REQUEST, {"opposites": (Opposite("L-0001", None),)}, {}),
    ("SELF_CROSS", SELL, {"opposites": (Opposite("L-0001", 27_050),)}, {}),
    ("UNKNOWN_ORDERS", REQUEST, {"unknown_in_account": 1}, {}),
    ("UNKNOWN_ORDERS", REQUEST, {"unknown": 2}, {}),
]
PASSED = [
    (SELL, {"unknown": 9, "unknown_in_account": 9}, {}),
    (REQUEST, {"when": When(start=time(9, 30), end=time(9, 31))}, {}),
    (REQUEST, {"instrument": replace(HPG, status=WARNED)}, {}),
    (MARKET, {"available": frozenset({OrderType.LO, OrderType.MP})}, {}),
    (REQUEST, {"available": frozenset()}, {}),
    (replace(REQUEST, quantity=99), {}, {}),
    (replace(REQUEST, quantity=500_000), {"cash_free": 10**12}, {}),
    (replace(REQUEST, limit_price=28_850), {}, {}),
    (replace(REQUEST, limit_price=25_150), {}, {}),
    (replace(REQUEST, limit_price=27_500), {}, {"max_price_gap_ppm": 20_000}),
    (REQUEST, {"quote_age": timedelta(seconds=10)}, {}),
    (REQUEST, {}, {"max_order_value": 2_700_000}),
    (REQUEST, {"position": 900}, {"max_position": 1_000}),
    (REQUEST, {"recent_buys": HABIT}, {"max_times_median": 5}),
    (replace(REQUEST, quantity=200), {"recent_buys": HABIT[:4]}, {"max_times_median": 5}),
    (replace(SELL, quantity=1_000), {"recent_buys": HABIT}, {"max_times_median": 5}),
    (REQUEST, {"invested": 7_300_000}, {"capital": 10_000_000}),
    (SELL, {"invested": 10**9}, {"capital": 1}),
    (SELL, {"opposites": FAR}, {}),
    (SELL, {"unpriced": ("ORD9", "FPT")}, {}),
    (SELL, {"position": 9_000, "loss_today": 10**9, "cash_free": 0}, {"max_position": 1}),
    (REQUEST, {"loss_today": 499_999}, {"max_loss_per_day": 500_000}),
    (REQUEST, {"cash_free": 2_704_050}, {}),
    (REQUEST, {"opposites": (Opposite("L-0001", 27_050),)}, {}),
    (SELL, {"opposites": (Opposite("L-0001", 26_950),)}, {}),
]


@every_row(("code", "request_", "changes", "limits"), REFUSED)
def test_a_check_refuses_with_its_code_and_numbers(code, request_, changes, limits):
    results = judge(request_, replace(VIEW, **changes), Limits(**limits))

    assert (results[-1].code, results[-1].passed) == (code, False)
    assert all(one.passed for one in results[:-1])
    assert results[-1].numbers


@every_row(("request_", "changes", "limits"), PASSED)
def test_what_lies_on_the_border_passes(request_, changes, limits):
    results = judge(request_, replace(VIEW, **changes), Limits(**limits))

    assert [one.code for one in results if not one.passed] == []


def test_opposite_orders_never_stand_together_in_an_auction():
    view = replace(VIEW, phase=Phase.OPEN, opposites=(Opposite("L-0001", 28_000),))

    assert judge(REQUEST, view, NO_LIMITS)[-1].code == "SELF_CROSS"


def test_every_code_of_the_table_can_be_refused():
    of_accounts = {code for code, *_ in (*account_rows.REFUSED, *account_rows.IN_AUCTION)}

    assert {code for code, *_ in REFUSED} | of_accounts == set(CODES)


def test_the_texts_are_what_the_screen_shows():
    limits = Limits(max_order_value=50_000_000, max_orders_per_day=20)

    texts = {one.code: one.text for one in judge(REQUEST, VIEW, limits)}

    assert texts == {
        "GATE": "RUNNING",
        "SYMBOL": "HPG on HOSE",
        "PHASE": "HOSE continuous",
        "ORDER_TYPE": "LIMIT in continuous, takes LIMIT/MTL",
        "LOT": "quantity 100",
        "MAX_QUANTITY": "quantity 100 of 500,000",
        "TICK": "price 27,000, tick 50",
        "BAND": "price 27,000 in 25,150-28,850",
        "QUOTE_AGE": "quote 3 s old of 10",
        "MAX_ORDER_VALUE": "order 2.7M of 50M",
        "MAX_ORDERS": "day 0 of 20",
        "CASH": "cash 2.7M of 100M",
    }


def refusal(request_=REQUEST, limits=NO_LIMITS, **changes):
    return judge(request_, replace(VIEW, **changes), limits)[-1].text


def test_an_amount_that_decides_is_exact_to_the_last_vnd():
    assert refusal(limits=Limits(max_order_value=2_690_000)) == (
        "an order of 2,700,000 VND, at most 2,690,000; limits.max_order_value in its file"
    )


def test_a_passed_check_says_exactly_what_reads_alike_when_short():
    near = judge(REQUEST, VIEW, Limits(max_order_value=2_700_400))

    assert [one.text for one in near if one.code == "MAX_ORDER_VALUE"] == [
        "order 2,700,000 of 2,700,400"
    ]


@every_row(
    ("text", "request_", "changes"),
    [
        ("the day's band is not known", REQUEST, {"quote": replace(QUOTE, floor=None)}),
        ("free cash is not known", REQUEST, {"cash_free": None}),
        ("LIMIT order without a price", replace(REQUEST, limit_price=None), {}),
        ("price 27,000 does not go with order type MTL", replace(MARKET, limit_price=27_000), {}),
        ("no order in this phase: HOSE lunch break", REQUEST, {"phase": Phase.BREAK}),
        (
            "no PLO order in this phase (continuous), which takes LIMIT/MTL",
            replace(MARKET, order_type=OrderType.PLO),
            {},
        ),
        ("99 of 100 shares can be sold now", SELL, {"sellable": 99}),
        (
            "orders with an unknown outcome: 2; from 2 on nothing new is sent",
            REQUEST,
            {"unknown": 2},
        ),
        (
            "150 shares is not a valid lot: multiples of 100, or 1 to 99",
            replace(REQUEST, quantity=150),
            {},
        ),
    ],
)
def test_a_refusal_is_a_sentence_for_a_trader(text, request_, changes):
    assert refusal(request_, **changes) == text


def test_a_loss_that_has_just_reached_its_limit_counts_as_reached():
    assert refusal(REQUEST, Limits(max_loss_per_day=500_000), loss_today=500_000) == (
        "500,000 VND lost today; from 500,000 on nothing is bought; limits.max_loss_per_day in its"
        " file"
    )


def test_a_gap_reads_in_percent():
    request_ = replace(REQUEST, limit_price=27_550)

    assert refusal(request_, Limits(max_price_gap_ppm=20_000)) == (
        "the price is 2.037% off the last one, at most 2%; limits.max_price_gap in its file"
    )


@every_row(
    ("words", "changes"),
    [
        ("risk.max_quote_age_s", {"quote_age": timedelta(minutes=1)}),
        (
            "risk.max_quote_age_s, left at its default",
            {"quote_age": timedelta(minutes=1), "at_default": {"risk.max_quote_age_s"}},
        ),
        ("risk.limits.max_order_value", {"shared_limits": {"max_order_value"}}),
        (
            "risk.limits.max_order_value, left at its default",
            {
                "shared_limits": {"max_order_value"},
                "at_default": {"risk.limits.max_order_value", "risk.account.max_order_value"},
            },
        ),
        ("limits.max_order_value in its file", {"at_default": {"risk.limits.max_order_value"}}),
        ("when.sessions in its file", {"when": When(phases=frozenset({Phase.PRE_CLOSED}))}),
    ],
)
def test_a_refusal_by_a_setting_names_it_and_whether_anybody_has_set_it(words, changes):
    said = refusal(limits=Limits(max_order_value=1), **changes)

    assert said.partition("; ")[2] == words


def test_every_setting_that_a_refusal_may_name_exists():
    limits, account = LimitsSection.model_fields, AccountSection.model_fields
    known = {"when.sessions", "when.between", *limits, *account}
    known |= {f"risk.{each}" for each in RiskSettings.model_fields}
    known |= {f"risk.account.{each}" for each in account}
    named = {
        key.replace("{span}", span)
        for code in CODES.values()
        for key in code.key.split()
        for span in ("second", "minute")
    }

    assert named <= known


@pytest.mark.parametrize(
    ("amount", "text"),
    [(19_800, "19,800"), (1_000_000, "1M"), (64_700_000, "64.7M"), (-1_250_000_000, "-1.2B")],
)
def test_money_reads_short(amount, text):
    assert short_money(amount) == text


def test_the_tighter_limit_wins():
    one = Limits(max_position=100, max_order_value=None, max_orders_per_day=5)
    other = Limits(max_position=200, max_order_value=7, max_orders_per_day=3)

    assert tighter(one, other) == Limits(max_position=100, max_order_value=7, max_orders_per_day=3)


# ----------------------------------------------------------------------------- through the engine


def test_a_refusal_is_journalled_with_an_order_row_of_its_own():
    stage = Stage(limited(max_order_value=1_000_000))

    stage.request(lambda s: s.buy(100, limit=27_000, why="as asked"))

    assert stage.new(PlaceOrder) == []
    (decision,) = stage.new(Decision)
    assert (decision.verdict, decision.code, decision.request_id) == (
        Verdict.BLOCKED,
        "MAX_ORDER_VALUE",
        "L-0001",
    )
    assert decision.checks[-1] == CheckResult(
        "MAX_ORDER_VALUE",
        False,
        {"value_vnd": 2_700_000, "limit_vnd": 1_000_000, "scope": "strategy"},
        "an order of 2,700,000 VND, at most 1,000,000; limits.max_order_value in its file",
    )
    assert stage.new(IntentRecorded)[0].state is SendState.DENIED


def test_a_pass_is_journalled_with_every_check():
    stage = Stage()

    stage.buy()

    decision = stage.last(Decision)
    assert (decision.verdict, decision.code, decision.why) == (Verdict.PASSED, "OK", "as asked")
    assert all(check.passed for check in decision.checks)
    assert decision.saw["last"] == 27_000


def test_two_requests_of_one_call_cannot_pass_one_limit_together():
    stage = Stage(limited(max_position=100))

    stage.request(lambda s: s.buy(100, limit=27_000), lambda s: s.sell(100, limit=28_000))
    stage.request(lambda s: s.buy(100, limit=26_950))

    assert stage.decided() == (Verdict.SKIPPED, "ORDER_WORKING")


def test_an_equal_order_within_a_minute_is_a_duplicate():
    stage = Stage()
    intent = stage.working()
    stage.after(1).book(_cancelled(intent))

    stage.after(10).quote()
    stage.request(lambda s: s.buy(100, limit=27_000))

    assert stage.decided() == (Verdict.BLOCKED, "DUPLICATE")
    stage.after(60).quote()
    stage.request(lambda s: s.buy(100, limit=27_000))
    assert stage.decided() == (Verdict.PASSED, "OK")


def _cancelled(intent):
    return report_of(intent, cancelled=100, state=OrderState.CANCELLED, status="CANCELLED")


def test_a_loss_at_the_limit_pauses_the_strategy():
    stage = Stage(limited(max_loss_per_day=100_000))
    intent = stage.working(1_000)
    stage.after(1).book(report_of(intent, executed=1_000))
    stage.after(1).quote(26_900)

    stage.request(lambda s: s.buy(100, limit=26_900))

    assert stage.decided() == (Verdict.BLOCKED, "MAX_LOSS")
    assert stage.new(StrategySwitched)[0].state == "paused"
    stage.request(lambda s: s.buy())
    assert stage.decided() == (Verdict.BLOCKED, "PAUSED")
    assert "only sells until tomorrow (day loss 140,500 VND of" in str(stage.last(Decision).numbers)


def test_a_denied_orders_row_says_why_in_the_words_of_the_decision():
    stage = Stage(limited(max_order_value=2_690_000))

    stage.request(lambda s: s.buy(100, limit=27_000))

    [denied] = [one for one in stage.new(IntentRecorded) if one.state is SendState.DENIED]
    assert denied.reason == refusal(limits=Limits(max_order_value=2_690_000))
    assert stage.last(Decision).checks[-1].text == denied.reason


def test_watching_decides_and_never_orders():
    stage = Stage(replace(PLAN, mode=StrategyMode.WATCH))

    stage.request(lambda s: s.buy(100, limit=27_000))

    assert stage.decided() == (Verdict.WATCHED, "WATCH")
    assert stage.all(PlaceOrder) == []


def test_a_stale_quote_blocks():
    stage = Stage()

    stage.after(11).request(lambda s: s.buy(100, limit=27_000))

    assert stage.decided() == (Verdict.BLOCKED, "QUOTE_AGE")


def test_a_quote_a_little_over_its_limit_is_refused_and_said_to_be_over_it():
    stage = Stage()

    stage.after(10.3).request(lambda s: s.buy(100, limit=27_000, why="as asked"))

    assert stage.decided() == (Verdict.BLOCKED, "QUOTE_AGE")
    assert stage.last(Decision).numbers["age_s"] == 11


def test_the_broker_s_word_on_the_exchange_leaves_kind_and_status_as_they_were():
    stage = Stage()
    stage.engine._state.instruments["HPG"] = replace(
        HPG, kind=InstrumentKind.ETF, status=RESTRICTED
    )

    stage.handle(InstrumentsRead(stage.now, (Instrument("HPG", Exchange.HNX),)))

    found = stage.engine._state.instruments["HPG"]
    assert found == Instrument("HPG", Exchange.HNX, InstrumentKind.ETF, RESTRICTED)


def test_checks_that_have_passed_read_short():
    limits = Limits(2_000, 50_000_000, 20, 1_000_000, 20_000)
    when = When(start=time(9, 0), end=None)
    view = replace(VIEW, when=when, loss_today=-5_000, opposites=(Opposite("L-1", 28_000),))
    asked = replace(REQUEST, limit_price=27_050, quantity=1_200)

    assert [one.text for one in judge(asked, replace(view, price=27_050), limits)] == [
        "RUNNING",
        "HPG on HOSE",
        "HOSE continuous",
        "09:30:00 in 09:00-any",
        "LIMIT in continuous, takes LIMIT/MTL",
        "quantity 1,200",
        "quantity 1,200 of 500,000",
        "price 27,050, tick 50",
        "price 27,050 in 25,150-28,850",
        "quote 3 s old of 10",
        "0.1851% off last of 2%",
        "order 32.5M of 50M",
        "position 1,200 of 2,000",
        "day 0 of 20",
        "loss -5,000 of 1M",
        "cash 32.5M of 100M",
        "own opposite order none",
    ]


@every_row(
    ("request_", "view", "text"),
    [
        (replace(REQUEST, quantity=12), VIEW, "odd lot 12 as LIMIT"),
        (MARKET, VIEW, "price none in 25,150-28,850"),
        (SELL, VIEW, "sell 100 of 1,000"),
        (REQUEST, replace(VIEW, cash_free=2_704_051), "cash 2,704,050 of 2,704,051"),
        (REQUEST, replace(VIEW, cash_free=2_704_050), "cash 2.7M of 2.7M"),
    ],
)
def test_what_has_passed_is_said_by_the_check(request_, view, text):
    assert text in [one.text for one in judge(request_, view, NO_LIMITS)]
