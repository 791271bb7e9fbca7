"""Ceiling and floor."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.domain.bands import Band, band_around
from bot.domain.errors import NoRule
from bot.domain.instrument import Exchange, InstrumentKind
from bot.domain.rulebook import Rulebook
from bot.domain.ticks import TickTable
from tests.domain.vectors import VECTORS, instrument
from tests.rows import every_row

HOSE_SHARE = TickTable(((10_000, 10), (50_000, 50), (None, 100)))


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
