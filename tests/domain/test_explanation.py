"""The rules as a table, and what may be done with a symbol at an instant."""

from datetime import date, datetime, time

import pytest

from bot.domain.explanation import explain
from bot.domain.instrument import EXCHANGE_TZ, Exchange, Instrument, InstrumentKind
from bot.domain.rule_data import RuleData, RuleRow, rule_rows, shown
from bot.domain.rulebook import Rulebook
from bot.domain.status import SymbolStatus
from tests.domain.test_rulebook import read, versions
from tests.rows import every_row

THURSDAY, MONDAY = date(2026, 11, 19), date(2026, 11, 23)
HPG = Instrument("HPG", Exchange.HOSE)
SHS = Instrument("SHS", Exchange.HNX)
ETF = InstrumentKind.ETF


def said(rulebook: Rulebook, instrument: Instrument, text: str, day: date = THURSDAY):
    at = datetime.combine(day, time.fromisoformat(text), tzinfo=EXCHANGE_TZ)
    return {line.what: line for line in explain(rulebook, instrument, at)}


def of_status(codes: str, exchange: Exchange = Exchange.HOSE) -> Instrument:
    return Instrument("XXX", exchange, status=SymbolStatus.from_data(RuleData(codes)))


# --------------------------------------------------------------------------------- the table


def test_the_table_holds_every_rule_in_effect_with_source_and_confidence(rulebook: Rulebook):
    rows = rulebook.table(THURSDAY)

    assert len(rows) == len(list(versions(read("market.yaml"), "market")))
    sources = read("sources.yaml")
    assert all(row.source and row.confidence and row.says for row in rows if row.says)
    assert {source for row in rows for source in row.source} <= set(sources)


def test_a_closed_day_is_in_the_table_of_that_day_alone(rulebook: Rulebook):
    culture_day = date(2026, 11, 24)
    closed = RuleRow(
        "calendar.closed", culture_day, culture_day, "Vietnam Culture Day", "EXPECTED", ("S-CULT1",)
    )

    assert closed in rulebook.table(culture_day)
    assert closed not in rulebook.table(THURSDAY)


def test_both_sides_of_a_change_show_their_own_version():
    versions_of_a_band = [
        {"from": date(2025, 5, 5), "until": date(2026, 12, 31), "percent": 7},
        {"from": date(2027, 1, 1), "percent": 10, "confidence": "low", "source": ["S-X"]},
    ]
    rows = list(rule_rows(RuleData({"exchanges": {"HOSE": {"band": versions_of_a_band}}})))

    before, after = date(2026, 12, 31), date(2027, 1, 1)

    assert [row.says for row in rows if row.holds(before)] == ["percent 7"]
    assert [row.says for row in rows if row.holds(after)] == ["percent 10"]
    assert [row.rule for row in rows] == ["HOSE.band", "HOSE.band"]
    assert not any(row.holds(date(2025, 5, 4)) for row in rows)


def test_what_an_operator_changed_is_in_the_table(rulebook: Rulebook):
    changed = rulebook.with_override({"broker_fee_ppm": 1_200})

    assert changed.table(THURSDAY)[-1] == RuleRow(
        "operator.broker_fee_ppm", None, None, "1,200", "operator", ()
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"percent": 7, "is": True}, "percent 7, is yes"),
        (["LO", "ATO"], "LO/ATO"),
        (None, "none"),
        (500_000, "500,000"),
        ([{"below": 10_000, "tick": 10}, {"below": None, "tick": 50}], "10 below 10,000; 50"),
        ([{"start": "09:00", "phase": "OPEN", "put_through": True}], "09:00 OPEN"),
    ],
)
def test_rule_data_is_shown_in_one_line(value, text):
    assert shown(value) == text


# -------------------------------------------------------------------------- the explanation


def test_what_an_operator_changed_is_explained_by_that(rulebook: Rulebook):
    swap = {"closed": [{"date": "2026-11-23", "name": "Swap"}]}
    changed = rulebook.with_override(
        {**swap, "broker_fee_ppm": 1_200, "max_quantity": {"HNX": 500_000}}
    )

    on_hnx, on_hose = said(changed, SHS, "10:00", MONDAY), said(changed, HPG, "10:00")

    named = {what: line.rule.rule for what, line in on_hnx.items() if line.rule}
    assert (named["day"], named["quantity"], named["fee"]) == (
        "operator.closed",
        "operator.max_quantity.HNX",
        "operator.broker_fee_ppm",
    )
    assert on_hose["quantity"].rule in rulebook.table(THURSDAY)


def test_a_closing_auction_is_explained_with_its_rules(rulebook: Rulebook):
    found = said(rulebook, HPG, "14:31")

    assert {what: line.says for what, line in found.items()} == {
        "symbol": "HOSE STOCK, status NRM",
        "day": "Thu 2026-11-19, a trading day",
        "phase": "closing auction (ATC) until 14:45:00, then negotiated only",
        "even lots": "ATC/LIMIT",
        "odd lots": "LIMIT",
        "quantity": "multiples of 100 up to 500,000, or 1 to 99",
        "amend": "no: closing auction (ATC)",
        "cancel": "no: closing auction (ATC)",
        "tick": "10 below 10,000, 50 below 50,000, 100 from there on",
        "band": "7 % up and down from the reference",
        "settlement": "bought now: sellable 2026-11-23 13:00, or 2026-11-25 13:00",
        "or": (
            "2026-11-25 13:00 if Mon 2026-11-23 is closed: "
            "Proposed swap (work on Saturday 2026-11-28), not confirmed"
        ),
        "fee": "0.15 % of the amount",
        "tax": "0.1 % of a sale",
    }
    assert [line.what for line in found.values() if line.rule is None] == ["symbol", "day"]


@every_row(
    ("instrument", "at", "what", "says"),
    [
        (HPG, "10:00", "cancel", "a resting LIMIT order"),
        (HPG, "11:45", "cancel", "no: lunch break"),
        (
            SHS,
            "14:54:59",
            "phase",
            "post-close (PLO), orders gather until 14:55:00, then orders match in one batch; close",
        ),
        (
            SHS,
            "14:55",
            "phase",
            "post-close (PLO), orders match at once until 15:00:00, then closed",
        ),
        (SHS, "14:50", "even lots", "PLO"),
        (SHS, "14:50", "quantity", "multiples of 100 without a largest, or 1 to 99"),
        (SHS, "10:00", "tick", "100 VND"),
        (
            of_status("RES"),
            "10:12",
            "phase",
            "periodic auction, no changes any more until 10:15:00, then orders match in one batch",
        ),
        (
            of_status("RES"),
            "10:02",
            "phase",
            "periodic auction, orders gather until 10:10:00; lunch break from 11:30:00",
        ),
        (of_status("RES"), "10:12", "cancel", "no: the last minutes of the auction"),
        (of_status("RES"), "10:02", "cancel", "a resting LIMIT order"),
        (of_status("RES"), "10:02", "odd lots", "none is taken"),
        (of_status("RES"), "10:02", "bot", "places no order: under restricted trading: RES"),
        (of_status("SUS"), "10:02", "bot", "places no order: the exchange takes no order: SUS"),
        (of_status("SUS"), "10:02", "even lots", "none is taken"),
        (of_status("NWE"), "10:02", "band", "20 % up and down from the reference"),
        (of_status("RES", Exchange.UPCOM), "10:02", "phase", "closed until 2026-11-20 09:00, "),
        (Instrument("CW1", Exchange.HOSE, InstrumentKind.CW), "10:00", "price", "no rule for the"),
        (Instrument("CW1", Exchange.UPCOM, InstrumentKind.CW), "10:00", "price", "no rule for the"),
    ],
)
def test_each_state_of_a_symbol_is_explained(rulebook: Rulebook, instrument, at, what, says):
    assert said(rulebook, instrument, at)[what].says.startswith(says)


@pytest.mark.parametrize(
    ("day", "says", "rule"),
    [
        (date(2026, 11, 21), "Sat 2026-11-21, closed: weekend", None),
        (
            date(2026, 11, 24),
            "Tue 2026-11-24, closed: Vietnam Culture Day (EXPECTED: decided,",
            "calendar.closed",
        ),
        (
            MONDAY,
            "Mon 2026-11-23, a trading day unless it is closed: Proposed",
            "calendar.unconfirmed_closures",
        ),
        (date(2028, 1, 3), "Mon 2028-01-03, closed: a year that the calendar", None),
    ],
)
def test_a_day_says_why_it_is_open_or_closed(rulebook: Rulebook, day, says, rule):
    line = said(rulebook, HPG, "10:00", day)["day"]

    assert line.says.startswith(says)
    assert (line.rule.rule if line.rule else None) == rule


def test_the_end_of_the_calendar_is_told_not_guessed(rulebook: Rulebook):
    line = said(rulebook, HPG, "10:00", date(2027, 12, 31))["settlement"]

    assert line.says.startswith("the trading calendar does not cover")


# ------------------------------------------------------------------------ what is not certain

DOUBT = "Proposed swap (work on Saturday 2026-11-28)"


@pytest.mark.parametrize(
    ("day", "says", "sure", "late"),
    [
        (date(2026, 11, 17), "2026-11-19 13:00", "high", None),
        (THURSDAY, "2026-11-23 13:00, or 2026-11-25 13:00", "low", "2026-11-25 13:00 if"),
        (
            date(2026, 11, 20),
            "2026-11-25 13:00, or 2026-11-26 13:00",
            "low",
            f"2026-11-26 13:00 if Mon 2026-11-23 is closed: {DOUBT}, not confirmed",
        ),
        (MONDAY, "2026-11-26 13:00", "high", None),
    ],
)
def test_a_settlement_over_a_day_that_may_be_closed_names_both_days_and_is_less_sure(
    rulebook: Rulebook, day, says, sure, late
):
    found = said(rulebook, HPG, "10:00", day)

    assert found["settlement"].says == f"bought now: sellable {says}"
    assert found["settlement"].rule.confidence == sure
    if late is None:
        assert "or" not in found
    else:
        assert found["or"].says.startswith(late)
        assert found["or"].rule.confidence == "UNCONFIRMED"


def test_once_the_operator_has_decided_the_day_there_is_one_settlement(rulebook: Rulebook):
    closed = rulebook.with_override({"closed": [{"date": "2026-11-23", "name": "Swap"}]})

    found = said(closed, HPG, "10:00", date(2026, 11, 20))

    assert found["settlement"].says == "bought now: sellable 2026-11-26 13:00"
    assert found["settlement"].rule.confidence == "high"


def test_a_phase_of_a_day_that_may_be_closed_is_less_sure(rulebook: Rulebook):
    assert said(rulebook, HPG, "10:00", MONDAY)["phase"].rule.confidence == "low"
    assert said(rulebook, HPG, "10:00")["phase"].rule.confidence == "high"


@pytest.mark.parametrize("day", [date(2026, 12, 31), date(2027, 1, 4)])
def test_a_share_that_should_have_left_hnx_is_told_so_and_its_rules_are_doubted(
    rulebook: Rulebook, day
):
    found = said(rulebook, SHS, "14:50", day)

    assert found["move"].says == (
        "all HNX shares were to be on HOSE by 2026-12-31: ask the broker where it trades"
    )
    own = [line.rule for line in found.values() if line.rule and line.rule.rule.startswith("HNX.")]
    assert len(own) > 5
    assert {rule.confidence for rule in own} == {"low"}
    assert found["tax"].rule.confidence == "high"


def test_until_then_the_announced_move_of_hnx_shares_is_named(rulebook: Rulebook):
    found = said(rulebook, SHS, "10:00")

    assert found["move"].says.startswith("all HNX shares move to HOSE by 2026-12-31")
    assert found["move"].rule.rule == "HNX.moves_to_hose"
    assert found["band"].rule.confidence == "high"


@pytest.mark.parametrize(
    "instrument", [HPG, Instrument("XYZ", Exchange.UPCOM), Instrument("E1", Exchange.HNX, ETF)]
)
def test_what_does_not_move_is_not_said_to(rulebook: Rulebook, instrument):
    found = said(rulebook, instrument, "10:00", date(2027, 1, 4))

    assert "move" not in found
    assert found["band"].rule.confidence == "high"


def test_a_status_that_nobody_has_told_is_not_called_normal(rulebook: Rulebook):
    supposed = Instrument("HPG", Exchange.HOSE, status=SymbolStatus(is_known=False))

    assert said(rulebook, supposed, "10:00")["symbol"].says == "HOSE STOCK, status not known"
    assert said(rulebook, HPG, "10:00")["symbol"].says == "HOSE STOCK, status NRM"
