"""The golden cases: numbers worked out apart from the program, and how many there are."""

from datetime import date, datetime, time
from fractions import Fraction
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from bot.domain.instrument import EXCHANGE_TZ, Exchange, Lot, Phase
from bot.domain.venue import Band
from tests.domain.vectors import VECTORS, instrument
from tests.rows import every_row

HERE = Path(__file__).parent
GOLDEN: dict[str, list[list[Any]]] = YAML(typ="safe").load(
    (HERE / "golden.yaml").read_text("utf-8")
)
PLAYED: dict[str, list[Any]] = YAML(typ="safe").load(
    (HERE.parent / "sandbox" / "golden.yaml").read_text("utf-8")
)
MATCHED: dict[str, list[Any]] = YAML(typ="safe").load(
    (HERE.parent / "sandbox" / "vectors.yaml").read_text("utf-8")
)
PUBLISHED = {
    "ticks": 16,
    "tick_steps": 5,
    "bands": 36,
    "cw_bands": 3,
    "quantities": 9,
    "states": 13,
    "auctions": 21,
    "continuous": 11,
    "settlement": 10,
    "fees": 3,
}
"""The vectors of the market's rules by group; each is a case of a test of its group."""


def test_all_127_vectors_are_here_by_group():
    every = VECTORS | MATCHED

    assert {group: len(every[group]) for group in PUBLISHED} == PUBLISHED
    assert sum(PUBLISHED.values()) == 127


def test_there_are_at_least_300_golden_cases():
    further = [len(cases) for cases in (*GOLDEN.values(), *PLAYED.values())]

    assert sum(PUBLISHED.values()) + sum(further) >= 300


def test_no_golden_case_is_told_twice():
    for cases in (*GOLDEN.values(), *PLAYED.values(), *VECTORS.values(), *MATCHED.values()):
        told = [str(case) for case in cases]
        assert len(set(told)) == len(told)
    assert not {str(case) for case in GOLDEN["bands"]} & {str(case) for case in VECTORS["bands"]}


@every_row(("exchange", "kind", "reference", "special", "ceiling", "floor"), GOLDEN["bands"])
def test_the_band_is_as_worked(rulebook, exchange, kind, reference, special, ceiling, floor):
    found = rulebook.band(instrument(exchange, kind), reference, special=special)

    assert found == Band(ceiling, floor)


@every_row(("reference", "share", "high", "low", "ratio", "ceiling", "floor"), GOLDEN["cw_bands"])
def test_a_warrants_band_is_as_worked(rulebook, reference, share, high, low, ratio, ceiling, floor):
    found = rulebook.warrant_band(
        reference, underlying_reference=share, underlying=Band(high, low), ratio=Fraction(ratio)
    )

    assert found == Band(ceiling, floor)


@every_row(("exchange", "kind", "price", "up", "down"), GOLDEN["tick_steps"])
def test_a_step_is_one_tick_of_its_own_side(rulebook, exchange, kind, price, up, down):
    share = instrument(exchange, kind)

    assert (rulebook.ticks_of(share).up(price), rulebook.ticks_of(share).down(price)) == (up, down)


@every_row(("amount", "rate_ppm", "fee", "tax"), GOLDEN["charges"])
def test_charges_are_half_up_to_whole_vnd(rulebook, amount, rate_ppm, fee, tax):
    assert (rulebook.fee(amount, rate_ppm), rulebook.sale_tax(amount)) == (fee, tax)


@every_row(("shares", "each", "withheld"), GOLDEN["dividends"])
def test_five_percent_of_a_dividend_are_withheld(rulebook, shares, each, withheld):
    assert rulebook.dividend_tax(shares * each) == withheld


@every_row(("traded", "settled"), GOLDEN["settlement"])
def test_a_trade_settles_at_13_00_of_its_second_trading_day(rulebook, traded, settled):
    found = rulebook.settles_at(instrument("HOSE"), date.fromisoformat(traded))

    wanted = datetime.combine(date.fromisoformat(settled), time(13), tzinfo=EXCHANGE_TZ)
    assert found == wanted


@every_row(("day", "clock", "exchange", "phase"), GOLDEN["phases"])
def test_the_phase_of_a_day_is_as_published(rulebook, day, clock, exchange, phase):
    at = datetime.combine(date.fromisoformat(day), time.fromisoformat(clock), tzinfo=EXCHANGE_TZ)

    assert rulebook.phase_at(Exchange[exchange], at) is Phase[phase]


@every_row(("exchange", "phase", "lot", "types"), GOLDEN["accepted"])
def test_the_exchange_takes_just_these_types(rulebook, exchange, phase, lot, types):
    assert rulebook.accepted_types(Exchange[exchange], Phase[phase], Lot[lot]) == set(types)


@every_row(("exchange", "phase", "amends", "cancels"), GOLDEN["changes"])
def test_a_resting_order_may_be_changed_in_these_phases(rulebook, exchange, phase, amends, cancels):
    place = Exchange[exchange], Phase[phase]

    assert (rulebook.may_amend(*place), rulebook.may_cancel(*place)) == (amends, cancels)
