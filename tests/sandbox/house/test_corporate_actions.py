"""Dividends and rights: who is entitled, what the reference becomes, when it is paid."""

import json
from dataclasses import asdict
from datetime import date, datetime
from fractions import Fraction
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from bot.domain.instrument import Exchange, Instrument, InstrumentKind
from bot.sandbox.exchange.accounts import Account
from bot.sandbox.exchange.message import Listing
from bot.sandbox.house.corporate_actions import (
    CorporateAction,
    CorporateActions,
    adjusted_reference,
)
from bot.sandbox.house.house import House
from tests.sandbox.client import ACCOUNT, Bench, ready, scenario
from tests.sandbox.exchange.stage import FRIDAY, MONDAY, Stage, listing, local, rules

TUESDAY, WEDNESDAY = date(2026, 11, 24), date(2026, 11, 25)
DATES = {"symbol": "HPG", "ex_date": "2026-11-23", "pays_on": "2026-11-25"}
CASH = {"do": "cash_dividend", "vnd_per_share": 500, **DATES}
STOCK = {"do": "stock_dividend", "new": 15, "held": 100, **DATES}
RIGHTS = {"do": "rights_issue", "new": 1, "held": 2, "price": 10_000, **DATES}
ACTION: TypeAdapter[CorporateAction] = TypeAdapter(CorporateAction)


class Holder:
    """A stage on a Friday afternoon, one account that holds HPG, and actions to come."""

    def __init__(self, *actions: dict[str, Any], shares: int = 1_007, at: str = "10:00") -> None:
        self.stage = Stage(at, day=FRIDAY)
        self.account = Account(rules(), cash=50_000_000, fee_ppm=1_500)
        self.account.deposit_shares("HPG", shares, cost_price=23_000)
        self.seen = 0
        self.actions = CorporateActions(
            [ACTION.validate_python(action) for action in actions],
            rulebook=rules(),
            venue=self.stage.venue,
            accounts={"mine": self.account},
            since=self.stage.now,
        )

    def reach(self, text: str, day: date) -> None:
        """Move to an instant, past whatever goes ex before it."""
        while (due := self.actions.next_due()) is not None and due <= local(text, day):
            self._at(due)
            self.actions.run_due(due)
        self._at(local(text, day))

    def _at(self, at: datetime) -> None:
        self.stage.now = at
        self.stage.kept(self.stage.venue.advance(at))
        self.account.settle(at)

    def trade(self, line: str, other: str) -> None:
        order = self.stage.order(line, owner="mine")
        self.stage.submit(other)
        self.account.reserve(order, self.stage.venue.board("HPG"))
        for event in self.stage.venue.submit(order, self.stage.now):
            self.account.apply(event)

    def view(self) -> Any:
        return self.account.holdings(self.stage.now.date())[0]


def reference(holder: Holder) -> int:
    return holder.stage.venue.board("HPG").reference


def test_a_cash_dividend_is_owed_from_the_ex_date_and_there_on_the_payment_date():
    holder = Holder(CASH)

    holder.reach("08:00", MONDAY)

    assert holder.account.figures(MONDAY).dividends_due == 1_007 * 500 - 25_175
    assert holder.account.cash == 50_000_000
    holder.reach("07:59:59", WEDNESDAY)
    assert holder.account.cash == 50_000_000
    holder.reach("08:00", WEDNESDAY)
    assert holder.account.cash == 50_000_000 + 478_325
    assert holder.account.figures(WEDNESDAY).dividends_due == 0


def test_the_ex_date_begins_on_the_adjusted_reference_and_its_band():
    holder = Holder(CASH)

    holder.reach("09:00", MONDAY)

    board = holder.stage.venue.board("HPG")
    assert (board.reference, board.ceiling, board.floor) == (24_850, 26_550, 23_150)
    holder.reach("09:00", TUESDAY)
    assert reference(holder) == 24_850


@pytest.mark.parametrize(
    ("close", "actions", "expected"),
    [
        (25_350, [CASH], 24_850),
        (25_350, [STOCK], 22_050),
        (25_300, [STOCK], 22_000),
        (25_350, [RIGHTS], 20_250),
        (25_350, [CASH, STOCK], 21_600),
        (25_350, [CASH, STOCK, RIGHTS], 18_100),
        (50_200, [CASH], 49_700),
        (12_025, [CASH | {"vnd_per_share": 2_026}], 10_000),
        (400, [CASH], 10),
    ],
)
def test_the_reference_follows_the_formula_to_the_nearest_tick(close, actions, expected):
    parsed = [ACTION.validate_python(action) for action in actions]

    found = adjusted_reference(rules(), Instrument("HPG", Exchange.HOSE), close, parsed)

    assert found == expected


def test_the_nearest_tick_of_two_is_the_higher():
    hnx = Instrument("SHS", Exchange.HNX)

    found = [
        adjusted_reference(
            rules(), hnx, 12_000, [ACTION.validate_python(CASH | {"vnd_per_share": n})]
        )
        for n in (449, 450, 451, 500)
    ]

    assert found == [11_600, 11_600, 11_500, 11_500]


def test_new_shares_are_whole_lower_the_average_and_are_sold_only_when_they_are_there():
    holder = Holder(STOCK)

    holder.reach("09:20", MONDAY)

    view = holder.view()
    assert (view.total, view.sellable, view.promised) == (1_007 + 151, 1_007, 151)
    assert view.cost == 1_007 * 23_000
    assert view.cost_price == 20_001
    holder.reach("08:00", WEDNESDAY)
    view = holder.view()
    assert (view.total, view.sellable, view.promised) == (1_158, 1_158, 0)
    assert view.cost_price == 20_001


def test_shares_bought_the_day_before_count_and_those_of_the_ex_date_do_not():
    holder = Holder(CASH, shares=100)
    holder.trade("HPG BUY 200 LO 25350", "HPG SELL 200 LO 25350")

    holder.reach("10:00", MONDAY)
    holder.trade("HPG BUY 300 LO 24850", "HPG SELL 300 LO 24850")

    (promised,) = holder.account.entitlements()
    assert (promised.owned, promised.dividend, promised.tax) == (300, 150_000, 7_500)


def test_who_sells_on_the_ex_date_keeps_what_was_promised():
    holder = Holder(STOCK, shares=1_000)
    holder.reach("10:00", MONDAY)

    holder.trade("HPG SELL 1000 LO 22050", "HPG BUY 1000 LO 22050")

    view = holder.view()
    assert (view.total, view.sellable, view.promised) == (150, 0, 150)
    assert view.cost == 3_000_000
    holder.reach("08:00", WEDNESDAY)
    assert holder.view().sellable == 150


def test_rights_appear_with_their_price_and_lapse_unused():
    holder = Holder(RIGHTS)

    holder.reach("09:00", MONDAY)

    (right,) = holder.account.entitlements()
    assert (right.offered, right.price, right.is_over) == (503, 10_000, False)
    holder.reach("08:00", WEDNESDAY)
    (right,) = holder.account.entitlements()
    assert right.is_over
    assert (holder.view().total, holder.account.cash) == (1_007, 50_000_000)


def test_the_ex_date_of_one_share_leaves_the_first_morning_of_others_as_it_was():
    special = {"symbol": "FPT", "exchange": "HOSE", "reference": 50_000, "is_special": True}
    halted = {"symbol": "VIC", "exchange": "HOSE", "reference": 50_000, "is_halted": True}
    ex = {"symbol": "HPG", "exchange": "HOSE", "reference": 27_000}
    played = scenario(
        start="07:00",
        symbols=[ex, special, halted],
        corporate_actions=[{**CASH, "ex_date": "2026-11-19"}],
    )
    house = House(played, rules())

    house.advance(local("09:16"))

    boards = [house.venue.board(symbol) for symbol in ("HPG", "FPT", "VIC")]
    assert [board.ceiling for board in boards] == [28_350, 60_000, 53_500]
    assert [board.is_halted for board in boards] == [False, False, True]


def test_an_action_that_went_ex_by_the_start_is_past():
    holder = Holder(CASH | {"ex_date": "2026-11-20"})

    holder.reach("09:00", MONDAY)

    assert holder.account.entitlements() == ()
    assert reference(holder) == 25_350


def test_a_promise_is_in_the_accounts_record():
    holder = Holder(CASH)
    holder.reach("09:00", MONDAY)

    (record,) = json.loads(json.dumps(holder.account.to_record()))["entitlements"]

    (promise,) = holder.account.entitlements()
    assert record == {
        **asdict(promise),
        "kind": "CASH_DIVIDEND",
        "ex_date": "2026-11-23",
        "at": promise.at.isoformat(),
    }


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (CASH | {"symbol": "XXX"}, "XXX is not among the shares of this scenario"),
        (CASH | {"pays_on": "2026-11-23"}, "wanted a day after ex_date"),
        (CASH | {"vnd_per_share": 0}, "greater than 0"),
        (STOCK | {"held": 0}, "greater than 0"),
        (CASH | {"do": "split"}, "cash_dividend"),
    ],
)
def test_an_action_that_cannot_be_is_refused(action, words):
    with pytest.raises(ValidationError, match=words):
        scenario(corporate_actions=[action])


# ------------------------------------------------------------------------------- warrants


def warrant(ratio: int, at: int = 1_200) -> Stage:
    covered = Instrument("CHPG2601", Exchange.HOSE, InstrumentKind.CW)
    follows = Listing(covered, at, underlying="HPG", ratio=Fraction(ratio))
    return Stage("10:00", listing(Exchange.HOSE), follows)


def band(stage: Stage) -> tuple[int, int, int]:
    board = stage.venue.board("CHPG2601")
    return board.reference, board.ceiling, board.floor


def test_a_warrant_follows_the_share_that_is_listed_beside_it_also_overnight():
    stage = warrant(2)
    assert band(stage) == (1_200, 2_070, 330)

    stage.submit("HPG SELL 100 LO 27100")
    stage.submit("HPG BUY 100 LO 27100")
    stage.submit("CHPG2601 SELL 100 LO 1500")
    stage.submit("CHPG2601 BUY 100 LO 1500")
    stage.at("10:00", FRIDAY)

    # HPG 27,100: 28,950 / 25,250, so up 925 and down 925 around 1,500.
    assert band(stage) == (1_500, 2_420, 580)


# ----------------------------------------------------------------------------- through the API


async def holder_of(*actions: dict[str, Any]) -> Bench:
    return await ready(scenario(day="2026-11-20", start="14:50:00", corporate_actions=actions))


async def test_the_account_shows_what_is_promised() -> None:
    bench = await holder_of(CASH, STOCK, RIGHTS)
    bench.pass_time(3 * 86_400 - 6 * 3_600)

    portfolio = await bench.get(f"/trading/v2/sub-accounts/{ACCOUNT}/portfolio")
    summary = await bench.get(f"/trading/accounts/{ACCOUNT}/summary")
    rights = await bench.get(f"/trading/v5/account/{ACCOUNT}/user-rights?fromDate=2026-11-23")

    (row,) = portfolio["portfolio"]
    assert (row["total"], row["receiving_right"], row["available"]) == (1_150, 150, 1_000)
    assert summary["ca_receiving"] == 475_000
    assert summary["net_asset_value"] == 100_475_000 + 1_150 * row["basic_price"]
    shown = {right["type"]: right for right in rights}
    assert set(shown) == {"CASH_DIVIDEND", "STOCK_DIVIDEND", "STOCK_RIGHT"}
    assert shown["CASH_DIVIDEND"]["waitingAmountForReturn"] == 475_000
    assert shown["CASH_DIVIDEND"]["amount"] == 500_000
    assert shown["STOCK_DIVIDEND"]["numberOfWaitingStock"] == 150
    assert shown["STOCK_RIGHT"]["totalStocksCanBuy"] == 500
    assert shown["STOCK_RIGHT"]["totalPayAmount"] == 5_000_000
    assert shown["STOCK_DIVIDEND"]["ratio"] == "100:15"


async def test_the_simulated_market_goes_on_around_the_reference_of_the_ex_date() -> None:
    hpg = {"symbol": "HPG", "exchange": "HOSE", "reference": 25_350}
    covered = {"symbol": "CHPG2601", "exchange": "HOSE", "kind": "CW", "reference": 1_200}
    follows = {"underlying": "HPG", "ratio": "2"}
    bonus = {"do": "bonus_shares", "new": 1, "held": 1, **DATES}
    played = scenario(
        day="2026-11-20",
        start="14:50:00",
        symbols=[hpg, covered | follows],
        corporate_actions=[bonus],
    )
    bench = await ready(played)

    bench.pass_time(2 * 86_400 + 18 * 3_600 + 45 * 60)

    quote = await bench.get("/market/quotes/stocks/HPG")
    assert quote["reference"] == 12_700
    assert 12_000 < quote["price"] < 13_400
    assert quote["volume"] > 0
