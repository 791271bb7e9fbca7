"""The last look before a POST: an order that had to wait does not go into a phase that has begun
meanwhile.
"""

from dataclasses import replace
from datetime import UTC, datetime, time, timedelta

import pytest

from bot.domain.instrument import EXCHANGE_TZ, Phase
from bot.domain.message import PlaceOrder, TimePassed
from bot.domain.order import OrderType, Side
from bot.domain.plan import AccountLimits, When
from bot.engine.settings import EngineSettings
from tests.engine.stage import DAY, PLAN, Stage, sell_intent

CONTINUOUS = When(phases=frozenset({Phase.PROGRESS}))


def ordered(
    local: time,
    market: str | None = None,
    when: When | None = None,
    share_ppm: int | None = None,
) -> Stage:
    """A stage three seconds after its buy, which has not left."""
    limits = AccountLimits(max_auction_share_ppm=share_ppm)
    plan, settings = replace(PLAN, when=when or PLAN.when), EngineSettings(account_limits=limits)
    stage = Stage(plan, settings=settings, is_open=False)
    stage.now = datetime.combine(DAY, local, EXCHANGE_TZ).astimezone(UTC)
    stage.open()
    stage.depth()
    limit = None if market else 27_000
    stage.request(lambda s: s.buy(100, limit=limit, market=market, why="as asked"))
    stage.after(3).handle(TimePassed(stage.now))
    return stage


@pytest.mark.parametrize(
    ("local", "market", "reason"),
    [
        (time(11, 29, 56), None, None),
        (time(11, 29, 57), None, "HOSE takes no LIMIT now: lunch break"),
        (time(14, 29, 57), None, None),
        (time(14, 29, 56), "MTL", None),
        (time(14, 29, 57), "MTL", "HOSE takes no MTL now: closing auction (ATC)"),
    ],
)
def test_an_order_that_waited_does_not_go_into_a_phase_that_takes_none(
    local: time, market: str | None, reason: str | None
) -> None:
    stage = ordered(local, market)
    intent = stage.last(PlaceOrder).intent

    assert stage.engine.reason_not_to_send(intent) == reason


@pytest.mark.parametrize(
    ("market", "reason"), [(None, None), ("MTL", "HOSE takes no MTL now: continuous")]
)
def test_an_odd_lot_goes_by_the_types_of_odd_lots(market: str | None, reason: str | None) -> None:
    stage = ordered(time(11, 0), market)
    intent = replace(stage.last(PlaceOrder).intent, quantity=7)

    assert stage.engine.reason_not_to_send(intent) == reason


@pytest.mark.parametrize(
    ("local", "side", "is_kept"),
    [
        (time(14, 29, 57), Side.BUY, True),
        (time(14, 29, 57), Side.SELL, False),
        (time(14, 29, 56), Side.BUY, False),
    ],
)
def test_a_buy_that_waited_does_not_go_into_a_phase_that_its_file_leaves_out(
    local: time, side: Side, is_kept: bool
) -> None:
    stage = ordered(local, when=CONTINUOUS)
    buy = stage.last(PlaceOrder).intent

    reason = stage.engine.reason_not_to_send(buy if side is Side.BUY else sell_intent(buy))

    words = "closing auction (ATC): test does not buy then (when.sessions)"
    assert reason == (words if is_kept else None)


@pytest.mark.parametrize(
    ("local", "side", "quantity", "shown", "is_kept"),
    [
        (time(14, 29, 57), Side.BUY, 1_000, "1,000", True),
        (time(14, 29, 57), Side.SELL, 300, "5,000", True),
        (time(14, 29, 57), Side.SELL, 200, "5,000", False),
        (time(14, 29, 56), Side.BUY, 1_000, "1,000", False),
    ],
)
def test_an_order_that_waited_is_in_an_auction_no_more_than_its_share(
    local: time, side: Side, quantity: int, shown: str, is_kept: bool
) -> None:
    stage = ordered(local, share_ppm=50_000)
    buy = replace(stage.last(PlaceOrder).intent, quantity=quantity)

    reason = stage.engine.reason_not_to_send(buy if side is Side.BUY else sell_intent(buy))

    words = f"closing auction (ATC): {quantity:,} of {shown} shown is too much"
    assert reason == (f"{words} (risk.account.max_auction_share)" if is_kept else None)


def test_a_lot_of_a_sale_that_waited_goes_into_an_auction_that_shows_nothing() -> None:
    stage = ordered(time(14, 29, 57), share_ppm=50_000)
    stage.depth(bid=None)
    buy = stage.last(PlaceOrder).intent

    assert stage.engine.reason_not_to_send(sell_intent(buy)) is None
    assert stage.engine.reason_not_to_send(replace(sell_intent(buy), quantity=200)) is not None


def test_an_order_that_waited_for_continuous_trading_has_no_share_of_an_auction() -> None:
    stage = ordered(time(11, 0), share_ppm=50_000)
    early = stage.now - timedelta(hours=2)
    buy = replace(stage.last(PlaceOrder).intent, quantity=1_000, created_at=early)

    assert stage.engine.reason_not_to_send(buy) is None


def test_what_was_decided_within_an_auction_was_judged_then() -> None:
    stage = ordered(time(14, 29, 57), share_ppm=50_000)
    buy = replace(stage.last(PlaceOrder).intent, quantity=1_000, created_at=stage.now)

    assert stage.engine.reason_not_to_send(buy) is None


def test_a_phase_that_the_broker_says_early_counts_too() -> None:
    stage = ordered(time(11, 28))
    intent = stage.last(PlaceOrder).intent

    stage.phase(Phase.BREAK, OrderType.LO)

    reason = stage.engine.reason_not_to_send(intent)
    assert reason == "HOSE takes no LIMIT now: lunch break"
