"""A day's result is the same in whatever order fills arrive, and wherever a restart falls."""

from dataclasses import replace
from itertools import permutations
from random import Random

import pytest

from bot.domain.entry import Fill
from bot.domain.order import Side
from bot.engine.account_state import DayTrade, Mark
from tests.engine.stage import Stage, report_of

MARK = Mark(price=27_300, reference=26_900)


def _fills(dice: Random) -> list[Fill]:
    """Some on either side, now and then more sold than bought."""
    stage = Stage()
    stage.after(1).book(report_of(stage.working(), executed=100))
    like: Fill = stage.last(Fill)
    found = []
    for _ in range(dice.randint(1, 4)):
        quantity = 100 * dice.randint(1, 3)
        amount = quantity * dice.randint(26_000, 28_000)
        side = dice.choice(list(Side))
        found.append(replace(like, side=side, quantity=quantity, amount=amount))
    return found


def _after(begun: int, fills: list[Fill]) -> DayTrade:
    day = DayTrade()
    day.begun += begun
    for fill in fills:
        day.take(fill)
    return day


@pytest.mark.parametrize("seed", range(12))
def test_neither_the_order_of_fills_nor_a_restart_changes_a_result(seed: int) -> None:
    dice = Random(f"exposure {seed}")
    fills, begun = _fills(dice), 100 * dice.randint(-2, 4)
    bought = [fill for fill in fills if fill.side is Side.BUY]
    sold = [fill for fill in fills if fill.side is Side.SELL]
    shares = sum(each.quantity for each in bought) - sum(each.quantity for each in sold)
    spent = sum(each.amount for each in bought) - sum(each.amount for each in sold)
    start = next(held for held in range(0, 10_000, 100) if held >= begun and held + shares >= 0)
    expected = (start + shares) * MARK.price - start * MARK.reference - spent

    found = set()
    for order in map(list, permutations(fills)):
        for restart in range(len(order) + 1):
            day = _after(begun, order[:restart])
            position = day.begun + day.moved
            # A start knows the present position, and the fills of today that led to it.
            day = _after(position - day.moved, order[:restart])
            for fill in order[restart:]:
                day.take(fill)
            found.add(day.result(MARK))

    assert found == {expected}


def test_what_is_sold_beyond_own_shares_and_bought_back_is_flat_again() -> None:
    stage = Stage()
    stage.after(1).book(report_of(stage.working(), executed=100))
    bought: Fill = stage.last(Fill)
    sold = replace(bought, side=Side.SELL, amount=bought.amount + 50_000)

    day = _after(0, [sold, bought])

    assert day.result(None) == 50_000
    assert _after(0, [sold]).result(None) is None
    assert _after(0, [sold]).result(MARK) == sold.amount - 100 * MARK.reference


def test_a_new_day_begins_with_what_is_held() -> None:
    stage = Stage()
    stage.after(1).book(report_of(stage.working(), executed=100))
    day = _after(200, [stage.last(Fill)])

    day.begin_day()

    assert day == DayTrade(begun=300)
    assert day.result(MARK) == 300 * (MARK.price - MARK.reference)
