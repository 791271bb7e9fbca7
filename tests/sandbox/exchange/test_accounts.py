"""Money and shares of one account: reservations, charges, T+2, average cost."""

import json
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.domain.instrument import Exchange
from bot.sandbox.errors import UnknownReservation
from bot.sandbox.exchange.accounts import Account, Booked, Figures, HoldingView
from bot.sandbox.exchange.message import NewOrder, Refusal
from bot.sandbox.exchange.obligations import Tariff
from tests.sandbox.exchange.stage import FRIDAY, MONDAY, THURSDAY, Stage, listing, local, rules

TICK = timedelta(microseconds=1)


class Client:
    """An account that trades on a stage, as the sandbox wires it."""

    def __init__(self, stage: Stage, *, cash: int = 0, fee_ppm: int = 1_500) -> None:
        self.stage = stage
        self.account = Account(rules(), cash=cash, fee_ppm=fee_ppm)
        self.seen = 0

    def place(self, line: str, name: str = "mine") -> Refusal | None:
        order = self.stage.order(line, owner="me", name=name)
        board = self.stage.venue.board(order.symbol)
        refusal = self.stage.venue.refusal(order) or self.account.can_place(order, board)
        if refusal is None:
            self.account.reserve(order, board)
            self.stage.kept(self.stage.venue.submit(order, self.stage.now))
            self.booked()
        return refusal

    def booked(self) -> list[Booked]:
        """Book what the stage has seen since the last call, and settle by its time."""
        events, self.seen = self.stage.all[self.seen :], len(self.stage.all)
        booked = [fill for event in events for fill in self.account.apply(event)]
        self.account.settle(self.stage.now)
        return booked

    def other(self, line: str) -> None:
        self.stage.submit(line)
        self.booked()


def client(at: str = "10:00", **money: int) -> Client:
    return Client(Stage(at), **money)


def holder(at: str = "10:00") -> Client:
    found = client(at)
    found.account.deposit_shares("HPG", 1_000, cost_price=20_000)
    return found


def test_a_buy_costs_its_amount_and_fee_at_once():
    mine = client(cash=30_000_000)
    mine.other("HPG SELL 1000 LO 25400")

    mine.place("HPG BUY 1000 LO 25400")

    assert mine.account.cash == 30_000_000 - 25_438_100
    assert mine.account.secured == 0
    assert mine.account.fees == 38_100


def test_a_sale_brings_its_amount_without_fee_and_tax_on_the_second_day():
    mine = holder()
    mine.other("HPG BUY 1000 LO 25400")

    mine.place("HPG SELL 1000 LO 25400")

    assert mine.account.figures(THURSDAY).receiving == (25_336_500, 0, 0)
    assert (mine.account.fees, mine.account.taxes, mine.account.cash) == (38_100, 25_400, 0)
    mine.account.settle(local("13:00", MONDAY) - TICK)
    assert mine.account.cash == 0
    mine.account.settle(local("13:00", MONDAY))
    assert mine.account.cash == 25_336_500


def test_a_small_sale_is_charged_half_up():
    stage = Stage("10:00", listing(Exchange.HOSE, 9_990))
    mine = Client(stage)
    mine.account.deposit_shares("HPG", 7, cost_price=9_000)
    mine.other("HPG BUY 7 LO 9990")

    mine.place("HPG SELL 7 LO 9990")

    assert (mine.account.fees, mine.account.taxes) == (105, 70)
    assert mine.account.figures(THURSDAY).receiving == (69_755, 0, 0)


@given(st.lists(st.integers(1, 12), min_size=1, max_size=8), st.integers(841, 959))
def test_partial_fills_are_charged_as_the_whole_order_would_be(parts, tens):
    mine = Client(Stage("10:00", listing(Exchange.HOSE, 9_000)))
    mine.account.deposit_shares("HPG", sum(parts), cost_price=9_000)
    mine.place(f"HPG SELL {sum(parts)} LO {tens * 10}")

    for quantity in parts:
        mine.stage.submit(f"HPG BUY {quantity} LO {tens * 10}")
    fills = mine.booked()

    amount = sum(parts) * tens * 10
    assert mine.account.fees == rules().fee(amount, 1_500) == sum(fill.fee for fill in fills)
    assert mine.account.taxes == rules().sale_tax(amount) == sum(fill.tax for fill in fills)


@pytest.mark.parametrize(
    ("at", "line", "held"),
    [
        ("10:00", "HPG BUY 100 LO 25000", 2_503_750),
        ("09:05", "HPG BUY 100 ATO", 2_714_065),
        ("10:00", "SHS BUY 100 LO 12000", 1_201_800),
        ("14:31", "SHS BUY 100 ATC", 1_321_980),
    ],
)
def test_a_working_buy_holds_its_price_or_the_ceiling_with_the_fee(at, line, held):
    mine = client(at, cash=10_000_000)

    mine.place(line)

    assert mine.account.secured == held
    assert mine.account.cash == 10_000_000


def test_an_after_hours_buy_holds_the_close():
    mine = client(cash=10_000_000)
    mine.stage.last("SHS", 12_100)
    mine.stage.at("14:46")

    mine.place("SHS BUY 100 PLO")

    assert mine.account.secured == 1_211_815


def test_a_market_remainder_holds_its_own_price():
    mine = client(cash=10_000_000)
    mine.other("HPG SELL 100 LO 25400")

    mine.place("HPG BUY 300 MTL")

    fee_of_all, fee_of_first = rules().fee(7_630_000, 1_500), rules().fee(2_540_000, 1_500)
    assert mine.account.secured == 2 * 2_545_000 + fee_of_all - fee_of_first


def test_a_cheaper_fill_gives_the_difference_back():
    mine = client(cash=10_000_000)
    mine.other("HPG SELL 100 LO 25000")

    mine.place("HPG BUY 200 LO 25500")

    assert mine.account.cash == 10_000_000 - 2_503_750
    assert mine.account.secured == 100 * 25_500 + rules().fee(5_050_000, 1_500) - 3_750


@pytest.mark.parametrize("ending", ["cancel", "lapse"])
def test_what_does_not_trade_gives_everything_back(ending):
    mine = client(cash=10_000_000)
    mine.place("HPG BUY 200 LO 25000")

    if ending == "cancel":
        mine.stage.cancel("mine")
    else:
        mine.stage.at("16:00")
    mine.booked()

    assert (mine.account.cash, mine.account.secured) == (10_000_000, 0)


def test_buying_power_pays_its_own_fee_and_not_one_dong_more():
    mine = client(cash=2_503_750)

    assert mine.account.buying_power() == 2_500_000
    assert mine.place("HPG BUY 100 LO 25050", "dear") is Refusal.BUYING_POWER
    assert mine.place("HPG BUY 100 LO 25000") is None
    assert mine.account.buying_power() == 0


@given(st.integers(0, 10**12), st.integers(0, 4_500))
def test_the_affordable_amount_is_the_greatest(money, fee_ppm):
    tariff = Tariff(rules(), fee_ppm)

    amount = tariff.affordable(money)

    assert tariff.cost(amount) <= money < tariff.cost(amount + 1)


def test_shares_bought_are_sellable_from_13_o_clock_of_the_second_day():
    mine = client(cash=30_000_000)
    mine.other("HPG SELL 1000 LO 25400")
    mine.place("HPG BUY 1000 LO 25400")

    def receiving(day):
        return mine.account.holdings(day)[0].receiving

    assert (receiving(THURSDAY), mine.account.sellable("HPG")) == ((1_000, 0, 0), 0)
    assert mine.place("HPG SELL 100 LO 25400", "too early") is Refusal.SELLABLE
    assert receiving(FRIDAY) == (0, 1_000, 0)
    assert receiving(MONDAY) == (0, 0, 1_000)
    assert mine.account.next_settlement() == local("13:00", MONDAY)
    mine.account.settle(local("13:00", MONDAY))
    assert (receiving(MONDAY), mine.account.sellable("HPG")) == ((0, 0, 0), 1_000)


def test_a_working_sale_holds_its_shares():
    mine = holder()
    mine.place("HPG SELL 600 LO 26000", "first")

    assert mine.account.sellable("HPG") == 400
    assert mine.place("HPG SELL 500 LO 26000", "second") is Refusal.SELLABLE
    assert mine.account.holdings(THURSDAY) == [
        HoldingView("HPG", 1_000, 400, 600, (0, 0, 0), 20_000_000, 20_000)
    ]


def test_the_average_cost_moves_with_buys_and_stays_with_sales():
    mine = holder()
    mine.account.cash = 100_000_000
    mine.other("HPG SELL 500 LO 26000")
    mine.place("HPG BUY 500 LO 26000", "buy")

    assert mine.account.holdings(THURSDAY)[0].cost_price == 22_000
    mine.other("HPG BUY 900 LO 25000")
    mine.place("HPG SELL 900 LO 25000", "sell")
    holding = mine.account.holdings(THURSDAY)[0]

    assert (holding.total, holding.cost_price) == (600, 22_000)


def test_what_was_sold_out_is_no_holding_any_more():
    mine = holder()
    mine.other("HPG BUY 1000 LO 25000")

    mine.place("HPG SELL 1000 LO 25000")

    assert mine.account.holdings(THURSDAY) == []


def test_an_amendment_needs_the_money_of_its_new_size():
    mine = client(cash=5_007_500)
    mine.place("HPG BUY 100 LO 25000")

    assert mine.account.can_amend("mine", quantity_change=100) is None
    assert mine.account.can_amend("mine", quantity_change=200) is Refusal.BUYING_POWER
    assert mine.account.can_amend("mine", price=27_000) is None
    assert mine.account.can_amend("mine", price=25_050, quantity_change=100) is (
        Refusal.BUYING_POWER
    )
    mine.stage.amend("mine", quantity=200)
    mine.booked()
    assert mine.account.secured == 5_007_500


def test_an_amended_sale_needs_the_shares_of_its_new_size():
    mine = holder()
    mine.place("HPG SELL 600 LO 26000")

    assert mine.account.can_amend("mine", quantity_change=400) is None
    assert mine.account.can_amend("mine", quantity_change=500) is Refusal.SELLABLE


def test_a_held_order_can_be_released_once():
    mine = client(cash=10_000_000)
    order: NewOrder = mine.stage.order("HPG BUY 100 LO 25000", name="held")
    mine.account.reserve(order, mine.stage.venue.board("HPG"))

    mine.account.release("held")

    assert mine.account.secured == 0
    with pytest.raises(UnknownReservation):
        mine.account.release("held")


def test_net_assets_fall_by_charges_alone():
    mine = holder()
    mine.account.cash = 50_000_000
    prices = {"HPG": 25_000}
    before = mine.account.net_assets(prices)

    mine.other("HPG BUY 500 LO 25000")
    mine.place("HPG SELL 500 LO 25000", "sell")
    mine.other("HPG SELL 300 LO 25000")
    mine.place("HPG BUY 300 LO 25000", "buy")

    charges = mine.account.fees + mine.account.taxes
    assert mine.account.net_assets(prices) == before - charges


def test_an_account_is_written_as_json():
    mine = holder()
    mine.account.cash = 50_000_000
    mine.other("HPG SELL 300 LO 25000")
    mine.place("HPG BUY 500 LO 25000", "buy")
    mine.place("HPG SELL 200 LO 26000", "sell")

    record = json.loads(json.dumps(mine.account.to_record()))

    working = {"symbol": "HPG", "exchange": "HOSE", "kind": "STOCK", "open_quantity": 200}
    due = {"symbol": "HPG", "traded_on": "2026-11-19", "at": "2026-11-23T06:00:00+00:00"}
    buy = {"order_id": "buy", "side": "BUY", "unit_price": 25_000, "amount": 7_500_000}
    sell = {"order_id": "sell", "side": "SELL", "unit_price": 26_000, "amount": 0}
    assert record == {
        "cash": 42_488_750,
        "fees": 11_250,
        "taxes": 0,
        "fee_ppm": 1_500,
        "positions": [{"symbol": "HPG", "settled": 1_000, "cost": 27_500_000}],
        "dividends": 0,
        "dividend_taxes": 0,
        "due": [{**due, "quantity": 300}],
        "entitlements": [],
        "reservations": [{**working, **buy}, {**working, **sell}],
    }


def test_orders_of_others_change_nothing():
    mine = client(cash=1_000)
    mine.other("HPG SELL 300 LO 25000")
    mine.other("HPG BUY 300 MTL")

    assert mine.account.figures(THURSDAY) == Figures(1_000, 0, 999, (0, 0, 0), 0, 0)


def test_both_sides_of_one_trade_may_be_the_same_account():
    mine = holder()
    mine.account.cash = 30_000_000
    mine.place("HPG SELL 1000 LO 25000", "sell")

    mine.place("HPG BUY 1000 LO 25000", "buy")

    (holding,) = mine.account.holdings(THURSDAY)
    assert (holding.total, holding.sellable, holding.receiving) == (1_000, 0, (1_000, 0, 0))
    assert mine.account.cash == 30_000_000 - 25_037_500
