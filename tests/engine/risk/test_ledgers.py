"""Our own numbers beside the broker's: what explains a difference, and what is noted."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import pytest

from bot.domain.account import AccountSnapshot, Holding, ShareholderRight
from bot.domain.entry import Fill, Note, RunState
from bot.domain.message import AccountRead, TradingDayStarted
from bot.domain.recovery import Recovery
from bot.engine.settings import EngineSettings
from tests.engine.stage import ACCOUNT, DAY, RULEBOOK, Stage, report_of

SETTLES = datetime.fromisoformat("2026-11-23T13:00+07:00")
BOUGHT = 200 * 27_000
COST = BOUGHT + RULEBOOK.fee(BOUGHT)
DIVIDEND = ShareholderRight("000001", "HPG", "CASH_DIVIDEND", "1:500", 1_000, 500_000, 0)
BONUS = ShareholderRight("000002", "HPG", "STOCK_DIVIDEND", "100:15", 200, 0, 30)


@dataclass
class Broker:
    """The broker's numbers, read by the engine of a stage."""

    stage: Stage
    cash: int = 100_000_000
    total: int = 0
    sellable: int = 0

    def read(
        self, times: int = 1, rights: tuple[ShareholderRight, ...] | None = None, **changes: int
    ) -> None:
        for name, value in changes.items():
            setattr(self, name, value)
        for _ in range(times):
            now = self.stage.after(60).now
            holding = Holding("HPG", self.total, self.sellable, self.total - self.sellable, 27_000)
            snapshot = AccountSnapshot(now, ACCOUNT, self.cash, self.cash, {"HPG": holding})
            self.stage.book()
            self.stage.handle(AccountRead(now, snapshot, rights))

    def notes(self) -> list[str]:
        """What was noted, and the breaks, without their names and what to do about them."""
        return [
            note.text.partition(" ")[2].split(". ")[0].split(" (orders")[0]
            if note.numbers.get("alert") == "BREAK"
            else note.text
            for note in self.stage.all(Note)
            if note.kind == "RECONCILE" or note.numbers.get("alert") == "BREAK"
        ]


def having_bought(*, shown_cash: int = 100_000_000 - COST, **settings: int) -> Broker:
    """200 HPG bought at 27,000 on a Thursday, and a broker that shows just that."""
    stage = Stage(settings=EngineSettings(**settings))  # type: ignore[arg-type]
    intent = stage.working(200, 27_000)
    stage.after(1).book(report_of(intent, executed=200))
    broker = Broker(stage)
    broker.read(cash=shown_cash, total=200)
    return broker


def come_to(stage: Stage, at: datetime) -> None:
    stage.now = at
    stage.handle(TradingDayStarted(at, at.date()))


def test_what_our_fills_explain_is_no_difference():
    broker = having_bought()

    come_to(broker.stage, SETTLES)
    broker.read(2, sellable=200)

    assert broker.notes() == []


def test_cash_that_no_order_explains_is_a_break_with_its_numbers():
    broker = having_bought()

    broker.read(cash=broker.cash - 123_456)
    assert broker.notes() == []
    broker.read(3)

    expected = 100_000_000 - COST
    [found] = broker.stage.engine.reconciliation().breaks
    shown = f"expected {expected:,}, found {expected - 123_456:,}"
    text = f"cash: {shown}: -123,456 VND that no order explains"
    assert (found.text, found.rests_on) == (text, ("ORD1",))
    assert (found.symbol, found.ours, found.theirs) == (None, expected, expected - 123_456)
    assert broker.stage.engine.status().state is RunState.RUNNING


def test_cash_that_looks_like_another_fee_names_the_setting():
    broker = having_bought()

    broker.read(4, cash=broker.cash - 2_700)

    [found] = broker.stage.engine.reconciliation().breaks
    assert found.text.endswith(
        "-2,700 VND that no order explains. It may be a fee: see whether the broker takes "
        "0.15%, as risk.fee_ppm (1,500) says"
    )


@pytest.mark.parametrize(("lost", "state"), [(10_000, "RUNNING"), (10_001, "PAUSED")])
def test_above_the_limit_cash_that_no_order_explains_stops_entries(lost, state):
    broker = having_bought(pause_on_cash_difference=10_000)

    broker.read(2, cash=broker.cash - lost)

    assert broker.stage.engine.status().state == state


def test_after_a_break_the_brokers_number_is_the_base():
    broker = having_bought()
    broker.read(2, cash=broker.cash - 12_345)

    broker.read(2, cash=broker.cash + 5)

    assert len(broker.notes()) == 2
    assert broker.notes()[1].endswith("+5 VND that no order explains")


def test_shares_that_are_not_released_when_they_settle_are_noted():
    broker = having_bought()

    come_to(broker.stage, SETTLES)
    broker.read(2)

    assert broker.notes() == [
        "HPG sellable: expected 200, found 0: -200 shares that no order explains"
    ]


def test_shares_released_a_day_early_are_noted_and_some_hours_early_are_not():
    for early, noted in ((timedelta(hours=3), 0), (timedelta(hours=30), 1)):
        broker = having_bought()
        come_to(broker.stage, SETTLES - early)

        broker.read(2, sellable=200)

        assert len(broker.notes()) == noted


def test_a_broker_who_takes_the_money_of_a_buy_at_the_end_of_the_day_is_understood():
    broker = having_bought(shown_cash=100_000_000)
    broker.read(2)
    assert broker.notes() == []

    come_to(broker.stage, SETTLES - timedelta(days=3))
    broker.read(2, cash=100_000_000 - COST)
    assert broker.notes() == []


def test_shares_of_before_the_first_read_may_settle_whenever_they_do():
    stage = Stage(sellable=100)
    broker = Broker(stage, total=300, sellable=100)
    broker.read(2)
    start = len(broker.notes())

    broker.read(2, sellable=300)

    assert broker.notes()[start:] == []


def test_while_an_order_works_nothing_is_compared():
    broker = having_bought()
    broker.stage.after(61).quote()
    broker.stage.working(100, 26_000, "ORD2")

    broker.read(5, cash=1)

    assert broker.notes() == []


def test_a_cash_dividend_is_named():
    broker = having_bought()
    broker.read(rights=(DIVIDEND,))

    broker.read(2, cash=broker.cash + 475_000)

    assert broker.notes() == ["cash dividend HPG 500 VND/share: +475,000 after tax"]
    broker.read(2, cash=broker.cash + 475_000)
    assert broker.notes()[1].endswith("+475,000 VND that no order explains")


def test_an_old_dividend_of_the_same_amount_explains_nothing():
    broker = having_bought()
    broker.read(rights=(replace(DIVIDEND, paid_on=DAY - timedelta(days=30)),))

    broker.read(2, cash=broker.cash + 475_000)

    assert broker.notes()[0].endswith("+475,000 VND that no order explains")


def test_a_stock_dividend_is_named_and_halts_the_symbol_that_a_strategy_holds():
    broker = having_bought()
    broker.read(rights=(BONUS,))

    broker.read(2, total=230)

    assert broker.notes() == ["stock dividend HPG 100:15: +30 shares"]
    assert "HPG" in broker.stage.engine.status().halted_symbols
    broker.read(2, sellable=30)
    assert len(broker.notes()) == 1


def test_after_a_restart_what_was_bought_before_still_settles():
    fill = having_bought().stage.all(Fill)[0]
    later = DAY + timedelta(days=1)
    stage = Stage(recovery=Recovery(later, recent_fills=((DAY, fill),)))
    broker = Broker(stage, cash=50_000_000, total=200)
    broker.read(2)
    start = len(broker.notes())

    come_to(stage, SETTLES)
    broker.read(2)

    assert [text.split(":")[0] for text in broker.notes()[start:]] == ["HPG sellable"]
