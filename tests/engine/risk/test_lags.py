"""An account that stands still while our orders are filled raises an alert; a slow one does not."""

from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest

from bot.domain.account import AccountSnapshot, Holding
from bot.domain.entry import Note, RunState
from bot.domain.message import AccountRead, ReadAccount, TradingDayStarted
from bot.domain.operations import TradingDayEnded
from bot.domain.order import Intent, OrderReport, OrderState
from bot.domain.plan import AccountLimits
from bot.engine.settings import EngineSettings
from tests.engine.stage import ACCOUNT, DAY, RULEBOOK, Stage, report_of

CASH = 100_000_000
AGE = AccountLimits(max_account_age=timedelta(seconds=120))


def paid(quantity: int, price: int = 27_000) -> int:
    amount = quantity * price
    return amount + RULEBOOK.fee(amount)


@dataclass
class Day:
    """A broker that shows an account, and a bot with an order that works in HPG all day."""

    stage: Stage
    intent: Intent
    executed: int = 0

    def fill(self, quantity: int) -> None:
        self.executed += quantity
        self.stage.after(1).book(report_of(self.intent, executed=self.executed))

    def read(
        self,
        shares: int,
        cash: int,
        *,
        times: int = 1,
        s: float = 60,
        secured: int | None = 0,
        others: tuple[Holding, ...] = (),
    ) -> None:
        for _ in range(times):
            now = self.stage.after(s).now
            self.stage.book(self.row())
            held = {"HPG": Holding("HPG", shares, 0, shares, 27_000)} if shares else {}
            held |= {each.symbol: each for each in others}
            snapshot = AccountSnapshot(now, ACCOUNT, cash, cash, held, secured=secured)
            self.stage.handle(AccountRead(now, snapshot))

    def row(self) -> OrderReport:
        order_id = self.stage.engine._state.intents[self.intent.intent_id].order_id or ""
        return report_of(self.intent, order_id, executed=self.executed)

    def alerts(self) -> list[str]:
        return [each.code for each in self.stage.engine.status().standing]

    def told(self) -> list[str]:
        return [str(n.numbers["alert"]) for n in self.stage.all(Note) if n.kind == "ALERT"]

    def buys(self) -> str:
        """What becomes of another buy now, once the order has ended."""
        left = self.intent.quantity - self.executed
        ended = {"status": "CANCELLED", "state": OrderState.CANCELLED}
        self.stage.book(report_of(self.intent, executed=self.executed, cancelled=left, **ended))  # type: ignore[arg-type]
        self.stage.quote()
        self.stage.request(lambda s: s.buy(100, limit=26_900, why="more"))
        return self.stage.decided()[1]

    def age_s(self) -> int | None:
        uses = self.stage.engine.limits()
        return next(each.used for each in uses if each.key == "max_account_age_s")


@pytest.fixture
def day() -> Day:
    stage = Stage(settings=EngineSettings(account_limits=AGE))
    return Day(stage, stage.working(1_000, 27_000))


def test_a_portfolio_that_stands_still_while_an_order_works_is_told_of(day: Day) -> None:
    day.fill(300)

    day.read(0, CASH - paid(300))  # perhaps only a slow node
    assert day.alerts() == []
    day.read(0, CASH - paid(300), times=3)

    [told] = day.stage.engine.status().standing
    assert (told.code, told.facts["off"], told.facts["reads"]) == ("ACCOUNT_OLD", "HPG -300", 4)
    assert "as it was before our fill of 2026-11-19 09:30:01" in told.text
    assert day.told() == ["ACCOUNT_OLD"]


def test_a_cash_that_stands_still_on_a_day_of_buys_is_told_of(day: Day) -> None:
    day.fill(300)

    day.read(300, CASH, times=4)

    [told] = day.stage.engine.status().standing
    assert (told.code, told.facts["off"]) == ("ACCOUNT_OLD", f"cash +{paid(300):,} VND")


@pytest.mark.parametrize("off", [-1, 0, 1])
def test_a_fee_that_is_rounded_in_another_way_hides_no_old_cash(day: Day, off: int) -> None:
    day.fill(300)
    rounded = CASH - paid(300) - off
    day.read(300, rounded, times=2)
    [before] = day.stage.engine.balances()
    day.fill(100)

    day.read(400, rounded, times=4)

    [told] = day.stage.engine.status().standing
    assert (told.code, told.facts["off"]) == ("ACCOUNT_OLD", f"cash +{paid(100) - off:,} VND")
    [after] = day.stage.engine.balances()
    assert abs(after.buying_power - before.buying_power) <= 1


def test_money_that_an_old_account_shows_is_not_spent_twice(day: Day) -> None:
    [before] = day.stage.engine.balances()
    day.fill(300)

    day.read(300, CASH, times=2)

    [after] = day.stage.engine.balances()
    assert after.buying_power == before.buying_power


@pytest.mark.parametrize("secured", [None, paid(300)])
def test_money_that_is_held_for_a_buy_is_not_spent_twice(day: Day, secured: int | None) -> None:
    [before] = day.stage.engine.balances()
    day.fill(300)

    day.read(300, CASH, times=2, secured=secured)
    [held] = day.stage.engine.balances()
    day.read(300, CASH - paid(300))
    [deducted] = day.stage.engine.balances()

    assert (day.alerts(), day.age_s()) == ([], 0)
    assert held.buying_power == deducted.buying_power == before.buying_power


@pytest.mark.parametrize("secured", [0, None])
def test_shares_that_nothing_explains_make_no_base_of_an_old_cash(
    day: Day, secured: int | None
) -> None:
    [before] = day.stage.engine.balances()
    day.fill(1_000)
    given = Holding("SSI", 200, 200, 0, 20_000)

    for _ in range(4):
        day.read(1_000, CASH, secured=secured, others=(given,))
        [after] = day.stage.engine.balances()
        assert after.buying_power == before.buying_power
    assert "BREAK" in day.alerts()
    day.read(1_000, CASH - paid(1_000), times=3, others=(given,))

    [found] = day.stage.engine.reconciliation().breaks
    assert (found.symbol, day.alerts()) == ("SSI", ["BREAK"])
    [after] = day.stage.engine.balances()
    assert after.buying_power == before.buying_power


def test_the_age_of_an_old_account_counts_from_the_fill_that_it_lacks(day: Day) -> None:
    day.fill(300)

    day.read(0, CASH - paid(300))
    assert day.age_s() == 60
    day.read(0, CASH - paid(300), times=2)

    assert day.age_s() == 180
    assert day.buys() == "ACCOUNT_AGE"


def test_it_is_over_when_the_account_shows_the_fills_for_a_while(day: Day) -> None:
    day.fill(300)
    day.read(0, CASH, times=4)
    assert day.alerts() == ["ACCOUNT_OLD"]

    day.read(300, CASH - paid(300))  # one node of two
    day.read(0, CASH)
    day.read(300, CASH - paid(300), times=2)
    assert day.alerts() == ["ACCOUNT_OLD"]
    day.read(300, CASH - paid(300))

    assert (day.alerts(), day.age_s(), day.told()) == ([], 0, ["ACCOUNT_OLD"])
    assert day.stage.last(Note).text == "the broker's account shows our fills again"


def test_an_old_read_is_followed_by_others_soon_and_not_for_ever(day: Day) -> None:
    day.fill(300)
    day.read(0, CASH - paid(300))

    assert ReadAccount in {type(each) for each in day.stage.pass_time(5)}
    day.read(0, CASH - paid(300), times=3, s=15)
    asked = [each for _ in range(4) for each in day.stage.pass_time(15)]

    assert day.alerts() == ["ACCOUNT_OLD"]
    assert ReadAccount not in {type(each) for each in asked}


@pytest.mark.parametrize("lag_s", [1, 20, 45])
def test_an_account_that_lags_some_seconds_behind_many_fills_is_not_told_of(
    day: Day, lag_s: int
) -> None:
    shown: list[tuple[datetime, int, int]] = [(day.stage.now, 0, CASH)]
    cash = CASH
    for _ in range(9):
        day.fill(100)
        cash -= paid(day.executed) - paid(day.executed - 100)
        shown.append((day.stage.now, day.executed, cash))
        seen_at = day.stage.now + timedelta(seconds=15 - lag_s)
        _, shares, old_cash = [each for each in shown if each[0] <= max(seen_at, shown[0][0])][-1]
        day.read(shares, old_cash, s=15)
        assert (day.age_s() or 0) <= 60

    assert (day.alerts(), day.told()) == ([], [])


def test_of_ten_reads_an_old_one_is_not_told_of(day: Day) -> None:
    day.fill(300)
    for _ in range(6):
        day.read(0, CASH)
        day.read(300, CASH - paid(300), times=9)

    assert (day.alerts(), day.told()) == ([], [])


def test_fills_that_are_not_known_yet_are_no_old_account(day: Day) -> None:
    day.fill(300)

    day.read(700, CASH - paid(700), times=5)  # the day order book is the slower one

    told = ["FILLS_UNSHOWN"]
    assert (day.alerts(), day.told(), day.age_s()) == (told, told, 0)


@pytest.mark.parametrize(("secured", "told"), [(None, False), (paid(300), False), (0, True)])
def test_money_that_is_held_for_a_buy_and_taken_later_is_not_old(
    day: Day, secured: int | None, told: bool
) -> None:
    day.fill(300)

    day.read(300, CASH, times=5, secured=secured)

    assert (day.alerts() == ["ACCOUNT_OLD"]) is told


def test_a_broker_who_has_taken_the_money_of_one_buy_holds_none_back(day: Day) -> None:
    day.fill(300)
    day.read(300, CASH - paid(300))
    day.fill(300)

    day.read(600, CASH - paid(300), times=5, secured=CASH)

    assert day.alerts() == ["ACCOUNT_OLD"]


def test_money_of_a_buy_that_was_gone_and_is_there_again_is_that_of_an_old_account(
    day: Day,
) -> None:
    day.fill(300)
    day.read(300, CASH - paid(300))

    day.read(300, CASH, times=5, secured=None)

    assert day.alerts() == ["ACCOUNT_OLD"]


def test_a_portfolio_with_shares_of_the_owner_that_stands_still_is_told_of() -> None:
    stage = Stage(settings=EngineSettings(account_limits=AGE), sellable=1_000)
    day = Day(stage, stage.working(1_000, 27_000))

    day.fill(300)
    day.read(1_000, CASH - paid(300), times=4)

    assert day.alerts() == ["ACCOUNT_OLD"]


def test_an_account_of_before_numbers_that_had_agreed_already_is_told_of() -> None:
    """A node that has stood still since the morning answers from now on."""
    stage = Stage(settings=EngineSettings(account_limits=AGE))
    first = Day(stage, stage.working(300, 27_000))
    first.fill(300)
    first.read(300, CASH - paid(300), times=2)  # nothing is under way: it counts from here
    assert stage.engine._state.ledgers[ACCOUNT].flows == []
    stage.quote()
    day = Day(stage, stage.working(1_000, 26_900, "ORD2"))

    day.read(0, CASH, times=4)

    [told] = stage.engine.status().standing
    assert (told.code, told.facts["off"]) == ("ACCOUNT_OLD", f"HPG -300, cash +{paid(300):,} VND")
    assert stage.engine._state.exposure.of(ACCOUNT).held["HPG"] == 300


def test_an_old_cash_is_no_break_while_the_day_lasts_and_none_of_it_is_spent_again() -> None:
    stage = Stage(settings=EngineSettings(account_limits=AGE))
    day = Day(stage, stage.working(300, 27_000))
    day.fill(300)
    day.read(300, CASH - paid(300), times=2)
    [before] = stage.engine.balances()

    day.read(300, CASH, times=6)

    [after] = stage.engine.balances()
    assert after.buying_power == before.buying_power
    assert day.alerts() == ["ACCOUNT_OLD"]
    _end(day)
    day.read(300, CASH, times=3)
    assert day.alerts() == ["BREAK"]


def _end(day: Day) -> None:
    stage = day.stage
    stage.now = datetime.fromisoformat("2026-11-19T15:15+07:00")
    stage.handle(TradingDayEnded(stage.now, DAY))


def test_a_day_that_ends_with_an_old_cash_ends_with_a_break(day: Day) -> None:
    day.fill(1_000)
    day.read(1_000, CASH, times=4)

    _end(day)
    day.read(1_000, CASH, times=3)

    expected = CASH - paid(1_000)
    [found] = day.stage.engine.reconciliation().breaks
    assert (found.symbol, found.ours, found.theirs) == (None, expected, CASH)
    assert day.alerts() == ["BREAK"]
    assert "shows our fills again" not in [note.text for note in day.stage.all(Note)]


def test_a_portfolio_that_stands_still_over_the_night_is_a_break_at_the_close(day: Day) -> None:
    day.fill(300)
    day.read(0, CASH - paid(300), times=4)

    _end(day)
    day.read(0, CASH - paid(300), times=3)
    day.stage.after(86_400).handle(TradingDayStarted(day.stage.now, DAY + timedelta(days=1)))

    [found] = day.stage.engine.reconciliation().breaks
    assert (found.symbol, found.ours, found.theirs) == ("HPG", 300, 0)
    assert day.stage.engine.status().state is RunState.STARTING
