"""Stories of a market worked by hand, told in lines; references and bands over night."""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter
from ruamel.yaml import YAML

from bot.domain.instrument import Exchange, Instrument, InstrumentKind
from bot.domain.rule_data import RuleData
from bot.domain.status import SymbolStatus
from bot.sandbox.exchange.message import CROWD, ChangeRefused, Listing, OrderRefused, VenueEvent
from bot.sandbox.house.corporate_actions import CorporateAction, adjusted_reference
from tests.rows import every_row
from tests.sandbox.exchange.stage import FRIDAY, Stage, listing, rules, trades

GOLDEN: dict[str, list[Any]] = YAML(typ="safe").load(
    (Path(__file__).parents[1] / "golden.yaml").read_text("utf-8")
)
PLAYS = {play["name"]: play for play in GOLDEN["plays"]}
ACTIONS: TypeAdapter[list[CorporateAction]] = TypeAdapter(list[CorporateAction])
DATES = {"symbol": "AAA", "ex_date": "2026-11-20", "pays_on": "2026-12-01"}


def staged(play: Mapping[str, Any]) -> Stage:
    if "status" not in play:
        return Stage("08:30")
    status = SymbolStatus.from_data(RuleData(play["status"]))
    return Stage("08:30", Listing(Instrument("HPG", Exchange.HOSE, status=status), 25_350))


def step(stage: Stage, line: str) -> list[VenueEvent]:
    words = line.split()
    name, _, owner = words[0].partition("@")
    match words[1:]:
        case []:
            return stage.at(name)
        case ["x"]:
            return stage.cancel(name)
        case ["=", change] if change.startswith("@"):
            return stage.amend(name, price=int(change[1:]))
        case ["=", change]:
            return stage.amend(name, quantity=int(change))
        case order:
            return stage.submit(" ".join(order), owner=owner or CROWD, name=name)


def refusals(events: list[VenueEvent]) -> Iterator[tuple[str, str]]:
    for event in events:
        if isinstance(event, OrderRefused | ChangeRefused):
            yield event.order_id, event.reason.value


@every_row("play", PLAYS.values())
def test_a_market_plays_as_worked_by_hand(play):
    stage = staged(play)

    events = [event for line in play["steps"] for event in step(stage, line)]

    left = {order.order_id: order.remaining for order in stage.venue.open_orders()}
    assert trades(events) == [tuple(trade) for trade in play.get("trades", [])]
    assert dict(refusals(events)) == play.get("refused", {})
    assert left == play.get("open", {})


@every_row(("reference", "traded", "expected"), GOLDEN["upcom_references"])
def test_the_reference_of_upcom_is_the_average_to_the_nearest_tick(reference, traded, expected):
    stage = Stage("10:00", listing(Exchange.UPCOM, reference))
    for price, quantity in traded:
        stage.submit(f"BSR SELL {quantity} LO {price}")
        stage.submit(f"BSR BUY {quantity} LO {price}")

    stage.at("10:00", FRIDAY)

    assert stage.venue.board("BSR").reference == expected


@every_row(
    ("exchange", "close", "dividend", "new", "held", "price", "expected"), GOLDEN["ex_dates"]
)
def test_the_reference_of_an_ex_date_is_as_worked(
    exchange, close, dividend, new, held, price, expected
):
    listed: list[dict[str, Any]] = []
    if dividend:
        listed.append({"do": "cash_dividend", "vnd_per_share": dividend, **DATES})
    if new and price:
        listed.append({"do": "rights_issue", "new": new, "held": held, "price": price, **DATES})
    elif new:
        listed.append({"do": "bonus_shares", "new": new, "held": held, **DATES})

    share = Instrument("AAA", Exchange[exchange])

    found = adjusted_reference(rules(), share, close, ACTIONS.validate_python(listed))
    assert found == expected


@pytest.mark.parametrize(
    ("reference", "share_close", "close", "ratio", "ceiling", "floor"),
    GOLDEN["warrants_overnight"],
)
def test_a_warrants_next_band_follows_its_share(
    reference, share_close, close, ratio, ceiling, floor
):
    covered = Instrument("CHPG2601", Exchange.HOSE, InstrumentKind.CW)
    warrant = Listing(covered, reference, underlying="HPG", ratio=Fraction(ratio))
    stage = Stage("10:00", warrant, listing(Exchange.HOSE))
    stage.last("HPG", share_close)
    stage.last("CHPG2601", close)

    stage.at("10:00", FRIDAY)

    board = stage.venue.board("CHPG2601")
    assert (board.reference, board.ceiling, board.floor) == (close, ceiling, floor)
