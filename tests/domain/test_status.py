"""What the exchange says of a symbol, and the day of the restricted ones."""

from copy import deepcopy
from datetime import UTC, date, datetime, time, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.config.rulebook import load_rulebook
from bot.domain.errors import NoRule, RuleDataError
from bot.domain.instrument import EXCHANGE_TZ, Exchange, Lot, Phase
from bot.domain.order import OrderType
from bot.domain.rule_data import RuleData
from bot.domain.rulebook import Rulebook
from bot.domain.status import NORMAL, Administration, Sanction, SymbolStatus, TradingMethod
from bot.domain.timetable import PhaseBoundary
from tests.domain.test_rulebook import read
from tests.rows import every_row

HOSE, HNX, UPCOM, HCX = Exchange.HOSE, Exchange.HNX, Exchange.UPCOM, Exchange.HCX
THURSDAY, FRIDAY = date(2026, 11, 19), date(2026, 11, 20)
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


def local(text: str, day: date = THURSDAY) -> datetime:
    return datetime.combine(day, time.fromisoformat(text), tzinfo=EXCHANGE_TZ)


def status(codes: str) -> SymbolStatus:
    return SymbolStatus.from_data(RuleData(codes, "status"))


RESTRICTED = status("RES")


# ------------------------------------------------------------------------------------- codes


@given(
    st.builds(
        SymbolStatus,
        st.sampled_from(Administration),
        st.sampled_from(TradingMethod),
        st.sampled_from(Sanction),
        st.booleans(),
    )
)
def test_a_status_reads_back_from_its_codes(found):
    assert status(str(found)) == found


@pytest.mark.parametrize("codes", ["", "NRM", "NRM/NRM/NRM/NO_HALT"])
def test_no_code_is_normal(codes):
    assert status(codes) == NORMAL


@pytest.mark.parametrize("codes", ["XYZ", "RES/CR", "RES/RES", "SUS/DTL", "res"])
def test_codes_that_contradict_or_are_unknown_are_refused(codes):
    with pytest.raises(RuleDataError, match="status: wanted codes of different fields"):
        status(codes)


def test_the_rules_name_every_code_of_the_feed():
    codes = read("market.yaml")["status_codes"][0]

    assert set(codes["administration"]) == set(Administration)
    assert set(codes["method"]) == set(TradingMethod)
    assert set(codes["sanction"]) == set(Sanction)


@every_row(
    ("codes", "tradable", "restricted", "special", "first_day"),
    [
        ("", True, False, False, False),
        ("WFR", True, False, False, False),
        ("WID", True, False, False, False),
        ("WOV", True, False, False, False),
        ("CTR", True, False, False, False),
        ("RES", True, True, False, False),
        ("CR", True, True, False, False),
        ("NWE", True, False, True, True),
        ("NWN", True, False, False, True),
        ("SLS", True, False, True, True),
        ("SNE", True, False, True, False),
        ("SUS", False, False, False, False),
        ("DTL", False, False, False, False),
        ("RES/TFR", False, True, False, False),
        ("HALT", False, False, False, False),
    ],
)
def test_each_code_means_what_is_published(
    rulebook: Rulebook, codes, tradable, restricted, special, first_day
):
    rules, found = rulebook.statuses, status(codes)

    assert rules.is_tradable(found) is tradable
    assert rules.is_restricted(found) is restricted
    assert rules.has_special_band(found) is special
    assert rules.is_first_day(found) is first_day


@pytest.mark.parametrize("codes", ["", "WFR", "CTR", "NWE", "SNE"])
def test_the_bot_orders_what_trades_normal_hours(rulebook, codes):
    assert rulebook.objection(status(codes)) is None


@pytest.mark.parametrize("codes", ["RES", "CR", "CR/NWE"])
def test_the_bot_leaves_restricted_symbols_alone(rulebook, codes):
    assert rulebook.objection(status(codes)) == f"under restricted trading: {codes}"


@pytest.mark.parametrize("codes", ["SUS", "DTL", "RES/TFR", "HALT"])
def test_nobody_orders_what_the_exchange_has_stopped(rulebook, codes):
    assert rulebook.objection(status(codes)) == f"the exchange takes no order: {codes}"


# ---------------------------------------------------------------------- restricted trading, HOSE

MORNING = "09:15 09:30 09:45 10:00 10:15 10:30 10:45 11:00 11:15"
AFTERNOON = "13:00 13:15 13:30 13:45 14:00 14:15"
ENDS = "09:15 09:30 09:45 10:00 10:15 10:30 10:45 11:00 11:15 11:30 13:15 13:30 13:45 14:00 14:15"


def test_fifteen_auctions_of_fifteen_minutes_stand_between_opening_and_close(rulebook: Rulebook):
    found, at = [], rulebook.next_uncross(HOSE, local("00:00"), RESTRICTED)
    while at is not None:
        found.append(at.astimezone(EXCHANGE_TZ).strftime("%H:%M"))
        at = rulebook.next_uncross(HOSE, at, RESTRICTED)

    assert found == [*ENDS.split(), "14:30", "14:45"]
    assert len([*MORNING.split(), *AFTERNOON.split()]) == 15


@every_row(
    ("at", "phase", "until"),
    [
        ("08:59:59", Phase.CLOSED, "09:00"),
        ("09:00", Phase.OPEN, "09:15"),
        ("09:15", Phase.CA, "11:30"),
        ("11:29:59", Phase.CA, "11:30"),
        ("11:30", Phase.BREAK, "13:00"),
        ("13:00", Phase.CA, "14:30"),
        ("14:30", Phase.PRE_CLOSED, "14:45"),
        ("14:45", Phase.PUT_THROUGH, "15:00"),
    ],
)
def test_a_restricted_day_has_its_own_phases(rulebook: Rulebook, at, phase, until):
    assert rulebook.phase_at(HOSE, local(at), RESTRICTED) is phase
    assert rulebook.next_phase_change(HOSE, local(at), RESTRICTED).at == local(until)


def test_periodic_auctions_take_limit_orders_in_even_lots_only(rulebook: Rulebook):
    phases = {Phase.OPEN: "LO ATO", Phase.CA: "LO", Phase.PRE_CLOSED: "LO ATC"}
    for phase in Phase:
        even = rulebook.accepted_types(HOSE, phase, Lot.EVEN, RESTRICTED)
        assert even == frozenset(OrderType[word] for word in phases.get(phase, "").split())
        assert rulebook.accepted_types(HOSE, phase, Lot.ODD, RESTRICTED) == frozenset()


@every_row("start", [*MORNING.split(), *AFTERNOON.split()])
def test_the_last_five_minutes_of_each_auction_are_locked(rulebook: Rulebook, start):
    begin = local(start)
    minutes = [begin.replace(minute=begin.minute + minute) for minute in range(15)]

    free = [rulebook.may_cancel(HOSE, Phase.CA, at, RESTRICTED) for at in minutes]

    assert free == [True] * 10 + [False] * 5
    assert free == [rulebook.may_amend(HOSE, Phase.CA, at, RESTRICTED) for at in minutes]


@pytest.mark.parametrize("at", ["09:05", "11:45", "14:31", "14:50", "15:01"])
def test_a_restricted_symbol_is_locked_where_all_are(rulebook: Rulebook, at):
    phase = rulebook.phase_at(HOSE, local(at), RESTRICTED)

    assert not rulebook.may_cancel(HOSE, phase, local(at), RESTRICTED)
    assert not rulebook.may_amend(HOSE, phase, local(at), RESTRICTED)


def test_a_normal_symbol_knows_no_lock(rulebook: Rulebook):
    assert rulebook.may_cancel(HOSE, Phase.PROGRESS, local("09:29"))


# ------------------------------------------------------------------- restricted trading elsewhere


@pytest.mark.parametrize("exchange", [HNX, UPCOM])
def test_restricted_shares_of_hnx_and_upcom_trade_on_fridays(rulebook: Rulebook, exchange):
    assert rulebook.phase_at(exchange, local("10:00", THURSDAY), RESTRICTED) is Phase.CLOSED
    assert rulebook.phase_at(exchange, local("10:00", FRIDAY), RESTRICTED) is Phase.PROGRESS
    opening = PhaseBoundary(local("09:00", FRIDAY).astimezone(UTC), Phase.PROGRESS)
    assert rulebook.next_phase_change(exchange, local("10:00", THURSDAY), RESTRICTED) == opening
    week_later = rulebook.next_step(exchange, local("15:00", FRIDAY), RESTRICTED)
    assert week_later == local("09:00", date(2026, 11, 27))


def test_restricted_trading_of_bonds_is_not_guessed(rulebook: Rulebook):
    with pytest.raises(NoRule, match="restricted trading on HCX"):
        rulebook.phase_at(HCX, local("10:00"), RESTRICTED)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"minutes": 14}, "a whole number of auctions"),
        ({"locked_last_minutes": 15}, "auctions longer than their lock"),
        ({"windows": [["11:30", "09:15"]]}, "a whole number of auctions"),
    ],
)
def test_a_timetable_of_auctions_that_cannot_be_is_refused(changes, message):
    data = deepcopy({**read("market.yaml"), "calendar": read("calendar.yaml")})
    data["restricted_trading"]["HOSE"][0]["periodic"] |= changes

    with pytest.raises(RuleDataError, match=message):
        Rulebook.from_mapping(data)


def test_a_weekday_is_written_in_capitals():
    data = deepcopy({**read("market.yaml"), "calendar": read("calendar.yaml")})
    data["restricted_trading"]["HNX"][0]["weekdays"] = ["Friday"]

    with pytest.raises(RuleDataError, match="wanted one of MON, TUE, WED, THU, FRI"):
        Rulebook.from_mapping(data)


@given(
    exchange=st.sampled_from([HOSE, HNX, UPCOM]),
    at=st.timedeltas(timedelta(0), timedelta(days=700)).map(lambda since: NEW_YEAR + since),
)
def test_a_step_is_never_after_the_next_phase(exchange, at):
    rulebook = load_rulebook()
    step = rulebook.next_step(exchange, at, RESTRICTED)

    assert at < step <= rulebook.next_phase_change(exchange, at, RESTRICTED).at
    just_before = step - timedelta(microseconds=1)
    assert (
        rulebook.span_at(exchange, at, RESTRICTED)
        == rulebook.span_at(exchange, just_before, RESTRICTED)
        or rulebook.phase_at(exchange, at, RESTRICTED) is Phase.CLOSED
    )
