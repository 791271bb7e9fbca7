"""No stream of orders passes a limit, and no race of strategies does."""

from dataclasses import replace
from datetime import time, timedelta

from bot.domain.limits import AccountLimits
from bot.domain.message import PlaceOrder, TimerFired
from bot.engine.engine import Engine, EngineSettings, LoadedStrategy, invoke_plainly
from bot.strategy import Strategy
from tests.engine.risk.limit_streams import play
from tests.engine.stage import HPG, PLAN, RULEBOOK, Stage
from tests.rows import every_row


class Racer(Strategy):
    step: int = 0

    def on_timer(self, _timer):
        self.buy(100, limit=27_000 - 50 * self.step, why="all at once")


def test_no_stream_of_orders_passes_what_a_plain_reading_refuses():
    played = [play(seed) for seed in range(8)]

    assert [found for _, found in played if found] == []
    assert sum(sent for sent, _ in played) > 8


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
    settings = EngineSettings(account_limits=AccountLimits(**limits), duplicate_window=timedelta(0))
    names = [f"racer-{number:02}" for number in range(32)]
    stage = Stage(settings=settings, cash=10**9, is_open=False)
    stage.engine = Engine(
        rulebook=RULEBOOK,
        strategies=[
            LoadedStrategy(replace(PLAN, name=name, parameters={"step": step}), Racer, (HPG,))
            for step, name in enumerate(names)
        ],
        settings=settings,
        invoke=invoke_plainly,
    )
    stage.open()

    for number, name in enumerate(names):
        stage.quote()
        left = stage.handle(TimerFired(stage.now, name, time(9, 30)))
        for placed in (one for one in left if isinstance(one, PlaceOrder)):
            stage.accept(placed.intent, f"ORD{number}")

    assert len(stage.all(PlaceOrder)) == orders
