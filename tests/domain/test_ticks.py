"""Price grids."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.domain.errors import NoRule, RuleDataError
from bot.domain.rule_data import RuleData
from bot.domain.rulebook import Rulebook
from bot.domain.ticks import TickTable
from tests.domain.vectors import VECTORS, instrument
from tests.rows import every_row

HOSE_SHARE = TickTable(((10_000, 10), (50_000, 50), (None, 100)))


@every_row(("exchange", "kind", "price", "tick", "is_on"), VECTORS["ticks"])
def test_tick_and_grid_are_as_published(rulebook, exchange, kind, price, tick, is_on):
    share = instrument(exchange, kind)

    assert rulebook.tick_size(share, price) == tick
    assert rulebook.is_on_tick(share, price) is is_on


@pytest.mark.parametrize(("exchange", "price", "up", "down"), VECTORS["tick_steps"])
def test_a_step_takes_the_tick_of_the_side_it_goes_to(rulebook, exchange, price, up, down):
    share = instrument(exchange)

    assert (rulebook.tick_up(share, price), rulebook.tick_down(share, price)) == (up, down)


def test_there_is_no_coarser_grid_above_100_000(rulebook: Rulebook):
    assert rulebook.tick_size(instrument("HOSE"), 1_250_000) == 100


@pytest.mark.parametrize(("price", "up", "down"), [(142, 150, 140), (9_995, 10_000, 9_990)])
def test_a_step_from_off_the_grid_lands_on_it(price, up, down):
    assert (HOSE_SHARE.up(price), HOSE_SHARE.down(price)) == (up, down)


@pytest.mark.parametrize("price", [0, -10, -10_000])
def test_no_order_may_carry_a_price_that_is_not_positive(rulebook, price):
    assert not rulebook.is_on_tick(instrument("HOSE"), price)


def test_the_grid_of_hnx_ends_at_one_tick(rulebook: Rulebook):
    assert rulebook.tick_down(instrument("HNX"), 100) == 0


@pytest.mark.parametrize("place", [("HNX", "CW"), ("UPCOM", "ETF"), ("HCX", "STOCK")])
def test_a_kind_that_an_exchange_does_not_trade_has_no_grid(rulebook, place):
    with pytest.raises(NoRule, match=f"tick size of {place[1]} on {place[0]}"):
        rulebook.tick_size(instrument(*place), 10_000)


@given(st.integers(min_value=1, max_value=300_000))
def test_up_and_down_undo_each_other_on_the_grid(price):
    above = HOSE_SHARE.up(price)

    assert above > price
    assert HOSE_SHARE.is_on_grid(above)
    assert HOSE_SHARE.down(above) <= price
    assert HOSE_SHARE.up(HOSE_SHARE.down(above)) == above


@pytest.mark.parametrize(
    "rows",
    [
        [{"below": 10_000, "tick": 10}],
        [{"below": None, "tick": 0}],
        [{"below": 10_000, "tick": 10}, {"below": 5_000, "tick": 50}, {"below": None, "tick": 1}],
        [{"below": 10_010, "tick": 10}, {"below": None, "tick": 50}],
        [{"below": None, "tick": 10}, {"below": None, "tick": 50}],
    ],
)
def test_a_table_that_is_no_grid_is_refused(rows):
    with pytest.raises(RuleDataError, match=r"^ticks: wanted ascending zones"):
        TickTable.from_data(RuleData(rows, "ticks"))
