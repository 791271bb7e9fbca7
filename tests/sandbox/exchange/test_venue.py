"""The day of the venue: phases, lapses, lunch, halts, refusals, the next day's references."""

import pytest

from bot.domain.instrument import Exchange, Instrument, InstrumentKind, Phase
from bot.domain.order import OrderType, Side
from bot.domain.venue import Band
from bot.sandbox.errors import (
    DuplicateOrder,
    TimeWentBack,
    TradingDayRuns,
    UnknownSymbol,
)
from bot.sandbox.exchange.message import (
    Listing,
    NewOrder,
    OrderAccepted,
    OrderLapsed,
    PhaseMoved,
    Refusal,
    Uncrossed,
)
from tests.rows import every_row
from tests.sandbox.exchange.stage import (
    FRIDAY,
    MONDAY,
    REFERENCES,
    Stage,
    fills,
    listing,
    local,
    only,
)

HOSE, HNX, UPCOM = Exchange.HOSE, Exchange.HNX, Exchange.UPCOM


def lapsed(events) -> list[tuple[str, str]]:
    return [
        (lapse.order_id, lapse.at.astimezone(local("00:00").tzinfo).strftime("%H:%M"))
        for lapse in only(events, OrderLapsed)
    ]


def test_one_jump_over_the_day_passes_every_boundary_in_time_order():
    stage = Stage("08:00")

    moves = only(stage.at("23:00"), PhaseMoved)

    assert [move.at for move in moves] == sorted(move.at for move in moves)
    assert [move.phase for move in moves if move.exchange is HNX] == [
        Phase.PROGRESS,
        Phase.BREAK,
        Phase.PROGRESS,
        Phase.PRE_CLOSED,
        Phase.POST_SESSION,
        Phase.CLOSED,
    ]


def test_a_jump_and_small_steps_give_the_same_events():
    def play(stage: Stage, *times: str) -> list[object]:
        stage.submit("HPG BUY 500 ATO", name="a")
        stage.submit("HPG SELL 300 LO 25350", name="b")
        for time in times:
            stage.at(time)
        return list(stage.all)

    assert play(Stage("09:05"), "09:15", "11:30", "14:50", "14:55", "16:00") == play(
        Stage("09:05"), "16:00"
    )


def test_the_next_boundary_counts_the_after_hours_batch_and_the_weekend():
    venue = Stage("14:46").venue

    assert venue.next_boundary(local("14:46")) == local("14:55")
    assert venue.next_boundary(local("14:55")) == local("15:00")
    assert venue.next_boundary(local("15:00", FRIDAY)) == local("09:00", MONDAY)


def test_unfilled_orders_lapse_where_their_last_phase_ends():
    stage = Stage("10:00")
    for symbol in ("HPG", "SHS", "BSR"):
        stage.submit(f"{symbol} BUY 100 LO {REFERENCES[symbol]}", name=symbol)
        stage.submit(f"{symbol} BUY 10 LO {REFERENCES[symbol]}", name=f"{symbol} odd")

    assert lapsed(stage.at("16:00")) == [
        ("HPG", "14:45"),
        ("HPG odd", "14:45"),
        ("SHS", "14:45"),
        ("SHS odd", "14:45"),
        ("BSR", "15:00"),
        ("BSR odd", "15:00"),
    ]
    assert stage.venue.open_orders() == []


def test_morning_orders_keep_their_place_over_lunch():
    stage = Stage("11:00")
    stage.submit("HPG BUY 100 LO 25300", name="morning")
    stage.at("12:00")
    assert stage.refused("HPG BUY 100 LO 25300") is Refusal.NOT_TRADING
    stage.at("13:00")
    stage.submit("HPG BUY 100 LO 25300", name="afternoon")

    assert fills(stage.submit("HPG SELL 100 LO 25300", name="s")) == {"morning": 100, "s": 100}


REFUSALS = [
    ("08:59", "HPG BUY 100 LO 25300", Refusal.NOT_TRADING),
    ("14:45", "HPG BUY 100 LO 25300", Refusal.NOT_TRADING),
    ("15:00", "BSR BUY 100 LO 22600", Refusal.NOT_TRADING),
    ("10:00", "XYZ BUY 100 LO 25300", Refusal.UNKNOWN_SYMBOL),
    ("10:00", "HPG BUY 100 ATO", Refusal.ORDER_TYPE),
    ("10:00", "HPG BUY 100 MAK", Refusal.ORDER_TYPE),
    ("10:00", "HPG BUY 100 MP", Refusal.ORDER_TYPE),
    ("09:05", "HPG BUY 100 MTL", Refusal.ORDER_TYPE),
    ("09:05", "SHS BUY 100 ATO", Refusal.ORDER_TYPE),
    ("10:00", "BSR BUY 100 MTL", Refusal.ORDER_TYPE),
    ("10:00", "HPG BUY 50 MTL", Refusal.ORDER_TYPE),
    ("14:46", "SHS BUY 100 LO 12000", Refusal.ORDER_TYPE),
    ("10:00", "HPG BUY 0 LO 25300", Refusal.QUANTITY),
    ("10:00", "HPG BUY 150 LO 25300", Refusal.QUANTITY),
    ("10:00", "HPG BUY 500100 LO 25300", Refusal.TOO_LARGE),
    ("10:00", "HPG BUY 100 LO", Refusal.PRICE_MISSING),
    ("10:00", "HPG BUY 100 MTL 25300", Refusal.PRICE_UNWANTED),
    ("10:00", "HPG BUY 100 LO 25310", Refusal.OFF_TICK),
    ("10:00", "HPG BUY 100 LO 25", Refusal.OFF_TICK),
    ("10:00", "HPG BUY 100 LO 27150", Refusal.OUTSIDE_BAND),
    ("10:00", "HPG BUY 100 LO 23550", Refusal.OUTSIDE_BAND),
    ("10:00", "HPG BUY 100 LO 25350000", Refusal.OUTSIDE_BAND),
    ("10:00", "HPG BUY 100 LO -25350", Refusal.OUTSIDE_BAND),
    ("10:00", "HPG BUY 100 LO 27100", None),
    ("10:00", "HPG BUY 500000 LO 23600", None),
    ("10:00", "SHS BUY 500100 LO 12000", None),
    ("14:59", "BSR BUY 1 LO 22600", None),
]


@every_row(("at", "line", "expected"), REFUSALS)
def test_an_order_is_refused_for_the_first_check_it_fails(at, line, expected):
    assert Stage(at).refused(line) is expected


def test_a_day_without_trading_takes_nothing():
    assert Stage("10:00", day=MONDAY.replace(day=22)).refused("HPG BUY 100 LO 25300") is (
        Refusal.NOT_TRADING
    )


def test_odd_lots_wait_for_a_round_lot_price_on_a_first_day():
    stage = Stage("10:00", listing(HOSE, is_special=True, is_first_day=True))
    assert stage.refused("HPG BUY 10 LO 25300") is Refusal.ODD_LOT_BAN
    stage.last("HPG", 30_000)

    assert stage.refused("HPG BUY 10 LO 25300") is None


def test_a_halted_symbol_takes_no_order_but_lets_one_be_cancelled():
    stage = Stage("10:00")
    stage.submit("HPG BUY 100 LO 25300", name="mine")
    stage.venue.halt("HPG")

    assert stage.refused("HPG BUY 100 LO 25300") is Refusal.HALTED
    assert stage.refused("SHS BUY 100 LO 12000") is None
    assert stage.venue.amend_refusal("mine", quantity=200) is Refusal.HALTED
    stage.cancel("mine")
    assert stage.venue.order("mine") is None


def test_an_auction_missed_by_a_halt_is_held_when_trading_resumes():
    stage = Stage("09:05")
    stage.submit("HPG BUY 300 LO 25500", name="b")
    stage.submit("HPG SELL 200 LO 25300", name="s")
    stage.venue.halt("HPG")
    assert only(stage.at("09:15"), Uncrossed)[0].price is None

    events = stage.venue.resume("HPG", stage.now)

    assert fills(events) == {"b": 200, "s": 200}
    assert stage.levels("HPG") == ([(25_500, 100)], [])


@pytest.mark.parametrize("ends", ["11:30", "12:00", "12:59:59"])
def test_a_halt_that_ends_over_lunch_trades_at_13_00_and_not_before(ends: str):
    stage = Stage("09:05")
    stage.submit("HPG BUY 300 LO 25500", name="b")
    stage.submit("HPG SELL 200 LO 25300", name="s")
    stage.venue.halt("HPG")
    stage.at("09:15")
    stage.at(ends)

    assert fills(stage.venue.resume("HPG", stage.now)) == {}
    assert fills(stage.at("12:59:59")) == {}
    assert fills(stage.at("13:00")) == {"b": 200, "s": 200}
    assert stage.levels("HPG") == ([(25_500, 100)], [])


def test_a_symbol_that_is_halted_still_at_13_00_trades_when_its_halt_ends():
    stage = Stage("09:05")
    stage.submit("HPG BUY 200 LO 25500", name="b")
    stage.submit("HPG SELL 200 LO 25300", name="s")
    stage.venue.halt("HPG")

    assert fills(stage.at("13:10")) == {}
    assert fills(stage.venue.resume("HPG", stage.now)) == {"b": 200, "s": 200}


def test_a_halt_that_ends_in_the_closing_auction_leaves_the_trade_to_the_auction():
    stage = Stage("14:31")
    stage.venue.halt("HPG")
    assert fills(stage.venue.resume("HPG", stage.now)) == {}


def test_the_close_is_the_reference_of_the_next_day():
    stage = Stage("10:00")
    stage.last("HPG", 25_600)
    stage.at("14:50")
    assert stage.venue.board("HPG").close == 25_600

    stage.at("09:00", FRIDAY)

    board = stage.venue.board("HPG")
    assert (board.reference, board.last, board.close, board.volume) == (25_600, None, None, 0)
    assert stage.venue.board("SHS").reference == 12_000


@pytest.mark.parametrize(
    ("made", "reference"),
    [([22_600, 22_700], 22_700), ([22_600, 22_600, 22_700], 22_600), ([], 22_600)],
)
def test_the_upcom_reference_is_the_average_to_the_nearest_tick(made, reference):
    stage = Stage("10:00")
    for price in made:
        stage.last("BSR", price)

    stage.at("09:00", FRIDAY)

    assert stage.venue.board("BSR").reference == reference


def test_upcom_keeps_the_wide_band_until_a_round_lot_price_exists():
    stage = Stage("10:00", listing(UPCOM, is_special=True), listing(HOSE, is_special=True))

    stage.at("09:00", FRIDAY)
    assert stage.venue.board("BSR").ceiling == 31_600
    assert stage.venue.board("HPG").ceiling == 27_100
    stage.last("BSR", 22_600)
    stage.at("09:00", MONDAY)

    assert stage.venue.board("BSR").ceiling == 25_900


def test_a_day_may_be_started_by_hand_on_references_of_the_market():
    stage = Stage("16:00")

    stage.venue.start_day(local("08:00", FRIDAY), [listing(HOSE, 24_000)])
    stage.at("09:00", FRIDAY)

    assert stage.venue.board("HPG").reference == 24_000


def test_no_day_starts_while_one_runs():
    with pytest.raises(TradingDayRuns):
        Stage("10:00").venue.start_day(local("10:00"))


def test_a_covered_warrant_brings_its_own_band():
    instrument = Instrument("CHPG2601", HOSE, InstrumentKind.CW)
    stage = Stage("10:00", Listing(instrument, 1_200, band=Band(ceiling=2_070, floor=330)))

    assert stage.refused("CHPG2601 BUY 100 LO 2070") is None
    assert stage.refused("CHPG2601 BUY 100 LO 2080") is Refusal.OUTSIDE_BAND


def test_a_covered_warrant_s_band_moves_with_its_price_over_night():
    instrument = Instrument("CHPG2601", HOSE, InstrumentKind.CW)
    stage = Stage("10:00", Listing(instrument, 1_200, band=Band(ceiling=2_070, floor=330)))
    stage.last("CHPG2601", 870)

    stage.at("09:00", FRIDAY)

    board = stage.venue.board("CHPG2601")
    assert (board.reference, board.ceiling, board.floor) == (870, 1_740, 10)


def test_time_never_goes_back():
    stage = Stage("10:00")

    with pytest.raises(TimeWentBack):
        stage.venue.advance(local("09:59"))


def test_an_id_that_works_cannot_come_again():
    stage = Stage("10:00")
    stage.submit("HPG BUY 100 LO 25300", name="mine")

    with pytest.raises(DuplicateOrder):
        stage.submit("HPG BUY 100 LO 25300", name="mine")


def test_a_symbol_that_is_not_listed_has_no_board():
    venue = Stage("10:00").venue

    for look in (venue.board, venue.depth, venue.phase_of):
        with pytest.raises(UnknownSymbol):
            look("XYZ")


def test_an_order_that_comes_late_finds_the_phase_of_its_own_time():
    stage = Stage("09:05")
    order = NewOrder("late", "", "HPG", Side.BUY, 100, OrderType.MTL, None)

    events = stage.venue.submit(order, local("09:15"))

    assert isinstance(events[0], PhaseMoved)
    assert stage.venue.phase(HOSE) is Phase.PROGRESS


def test_the_first_order_of_a_day_meets_that_day_s_prices():
    stage = Stage("14:00")
    stage.last("HPG", 27_100)
    order = NewOrder("early", "", "HPG", Side.BUY, 100, OrderType.LO, 28_950)

    events = stage.venue.submit(order, local("09:00", FRIDAY))

    assert OrderAccepted(local("09:00", FRIDAY), "early") in events
    assert [level.price for level in stage.venue.depth("HPG").bids] == [28_950]
