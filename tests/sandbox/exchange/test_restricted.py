"""Symbols that do not trade like the others: restricted, suspended, halted, new."""

import pytest

from bot.domain.instrument import Exchange, Instrument, Phase
from bot.domain.rule_data import RuleData
from bot.domain.status import SymbolStatus
from bot.sandbox.exchange.message import (
    Listing,
    OrderLapsed,
    PhaseMoved,
    Refusal,
    Traded,
    Uncrossed,
)
from tests.sandbox.exchange.stage import (
    FRIDAY,
    REFERENCES,
    Stage,
    fills,
    listing,
    local,
    only,
    trades,
)

HOSE, HNX = Exchange.HOSE, Exchange.HNX


def of_status(codes: str, symbol: str = "HPG", exchange: Exchange = HOSE) -> Listing:
    status = SymbolStatus.from_data(RuleData(codes))
    return Listing(Instrument(symbol, exchange, status=status), REFERENCES.get(symbol, 25_350))


def stage_at(at: str, codes: str = "RES") -> Stage:
    return Stage(at, of_status(codes), listing(HNX))


def test_orders_of_a_periodic_auction_trade_at_its_end_at_one_price():
    stage = stage_at("09:16")
    stage.submit("HPG BUY 500 LO 25500", name="b")
    stage.submit("HPG SELL 300 LO 25300", name="s")
    assert stage.levels("HPG") == ([(25_500, 500)], [(25_300, 300)])

    assert only(stage.at("09:29:59"), Uncrossed) == []
    events = stage.at("09:30")

    assert trades(events) == [(25_500, 300)]
    assert stage.levels("HPG") == ([(25_500, 200)], [])


def test_what_is_left_of_one_auction_is_in_the_next_with_its_time():
    stage = stage_at("09:16")
    stage.submit("HPG BUY 300 LO 25400", name="early")
    stage.at("09:31")
    stage.submit("HPG BUY 300 LO 25400", name="late")
    stage.submit("HPG SELL 400 LO 25400")

    assert fills(stage.at("09:45"))["early"] == 300
    assert [order.order_id for order in stage.venue.open_orders()] == ["late"]


def test_a_day_has_seventeen_auctions_and_rests_over_lunch():
    stage = stage_at("08:30")
    found = []
    for hour in range(9, 15):
        for minute in range(0, 60, 5):
            events = stage.at(f"{hour:02}:{minute:02}")
            found += [each.at for each in only(events, Uncrossed)]
            if stage.refused("HPG BUY 100 LO 25300") is None:
                assert not 11 * 60 + 30 <= hour * 60 + minute < 13 * 60

    assert len(found) == 17
    assert {lapse.at for lapse in only(stage.all, OrderLapsed)} == {local("14:45")}


def test_a_periodic_auction_takes_nothing_but_limit_orders_in_even_lots():
    stage = stage_at("10:00")

    assert stage.refused("HPG BUY 100 MTL") is Refusal.ORDER_TYPE
    assert stage.refused("HPG BUY 100 ATO") is Refusal.ORDER_TYPE
    assert stage.refused("HPG BUY 50 LO 25350") is Refusal.ORDER_TYPE
    assert stage.refused("HPG BUY 100 LO 27150") is Refusal.OUTSIDE_BAND
    assert stage.refused("HPG BUY 100 LO 25350") is None


def test_opening_and_closing_auction_take_their_own_orders():
    stage = stage_at("09:00")
    assert stage.refused("HPG BUY 100 ATO") is None
    stage.at("14:30")
    assert stage.refused("HPG BUY 100 ATC") is None


def test_nothing_is_changed_in_the_last_five_minutes_but_orders_come_in():
    stage = stage_at("10:00")
    stage.submit("HPG BUY 200 LO 25300", name="mine")
    stage.at("10:09:59")
    assert stage.venue.amend_refusal("mine", price=25_250) is None
    stage.at("10:10")
    before = stage.venue.order("mine")

    assert stage.venue.amend_refusal("mine", price=25_200) is Refusal.CHANGE_NOT_NOW
    stage.cancel("mine")
    assert stage.venue.order("mine") == before
    assert stage.refused("HPG SELL 100 LO 25400") is None

    stage.at("10:15")
    stage.cancel("mine")
    assert stage.venue.order("mine") is None


def test_one_investor_stands_on_one_side_of_one_periodic_auction():
    stage = stage_at("10:00")
    assert stage.refused("HPG BUY 100 LO 25300", owner="me") is None
    assert stage.refused("HPG SELL 100 LO 25400", owner="me") is Refusal.OPPOSITE_ORDER

    stage.at("10:15")

    assert stage.refused("HPG SELL 100 LO 25400", owner="me") is None


def test_who_has_taken_the_order_back_may_stand_on_the_other_side():
    stage = stage_at("10:00")
    stage.submit("HPG BUY 100 LO 25300", name="first", owner="me")
    stage.submit("HPG BUY 100 LO 25300", name="second", owner="me")

    stage.cancel("first")
    assert stage.refused("HPG SELL 100 LO 25400", owner="me") is Refusal.OPPOSITE_ORDER
    stage.cancel("second")

    assert stage.refused("HPG SELL 100 LO 25400", owner="me") is None


def test_an_order_amended_to_cross_waits_for_the_end_of_its_auction():
    stage = stage_at("10:00")
    stage.submit("HPG BUY 100 LO 25300", name="bid")
    stage.submit("HPG SELL 100 LO 25400", name="ask")

    amended = stage.amend("ask", price=25_300)
    uncrossed = stage.at("10:15")

    assert only(amended, Traded) == []
    assert [(trade.price, trade.quantity) for trade in only(uncrossed, Traded)] == [(25_300, 100)]


def test_a_restricted_symbol_does_not_move_its_exchange():
    stage = Stage("10:00", listing(HOSE), of_status("CR", "XXX"))

    assert stage.venue.phase(HOSE) is Phase.PROGRESS
    assert stage.venue.phase_of("XXX") is Phase.CA
    assert stage.venue.phase_of("HPG") is Phase.PROGRESS
    moves = [(each.exchange, each.phase) for each in only(stage.at("14:45"), PhaseMoved)]
    assert moves == [
        (HOSE, Phase.BREAK),
        (HOSE, Phase.PROGRESS),
        (HOSE, Phase.PRE_CLOSED),
        (HOSE, Phase.PUT_THROUGH),
    ]


def test_the_indicative_price_of_a_periodic_auction_shows():
    stage = stage_at("10:00")
    stage.submit("HPG BUY 500 LO 25500")
    stage.submit("HPG SELL 300 LO 25300")

    board = stage.venue.board("HPG")

    assert (board.auction_price, board.auction_volume) == (25_500, 300)


def test_a_restricted_share_of_hnx_trades_on_friday():
    stage = Stage("10:00", of_status("RES", "SHS", HNX))
    assert stage.refused("SHS BUY 100 LO 12000") is Refusal.NOT_TRADING

    stage.at("09:00", FRIDAY)

    assert stage.refused("SHS BUY 100 LO 12000") is None


def test_a_symbol_becomes_restricted_overnight_and_normal_again():
    stage = Stage("14:00")
    stage.at("16:00")
    stage.venue.start_day(local("08:00", FRIDAY), [of_status("RES")])
    stage.at("09:20", FRIDAY)
    assert stage.venue.phase_of("HPG") is Phase.CA
    assert stage.venue.phase(HOSE) is Phase.PROGRESS

    stage.at("16:00", FRIDAY)
    stage.venue.start_day(local("08:00", FRIDAY.replace(day=23)), [listing(HOSE)])
    stage.at("09:20", FRIDAY.replace(day=23))

    assert stage.venue.phase_of("HPG") is Phase.PROGRESS


def test_a_restricted_symbol_stays_so_over_night():
    stage = stage_at("14:00")

    stage.at("09:20", FRIDAY)

    assert stage.venue.phase_of("HPG") is Phase.CA


# -------------------------------------------------------------------------------- the other codes


@pytest.mark.parametrize("codes", ["SUS", "DTL", "RES/TFR", "HALT"])
def test_a_stopped_symbol_takes_no_order(codes):
    stage = stage_at("10:00", codes)

    assert stage.refused("HPG BUY 100 LO 25300") is Refusal.HALTED
    assert stage.venue.board("HPG").is_halted


@pytest.mark.parametrize("codes", ["WFR", "WID", "WOV", "CTR", "NWN"])
def test_a_warned_or_controlled_symbol_trades_as_ever(codes):
    stage = stage_at("10:00", codes)

    assert stage.refused("HPG BUY 100 LO 27100") is None
    assert stage.refused("HPG BUY 100 LO 27150") is Refusal.OUTSIDE_BAND


@pytest.mark.parametrize("codes", ["NWE", "SLS", "SNE"])
def test_a_special_method_widens_the_band(codes):
    board = stage_at("10:00", codes).venue.board("HPG")

    assert (board.ceiling, board.floor) == (30_400, 20_300)


@pytest.mark.parametrize(
    ("codes", "refusal"),
    [
        ("NWE", Refusal.ODD_LOT_BAN),
        ("NWN", Refusal.ODD_LOT_BAN),
        ("SLS", Refusal.ODD_LOT_BAN),
        ("SNE", None),
        ("CTR", None),
    ],
)
def test_a_new_or_resumed_symbol_takes_no_odd_lot_before_its_first_price(codes, refusal):
    stage = stage_at("10:00", codes)
    assert stage.refused("HPG BUY 10 LO 25350") is refusal

    stage.last("HPG", 25_350)

    assert stage.refused("HPG BUY 10 LO 25350") is None


def test_a_special_method_is_of_one_day():
    stage = stage_at("10:00", "NWE")
    stage.last("HPG", 25_350)

    stage.at("09:00", FRIDAY)

    assert stage.venue.board("HPG").ceiling == 27_100


@pytest.mark.parametrize(("codes", "refusal"), [("HALT", None), ("SUS/HALT", Refusal.HALTED)])
def test_only_a_short_halt_ends_when_trading_is_resumed(codes, refusal):
    stage = stage_at("10:00", codes)

    stage.venue.resume("HPG", stage.now)

    assert stage.refused("HPG BUY 100 LO 25300") is refusal


@pytest.mark.parametrize(("codes", "refusal"), [("HALT", None), ("SUS", Refusal.HALTED)])
def test_a_short_halt_is_over_the_next_day_and_a_sanction_is_not(codes, refusal):
    stage = stage_at("10:00", codes)

    stage.at("09:20", FRIDAY)

    assert stage.refused("HPG BUY 100 LO 25300") is refusal
