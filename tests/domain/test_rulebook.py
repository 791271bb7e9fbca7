"""Quantities, order types, money, and where every number comes from."""

from collections.abc import Iterator
from copy import deepcopy
from datetime import UTC, date, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

import bot.domain
from bot.domain.errors import CalendarEnds, RuleDataError
from bot.domain.instrument import Exchange, Lot, Phase
from bot.domain.order import ORDER_TYPES, OrderType
from bot.domain.rulebook import Rulebook
from tests.domain.vectors import VECTORS, instrument
from tests.rows import every_row

HOSE, HNX, UPCOM, HCX = Exchange.HOSE, Exchange.HNX, Exchange.UPCOM, Exchange.HCX
RULES = Path(bot.domain.__file__).parent / "rules"


@cache
def read(name: str) -> dict[str, Any]:
    data: dict[str, Any] = YAML(typ="safe").load((RULES / name).read_text("utf-8"))
    return data


def types(text: str) -> frozenset[OrderType]:
    return frozenset(OrderType[word] for word in text.split())


# ------------------------------------------------------------------------------- quantities


@every_row(("exchange", "quantity", "lot"), VECTORS["quantities"])
def test_a_quantity_is_even_odd_or_refused(rulebook, exchange, quantity, lot):
    expected = None if lot == "REJECT" else Lot[lot]

    assert rulebook.venues[Exchange[exchange]].lots.lot_of(quantity) is expected


@pytest.mark.parametrize("quantity", [-100, -1, 0, 101, 199, 1_234, 500_001])
def test_no_lot_holds_an_impossible_quantity(rulebook, quantity):
    assert rulebook.venues[HOSE].lots.lot_of(quantity) is None


def test_only_hose_names_a_largest_order(rulebook: Rulebook):
    found = {exchange: rulebook.venues[exchange].lots.max_quantity for exchange in Exchange}

    assert found == {HOSE: 500_000, HNX: None, UPCOM: None, HCX: None}


def test_bonds_trade_by_the_piece(rulebook: Rulebook):
    assert [rulebook.venues[HCX].lots.lot_of(quantity) for quantity in (0, 1, 7)] == [
        None,
        Lot.EVEN,
        Lot.EVEN,
    ]


# ------------------------------------------------------------------------------ order types

ACCEPTED = {
    (HOSE, Phase.OPEN): ("LO ATO", "LO"),
    (HOSE, Phase.PROGRESS): ("LO MTL", "LO"),
    (HOSE, Phase.PRE_CLOSED): ("LO ATC", "LO"),
    (HOSE, Phase.CA): ("LO", ""),
    (HNX, Phase.PROGRESS): ("LO MTL MAK MOK", "LO"),
    (HNX, Phase.PRE_CLOSED): ("LO ATC", "LO"),
    (HNX, Phase.POST_SESSION): ("PLO", ""),
    (HNX, Phase.CA): ("LO", ""),
    (UPCOM, Phase.PROGRESS): ("LO", "LO"),
    (UPCOM, Phase.CA): ("LO", ""),
    (HCX, Phase.PROGRESS): ("LO", ""),
    (HCX, Phase.PRE_CLOSED): ("LO", ""),
}


@every_row("phase", Phase)
@every_row("exchange", Exchange)
def test_an_exchange_takes_exactly_its_matrix(rulebook, exchange, phase):
    even, odd = ACCEPTED.get((exchange, phase), ("", ""))

    assert rulebook.accepted_types(exchange, phase, Lot.EVEN) == types(even)
    assert rulebook.accepted_types(exchange, phase, Lot.ODD) == types(odd)


LISTED = {
    (HOSE, Phase.OPEN): "LO MP ATO ATC",
    (HOSE, Phase.PROGRESS): "LO MP ATC",
    (HOSE, Phase.BREAK): "LO MP ATC",
    (HOSE, Phase.PRE_CLOSED): "LO ATC",
    (HOSE, Phase.CA): "LO",
    (HNX, Phase.OPEN): "LO MTL MOK MAK ATC",
    (HNX, Phase.PROGRESS): "LO MTL MOK MAK ATC",
    (HNX, Phase.BREAK): "LO MTL MOK MAK ATC",
    (HNX, Phase.PRE_CLOSED): "LO ATC",
    (HNX, Phase.POST_SESSION): "PLO",
    (HNX, Phase.CA): "LO",
    (UPCOM, Phase.PROGRESS): "LO",
    (UPCOM, Phase.CA): "LO",
    (HCX, Phase.PROGRESS): "LO",
    (HCX, Phase.PRE_CLOSED): "LO",
}


@every_row("phase", Phase)
@every_row("exchange", Exchange)
def test_the_broker_lists_its_own_table_in_its_own_order(rulebook, exchange, phase):
    listed = rulebook.broker_listed_types(exchange, phase)

    assert " ".join(listed) == LISTED.get((exchange, phase), "")


ALIASES = {(HOSE, "MP"): "MTL", (HNX, "FAK"): "MAK", (HNX, "FOK"): "MOK"}
ROUTED = {(HOSE, "MP"): "MTL", (HNX, "MAK"): "FAK", (HNX, "MOK"): "FOK"}


@every_row("order_type", OrderType)
@every_row("exchange", Exchange)
def test_two_names_of_one_type_are_one(rulebook, exchange, order_type):
    canonical = rulebook.canonical(exchange, order_type)

    assert canonical == ALIASES.get((exchange, order_type), order_type)
    assert rulebook.canonical(exchange, canonical) == canonical


@every_row("order_type", OrderType)
@every_row("exchange", Exchange)
def test_the_broker_answers_with_the_routed_type(rulebook, exchange, order_type):
    routed = rulebook.routed(exchange, order_type)

    assert routed == ROUTED.get((exchange, order_type), order_type)
    assert routed == ORDER_TYPES[order_type].routed.get(exchange, order_type)
    assert rulebook.canonical(exchange, routed) == rulebook.canonical(exchange, order_type)


@pytest.mark.parametrize("exchange", [HOSE, HNX, UPCOM])
def test_orders_may_be_changed_in_continuous_and_periodic_matching_only(rulebook, exchange):
    amendable = {phase for phase in Phase if rulebook.may_amend(exchange, phase)}
    cancellable = {phase for phase in Phase if rulebook.may_cancel(exchange, phase)}

    assert amendable == cancellable == {Phase.PROGRESS, Phase.CA}


# ------------------------------------------------------------------------------------ money


@pytest.mark.parametrize(
    ("side", "quantity", "price", "rate", "gross", "fee", "tax", "net"), VECTORS["fees"]
)
def test_fee_tax_and_cash_are_as_worked(
    rulebook, side, quantity, price, rate, gross, fee, tax, net
):
    assert rulebook.fee_ppm == round(float(rate) * 1_000_000)
    assert quantity * price == gross
    assert rulebook.fee(gross) == fee
    assert (rulebook.sale_tax(gross) if side == "SELL" else 0) == tax
    assert (gross if side == "SELL" else -gross) - fee - tax == net


@pytest.mark.parametrize(("amount", "fee"), [(0, 0), (499, 0), (500, 1), (1_499, 1), (1_500, 2)])
def test_half_a_dong_is_rounded_up(rulebook, amount, fee):
    assert rulebook.fee(amount, rate_ppm=1_000) == fee


def test_an_amount_beyond_32_and_53_bits_is_exact(rulebook: Rulebook):
    assert rulebook.fee(10**18 + 1_000, rate_ppm=1_500) == 1_500_000_000_000_002


@every_row(("traded", "days", "settled"), VECTORS["settlement"])
def test_shares_settle_on_the_published_day_at_13_00(rulebook, traded, days, settled):
    share, day = instrument("HOSE"), date.fromisoformat(settled)

    assert rulebook.settlement.days[share.kind] == days
    assert rulebook.settles_at(share, date.fromisoformat(traded)) == datetime(
        day.year, day.month, day.day, 6, 0, tzinfo=UTC
    )


def test_a_bond_settles_a_day_earlier(rulebook: Rulebook):
    bond = instrument("HCX", "BOND")

    assert rulebook.settles_at(bond, date(2026, 11, 19)) == datetime(2026, 11, 20, 6, tzinfo=UTC)


def test_a_settlement_beyond_the_calendar_is_not_guessed(rulebook: Rulebook):
    with pytest.raises(CalendarEnds):
        rulebook.settles_at(instrument("HOSE"), date(2027, 12, 31))


# --------------------------------------------------------------------------------- override


def test_an_operator_states_his_own_fee_and_a_largest_order(rulebook: Rulebook):
    changed = rulebook.with_override({"broker_fee_ppm": 1_200, "max_quantity": {"HNX": 500_000}})

    assert changed.fee(25_400_000) == 30_480
    assert changed.venues[HNX].lots.lot_of(500_100) is None
    assert rulebook.fee(25_400_000) == 38_100
    assert rulebook.venues[HNX].lots.lot_of(500_100) is Lot.EVEN


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"broker_fee_ppm": 4_501}, "at most the legal cap of 4500 ppm"),
        ({"broker_fee_ppm": 0.0015}, "broker_fee_ppm: wanted a whole number"),
        ({"broker_fee_ppm": True}, "broker_fee_ppm: wanted a whole number"),
        ({"max_quantity": {"NYSE": 1}}, "max_quantity.NYSE: wanted one of HOSE"),
        ({"fee": 1}, "fee: wanted one of closed, open"),
    ],
)
def test_an_override_that_makes_no_sense_is_refused(rulebook, data, message):
    with pytest.raises(RuleDataError, match=message):
        rulebook.with_override(data)


# ------------------------------------------------------------------------------- provenance


def versions(data: object, place: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every dated version below `data`."""
    if isinstance(data, dict) and "from" in data:
        yield place, data
    elif isinstance(data, dict):
        for key, value in data.items():
            yield from versions(value, f"{place}.{key}")
    elif isinstance(data, list):
        for value in data:
            yield from versions(value, place)


def test_every_rule_has_a_date_a_source_and_a_confidence():
    sources = read("sources.yaml")
    market = read("market.yaml")

    found = list(versions(market, "market"))

    assert len(found) > 60
    for place, version in found:
        assert version["confidence"] in {"high", "medium", "low"}, place
        assert isinstance(version["from"], date), place
        assert version["source"], place
        assert set(version["source"]) <= set(sources), place


def test_every_source_is_used_and_every_closed_day_has_one():
    calendar = read("calendar.yaml")
    named = {row["source"] for row in calendar["closed"] + calendar["unconfirmed_closures"]}
    for _, version in versions(read("market.yaml"), "market"):
        named |= set(version["source"])

    assert named == set(read("sources.yaml"))


def test_the_rules_of_a_day_before_the_first_version_are_not_guessed():
    data = {**read("market.yaml"), "calendar": read("calendar.yaml")}

    with pytest.raises(RuleDataError, match="one version in effect on 2025-05-04"):
        Rulebook.from_mapping(data, on=date(2025, 5, 4))


def test_a_rule_changes_on_the_day_its_next_version_begins():
    data = deepcopy({**read("market.yaml"), "calendar": read("calendar.yaml")})
    data["exchanges"]["HOSE"]["band"] = [
        {
            "from": date(2025, 5, 5),
            "until": date(2026, 12, 31),
            "percent": 7,
            "special_percent": 20,
        },
        {"from": date(2027, 1, 1), "percent": 10, "special_percent": 30},
    ]

    widths = {
        day: Rulebook.from_mapping(data, on=day).venues[HOSE].band
        for day in (date(2026, 12, 31), date(2027, 1, 1), None)
    }

    assert [width.normal for width in widths.values() if width] == [7, 10, 10]
    rulebook = Rulebook.from_mapping(data, on=date(2026, 12, 30))
    days = date(2026, 12, 31), date(2027, 1, 1), date(2027, 3, 1)
    assert [rulebook.changed_until(day) for day in days] == [(), ("HOSE.band",), ("HOSE.band",)]
    assert Rulebook.from_mapping(data, on=date(2027, 1, 1)).changed_until(days[2]) == ()
    assert Rulebook.from_mapping(data).changed_until(days[2]) == ()
