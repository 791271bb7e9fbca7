"""No stream of orders passes a limit, and no race of strategies does."""

from dataclasses import replace
from datetime import time, timedelta

from bot.domain.message import PlaceOrder, Recovered, TimerFired
from bot.domain.order import OrderState
from bot.domain.plan import AccountLimits, Wake
from bot.domain.recovery import RecoveredStrategy, Recovery
from bot.engine.engine import Engine
from bot.engine.settings import EngineSettings, LoadedStrategy, invoke_plainly
from bot.strategy import Strategy
from tests.engine.risk.limit_streams import play
from tests.engine.stage import DAY, HPG, PLAN, RULEBOOK, Stage, report_of
from tests.rows import every_row

NAMES = [f"racer-{number:02}" for number in range(32)]


class Racer(Strategy):
    step: int = 0

    def on_timer(self, _timer):
        self.buy(100, limit=27_000 - 50 * self.step, why="all at once")


class Leaver(Strategy):
    step: int = 0

    def on_timer(self, _timer):
        self.close(limit=27_000 + 50 * self.step, why="all at once")

    on_quote = on_fill = on_timer


def raced(racer, limits, recovery=None, *, sellable=0):
    settings = EngineSettings(account_limits=AccountLimits(**limits), duplicate_window=timedelta(0))
    stage = Stage(settings=settings, cash=10**9, sellable=sellable, is_open=False)
    plans = [
        replace(PLAN, name=name, parameters={"step": step}, wake=Wake(quote=timedelta(seconds=1)))
        for step, name in enumerate(NAMES)
    ]
    stage.engine = Engine(
        rulebook=RULEBOOK,
        strategies=[LoadedStrategy(plan, racer, (HPG,)) for plan in plans],
        settings=settings,
        invoke=invoke_plainly,
    )
    stage.handle(Recovered(stage.now, recovery or Recovery(DAY)))
    stage.open()
    return stage


def test_no_stream_of_orders_passes_what_a_plain_reading_refuses():
    played = [play(seed) for seed in range(30)]

    assert [each.wrong for each in played if each.wrong] == []
    assert sum(each.left for each in played) > 8


@every_row(
    ("limits", "orders"),
    [
        ({}, 32),
        ({"max_open_orders": 10}, 10),
        ({"max_open_orders_per_symbol": 3}, 3),
        ({"max_orders_per_second": 1}, 1),
        ({"max_orders_per_minute": 6}, 6),
        ({"max_orders_per_day": 30}, 30),
        ({"max_position_value": 13_499_999}, 5),
        ({"max_gross_nav_ppm": 50_000}, 18),
        ({"min_cash": 1_000_000_000 - 13_600_000}, 5),
    ],
)
def test_32_strategies_that_race_on_one_account_keep_its_limits(limits, orders):
    stage = raced(Racer, limits)

    for number, name in enumerate(NAMES):
        stage.quote()
        left = stage.handle(TimerFired(stage.now, name, time(9, 30)))
        for placed in (one for one in left if isinstance(one, PlaceOrder)):
            stage.accept(placed.intent, f"ORD{number}")

    assert len(stage.all(PlaceOrder)) == orders


def test_32_strategies_that_close_at_once_all_get_out_at_the_pace_of_sales():
    held = RecoveredStrategy({"HPG": (100, 2_000_000)}, 0, 0, 0, "on")
    recovery = Recovery(DAY, strategies=dict.fromkeys(NAMES, held))
    limits = {"max_orders_per_second": 1, "max_orders_per_minute": 6, "max_orders_per_day": 1}
    stage = raced(Leaver, {**limits, "max_open_orders": 1}, recovery, sellable=3_200)
    left, heard, first = [], 0, stage.now

    while stage.now < first + timedelta(minutes=6):
        stage.quote()  # every strategy asks again, and again when one of its orders is filled
        for placed in (one for one in stage.commands[heard:] if isinstance(one, PlaceOrder)):
            left.append((stage.now, placed.intent.strategy))
            stage.accept(placed.intent, order_id := f"ORD{len(left)}")
            row = report_of(placed.intent, order_id, executed=100, state=OrderState.FILLED)
            stage.book(replace(row, status="FILLED"))
        heard = len(stage.commands)
        stage.after(5)

    assert sorted(name for _, name in left) == NAMES
    for number, (at, _) in enumerate(left):
        later = [each for each, _ in left[number:]]
        assert sum(each - at < timedelta(seconds=1) for each in later) == 1
        assert sum(each - at < timedelta(minutes=1) for each in later) <= 6
