"""The price grid and the daily band: ceiling and floor."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.domain.errors import NoRule, RuleDataError
from bot.domain.instrument import Exchange, InstrumentKind
from bot.domain.rule_data import RuleData
from bot.domain.rulebook import Rulebook
from bot.domain.venue import Band, TickTable, band_around
from tests.domain.vectors import VECTORS, instrument
from tests.rows import every_row

HOSE_SHARE = TickTable(((10_000, 10), (50_000, 50), (None, 100)))


@every_row(("exchange", "kind", "price", "tick", "is_on"), VECTORS["ticks"])
def test_tick_and_grid_are_as_published(rulebook, exchange, kind, price, tick, is_on):
    share = instrument(exchange, kind)

    assert rulebook.ticks_of(share).tick_at(price) == tick
    assert rulebook.ticks_of(share).is_on_grid(price) is is_on


@pytest.mark.parametrize(("exchange", "price", "up", "down"), VECTORS["tick_steps"])
def test_a_step_takes_the_tick_of_the_side_it_goes_to(rulebook, exchange, price, up, down):
    share = instrument(exchange)

    assert (rulebook.ticks_of(share).up(price), rulebook.ticks_of(share).down(price)) == (up, down)


def test_there_is_no_coarser_grid_above_100_000(rulebook: Rulebook):
    assert rulebook.ticks_of(instrument("HOSE")).tick_at(1_250_000) == 100


@pytest.mark.parametrize(("price", "up", "down"), [(142, 150, 140), (9_995, 10_000, 9_990)])
def test_a_step_from_off_the_grid_lands_on_it(price, up, down):
    assert (HOSE_SHARE.up(price), HOSE_SHARE.down(price)) == (up, down)


@pytest.mark.parametrize("price", [0, -10, -10_000])
def test_no_order_may_carry_a_price_that_is_not_positive(rulebook, price):
    assert not rulebook.ticks_of(instrument("HOSE")).is_on_grid(price)


def test_the_grid_of_hnx_ends_at_one_tick(rulebook: Rulebook):
    assert rulebook.ticks_of(instrument("HNX")).down(100) == 0


@pytest.mark.parametrize("place", [("HNX", "CW"), ("UPCOM", "ETF"), ("HCX", "STOCK")])
def test_a_kind_that_an_exchange_does_not_trade_has_no_grid(rulebook, place):
    with pytest.raises(NoRule, match=f"tick size of {place[1]} on {place[0]}"):
        rulebook.ticks_of(instrument(*place)).tick_at(10_000)


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


@every_row(("exchange", "kind", "reference", "special", "ceiling", "floor"), VECTORS["bands"])
def test_the_band_is_as_worked(rulebook, exchange, kind, reference, special, ceiling, floor):
    band = rulebook.band(instrument(exchange, kind), reference, special=special)

    assert band == Band(ceiling, floor)


@pytest.mark.parametrize(
    ("reference", "share", "high", "low", "ratio", "ceiling", "floor"), VECTORS["cw_bands"]
)
def test_a_warrant_moves_with_its_share(
    rulebook, reference, share, high, low, ratio, ceiling, floor
):
    band = rulebook.warrant_band(
        reference, underlying_reference=share, underlying=Band(high, low), ratio=ratio
    )

    assert band == Band(ceiling, floor)


def test_the_exercise_ratio_of_a_warrant_need_not_be_whole(rulebook: Rulebook):
    band = rulebook.warrant_band(
        1_200,
        underlying_reference=25_350,
        underlying=Band(27_100, 23_600),
        ratio=Fraction("4.9123"),
    )

    assert band == Band(1_550, 850)


def test_both_limits_are_valid_prices():
    band = Band(27_100, 23_600)

    assert [band.holds(price) for price in (23_550, 23_600, 27_100, 27_150)] == [
        False,
        True,
        True,
        False,
    ]


@pytest.mark.parametrize(("exchange", "kind"), [("HCX", "BOND"), ("HOSE", "CW")])
def test_bonds_have_no_band_and_warrants_none_of_their_own(rulebook, exchange, kind):
    with pytest.raises(NoRule, match=f"band of {kind} on {exchange}"):
        rulebook.band(instrument(exchange, kind), 10_000)


@given(st.integers(min_value=1, max_value=400_000), st.sampled_from([7, 10, 15, 20, 30, 40]))
def test_a_band_lies_on_the_grid_inside_the_raw_limits(reference, percent):
    band = band_around(reference, percent, HOSE_SHARE)
    raw_ceiling = Fraction(reference * (100 + percent), 100)
    raw_floor = Fraction(reference * (100 - percent), 100)

    assert band.floor <= reference < band.ceiling
    assert HOSE_SHARE.is_on_grid(band.ceiling)
    assert band.ceiling <= raw_ceiling or band.ceiling == HOSE_SHARE.up(reference)
    assert band.floor >= raw_floor or band.floor == HOSE_SHARE.down(reference)
    assert HOSE_SHARE.up(band.ceiling) > raw_ceiling


def test_every_exchange_and_kind_that_trades_has_a_grid_or_says_so(rulebook: Rulebook):
    traded = {e: set(rulebook.venues[e].ticks) for e in Exchange}

    kinds = InstrumentKind
    assert traded == {
        Exchange.HOSE: {kinds.STOCK, kinds.CLOSED_END_FUND, kinds.ETF, kinds.CW},
        Exchange.HNX: {kinds.STOCK, kinds.ETF},
        Exchange.UPCOM: {kinds.STOCK},
        Exchange.HCX: {kinds.BOND},
    }
