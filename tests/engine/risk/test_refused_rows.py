from datetime import timedelta

import pytest

from bot.domain.entry import Decision, IntentRecorded
from bot.domain.message import Reconciled, TradingDayStarted
from bot.domain.operations import EarlierOrdersRead
from bot.domain.order import OrderState, SendState
from bot.domain.plan import AccountLimits, Limits
from bot.engine.settings import EngineSettings
from tests.engine.stage import DAY, PLAN, Stage, limited, report_of


def _ask(stage, *quantities):
    for quantity in quantities:
        stage.request(lambda s, quantity=quantity: s.buy(quantity, limit=27_000, why="as asked"))


def _told(stage):
    return [(one.code, one.request_id) for one in stage.all(Decision)]


def test_a_refusal_like_the_last_ones_has_no_row_of_its_own():
    stage = Stage(limited(max_order_value=3_000_000))

    _ask(stage, 200, 300, 200)
    stage.request(lambda s: s.sell(100, limit=27_000, why="as asked"))

    value = "MAX_ORDER_VALUE"
    assert _told(stage) == [(value, "L-0001"), (value, None), (value, None), ("SELLABLE", "L-0002")]
    assert all(one.checks and one.numbers for one in stage.all(Decision))
    rows = [(one.intent.intent_id, one.state) for one in stage.all(IntentRecorded)]
    assert rows == [("L-0001", SendState.DENIED), ("L-0002", SendState.DENIED)]


def test_after_an_order_a_refusal_has_a_row_again():
    stage = Stage(limited(max_order_value=3_000_000))
    _ask(stage, 200, 200)
    intent = stage.working()
    report = report_of(intent, cancelled=100, state=OrderState.CANCELLED, status="CANCELLED")
    stage.after(1).book(report)

    stage.after(10).quote()
    _ask(stage, 200, 200)

    assert [one for one in _told(stage) if one[0] != "OK"] == [
        ("MAX_ORDER_VALUE", "L-0001"),
        ("MAX_ORDER_VALUE", None),
        ("MAX_ORDER_VALUE", "L-0003"),
        ("MAX_ORDER_VALUE", None),
    ]


def test_on_a_new_day_a_refusal_has_a_row_again():
    stage = Stage(limited(max_order_value=3_000_000))
    _ask(stage, 200, 200)

    stage.after(86_400).handle(TradingDayStarted(stage.now, DAY + timedelta(days=1)))
    stage.handle(EarlierOrdersRead(stage.now, ()))
    stage.handle(Reconciled(stage.now))
    stage.quote()
    _ask(stage, 200, 200)

    assert [request for _, request in _told(stage)] == ["L-0001", None, "L-0002", None]


OWN = limited(max_order_value=3_000_000)
OF_STRATEGIES = Limits(max_order_value=3_000_000)
OF_ACCOUNT = AccountLimits(max_order_value=3_000_000)
UNSET = frozenset({"risk.limits.max_order_value", "risk.account.max_order_value"})


@pytest.mark.parametrize(
    ("plan", "settings", "key"),
    [
        (OWN, EngineSettings(at_default=UNSET), "limits.max_order_value in its file"),
        (PLAN, EngineSettings(limits=OF_STRATEGIES), "risk.limits.max_order_value"),
        (
            PLAN,
            EngineSettings(limits=OF_STRATEGIES, at_default=UNSET),
            "risk.limits.max_order_value, left at its default",
        ),
        (
            PLAN,
            EngineSettings(account_limits=OF_ACCOUNT, at_default=UNSET),
            "risk.account.max_order_value, left at its default",
        ),
    ],
)
def test_the_refusal_of_an_order_names_the_key_that_is_to_be_raised(plan, settings, key):
    stage = Stage(plan, settings=settings)

    _ask(stage, 200)

    [decision] = stage.all(Decision)
    assert decision.checks[-1].text.partition("; ")[2] == key
