"""Our own numbers beside the broker's: what explains a difference, and what is noted."""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import pytest

from bot.domain.account import AccountSnapshot, Holding, ShareholderRight
from bot.domain.entry import AccountSeen, Fill, Note, OrderUpdated, RunState, StateChanged
from bot.domain.instrument import Phase
from bot.domain.message import (
    AccountRead,
    InstrumentsRead,
    PlaceOrder,
    Reconciled,
    TradingDayStarted,
)
from bot.domain.order import OrderReport, OrderState, SendState
from bot.domain.plan import AccountLimits
from bot.domain.recovery import RecoveredStrategy, Recovery, StoredIntent
from bot.engine.flows import AccountLedger, Flow
from bot.engine.risk.expected import Expected, Shares, expected_at
from bot.engine.settings import EngineSettings
from tests.engine.stage import (
    ACCOUNT,
    DAY,
    HPG,
    PLAN,
    RULEBOOK,
    START,
    Stage,
    report_of,
    sell_intent,
)

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
    blocked: int = 0

    def read(
        self, times: int = 1, rights: tuple[ShareholderRight, ...] | None = None, **changes: int
    ) -> None:
        for name, value in changes.items():
            setattr(self, name, value)
        for _ in range(times):
            now = self.stage.after(60).now
            receiving = self.total - self.sellable - self.blocked
            holding = Holding("HPG", self.total, self.sellable, receiving, 27_000)
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


def with_shares_on_their_way(sellable: int) -> Broker:
    """A broker that shows 300 HPG from the first read on, of which so many may be sold."""
    stage = Stage(sellable=sellable, is_open=False)
    stage.handle(InstrumentsRead(stage.now, (HPG,)))
    stage.phase(Phase.PROGRESS)
    broker = Broker(stage, total=300, sellable=sellable)
    broker.read()
    stage.handle(Reconciled(stage.now))
    return broker


def test_once_shares_of_an_unknown_date_have_settled_the_figures_with_them_are_the_base():
    broker = with_shares_on_their_way(100)

    broker.read(sellable=250)
    some = broker.stage.engine._state.ledgers[ACCOUNT].base
    broker.read(sellable=300)

    assert some.held("HPG").sellable == 250
    assert broker.stage.engine._state.ledgers[ACCOUNT].base.at == broker.stage.now


def test_shares_that_may_have_come_early_or_be_of_an_unknown_date_are_no_base_until_it_is_known():
    broker = with_shares_on_their_way(0)
    stage = broker.stage
    stage.quote()
    intent = stage.working(200, 27_000)
    stage.after(1).book(report_of(intent, executed=200))
    broker.read(2, cash=100_000_000 - COST, total=500)
    come_to(stage, SETTLES - timedelta(hours=1))
    broker.read(2)
    before = stage.engine._state.ledgers[ACCOUNT].base

    broker.read(2, sellable=200)
    kept = stage.engine._state.ledgers[ACCOUNT].base
    come_to(stage, SETTLES)
    broker.read(2, sellable=500)

    assert kept == before
    assert stage.engine._state.ledgers[ACCOUNT].base.at == stage.now
    assert broker.notes() == []


def test_shares_held_back_for_somebody_elses_order_are_not_taken_for_those_that_are_still_to_come():
    broker = with_shares_on_their_way(100)
    sale = report_of(sell_intent(Stage().buy(100, 27_900)), "APP1")

    broker.stage.book(sale)
    broker.read(2, sellable=200, blocked=100)
    broker.stage.book(replace(sale, cancelled_quantity=100, state=OrderState.CANCELLED))
    broker.read(3, sellable=300, blocked=0)

    assert broker.notes() == []
    assert broker.stage.engine._state.ledgers[ACCOUNT].base.held("HPG").sellable == 300


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


@pytest.mark.parametrize(("came", "noted"), [(30, "stock dividend HPG 100:15"), (31, "HPG in all")])
def test_so_does_one_while_the_strategy_that_holds_the_shares_does_not_run(came, noted):
    held = RecoveredStrategy({"HPG": (200, 5_400_000), "FPT": (100, 9_000_000)}, 0, 0, 0, "on")
    plan, recovery = replace(PLAN, name="other"), Recovery(DAY, strategies={"test": held})
    broker = Broker(Stage(plan, sellable=200, recovery=recovery), total=200, sellable=200)
    broker.read(rights=(BONUS,))

    broker.read(2, total=200 + came)

    assert broker.notes()[0].startswith(noted)
    assert list(broker.stage.engine.status().halted_symbols) == ["HPG"]


@pytest.mark.parametrize("total", [200, 400])
@pytest.mark.parametrize("of_one_that_is_gone", [0, 200, 300])
def test_shares_that_another_name_still_counts_keep_no_drift_from_halting(
    total: int, of_one_that_is_gone: int
) -> None:
    """After SHARES_GONE a strategy is to get another name: the old one's shares are in no account
    then.
    """
    known = {"test": 300, "old": of_one_that_is_gone}
    strategies = {
        name: RecoveredStrategy({"HPG": (shares, 27_000 * shares)}, 0, 0, 0, "on")
        for name, shares in known.items()
    }
    stage = Stage(sellable=300, recovery=Recovery(DAY, strategies=strategies))
    broker = Broker(stage, total=300, sellable=300)
    broker.read(2)

    broker.read(3, total=total, sellable=total)

    assert [each.split(",")[0] for each in broker.notes()] == ["HPG in all: expected 300"]
    assert list(stage.engine.status().halted_symbols) == ["HPG"]


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


def sold_before_its_symbol_was_taken_out() -> tuple[AccountSnapshot, Fill]:
    """200 shares sold at 27,000 on a Thursday, and the account before: the next run trades HPG."""
    held = RecoveredStrategy({"HPG": (200, BOUGHT)}, 0, 0, 0, "on")
    first = Stage(sellable=200, recovery=Recovery(DAY, strategies={"test": held}))
    first.request(lambda s: s.sell(200, limit=27_000))
    intent = first.last(PlaceOrder).intent
    first.accept(intent)
    first.after(1).book(report_of(intent, executed=200))
    [fill] = first.all(Fill)
    base = AccountSnapshot(first.now, ACCOUNT, 100_000_000, 100_000_000, {})
    return base, replace(fill, symbol="FPT")


def test_the_money_of_a_sale_comes_also_if_no_strategy_trades_the_symbol_any_more():
    base, fill = sold_before_its_symbol_was_taken_out()
    later = DAY + timedelta(days=1)
    stage = Stage(
        recovery=Recovery(later, recent_fills=((DAY, fill),), bases=(base,)), is_open=False
    )
    broker = Broker(stage)

    come_to(stage, SETTLES)
    broker.read(2, cash=100_000_000 + fill.amount - fill.fee - fill.tax)

    assert broker.notes() == []


@pytest.mark.parametrize("gone", [{"strategy": "gone"}, {"strategy": "test"}])
def test_an_open_order_in_a_symbol_that_no_strategy_trades_is_no_break_when_it_fills(gone):
    first = Stage()
    intent = first.working(200, 27_000)
    order = replace(first.last(OrderUpdated), symbol="FPT", **gone)
    kept = StoredIntent(replace(intent, symbol="FPT", **gone), SendState.ACKED, "ORD1", None)
    base = AccountSnapshot(START, ACCOUNT, 100_000_000, 100_000_000, {})
    recovery = Recovery(DAY, 2, 1, intents=(kept,), orders=(order,), bases=(base,))
    stage = Stage(recovery=recovery, is_open=False)
    row = report_of(kept.intent, executed=200, state=OrderState.FILLED, status="MATCHED")
    shown = {"FPT": Holding("FPT", 200, 0, 200, 27_000)}

    for _ in range(3):
        now = stage.after(60).now
        stage.book(replace(row, requested_at=now))
        stage.handle(AccountRead(now, replace(base, at=now, cash=base.cash - COST, holdings=shown)))

    assert len(stage.all(Fill)) == 1
    assert stage.engine.reconciliation().breaks == ()


# ---------------------------------------------------------------------------------- what is a base


def bases(stage: Stage) -> list[datetime]:
    return [each.at for each in stage.all(StateChanged) if each.scope == f"base:{ACCOUNT}"]


def test_the_first_figures_of_an_account_are_kept_as_its_base_and_equal_ones_are_not_again():
    stage = Stage()
    first = bases(stage)
    broker = Broker(stage)

    broker.read(1)  # the price of its shares is another
    broker.read(3)

    assert (first, len(bases(stage))) == ([START], 2)


def test_cash_that_comes_without_an_order_of_today_is_a_base_of_its_own():
    stage, proceeds = having_sold()
    Broker(stage).read(1)
    before = len(bases(stage))

    come_to(stage, SETTLES)
    Broker(stage, cash=100_000_000 + proceeds).read(3)

    assert len(bases(stage)) == before + 1


def test_the_brokers_cash_is_kept_as_the_base_in_the_read_that_makes_a_break_certain():
    broker = Broker(Stage())
    broker.read(1)
    before = len(bases(broker.stage))

    broker.read(2, cash=broker.cash - 123_456)

    assert bases(broker.stage)[before:] == [broker.stage.now]
    assert broker.stage.engine._state.ledgers[ACCOUNT].base.cash == broker.cash


def having_sold() -> tuple[Stage, int]:
    """A stage that has sold 200 HPG, and what that brings on T+2."""
    held = RecoveredStrategy({"HPG": (200, 5_200_000)}, 0, 0, 0, "on")
    stage = Stage(sellable=200, recovery=Recovery(DAY, strategies={"test": held}))
    stage.request(lambda s: s.sell(200, limit=27_000))
    sale = stage.last(PlaceOrder).intent
    stage.accept(sale)
    stage.after(1).book(report_of(sale, executed=200))
    return stage, BOUGHT - RULEBOOK.fee(BOUGHT) - RULEBOOK.sale_tax(BOUGHT)


def test_the_money_of_a_sale_may_come_some_hours_early_on_its_day():
    stage, proceeds = having_sold()
    broker = Broker(stage)
    broker.read(1)

    come_to(stage, SETTLES - timedelta(hours=3))
    broker.read(2, cash=100_000_000 + proceeds)

    assert broker.notes() == []


def test_what_settles_in_the_very_instant_of_a_read_counts_once():
    broker = having_bought()

    come_to(broker.stage, SETTLES - timedelta(seconds=60))
    broker.read(1, sellable=200)
    assert broker.stage.now == SETTLES
    broker.read(3)

    assert broker.notes() == []


def test_what_is_certain_in_one_symbol_is_the_base_though_another_is_at_work():
    stage = Stage()
    stage.working()

    for _ in range(4):
        now = stage.after(90).now
        stage.book(report_of(stage.engine._state.intents["L-0001"].intent))
        found = {"SSI": Holding("SSI", 300, 300, 0, 20_000)}
        stage.handle(AccountRead(now, AccountSnapshot(now, ACCOUNT, stage.cash, stage.cash, found)))

    text = "SSI in all: expected 0, found 300: +300 shares that no order explains"
    assert [each.text for each in stage.engine.reconciliation().breaks] == [text]
    assert stage.engine.reconciliation().doubts == ()
    assert [note.text for note in stage.all(Note) if note.kind == "RECONCILE"] == []


def test_shares_that_may_not_be_sold_and_are_not_on_their_way_are_noted_once_while_an_order_works():
    stage = Stage()
    read_beside(stage, 3, Holding("SSI", 300, 300, 0, 20_000))
    stage.quote()
    row = report_of(stage.working())

    read_beside(stage, 6, Holding("SSI", 300, 100, 0, 20_000), row)

    told = [note.text.partition(":")[0] for note in stage.all(Note) if note.kind == "RECONCILE"]
    assert told == ["SSI sellable", "SSI receiving"]


def read_beside(stage: Stage, times: int, holding: Holding, *rows: OrderReport) -> None:
    """Have an account read that holds shares of the owner's, while these orders are there."""
    for _ in range(times):
        now = stage.after(60).now
        stage.book(*rows)
        held = {holding.symbol: holding}
        stage.handle(AccountRead(now, AccountSnapshot(now, ACCOUNT, stage.cash, stage.cash, held)))


@pytest.mark.parametrize(
    ("total", "sellable", "told"),
    [
        (500, 300, {"total": 300, "sellable": 300, "receiving": 0}),
        (250, 0, {"total": 50, "sellable": 0, "receiving": 50}),
        (150, 0, {"total": -50, "sellable": 0, "receiving": -50}),
    ],
)
def test_a_break_of_shares_says_which_of_them_it_has_corrected(total, sellable, told):
    broker = having_bought(shown_cash=100_000_000)
    broker.read(2)

    broker.read(2, total=total, sellable=sellable)

    [note] = [each for each in broker.stage.all(Note) if each.numbers.get("alert") == "BREAK"]
    assert {name: note.numbers[name] for name in told} == told
    base = broker.stage.engine._state.ledgers[ACCOUNT].base.held("HPG")
    assert {name: getattr(base, name) for name in told} == told


def test_a_right_and_a_difference_in_what_may_be_sold_say_what_they_have_corrected():
    broker = having_bought(shown_cash=100_000_000)
    broker.read(2, rights=(BONUS,))

    broker.read(2, total=230)
    broker.read(2, sellable=40)

    corrected = [
        tuple(note.numbers[name] for name in ("total", "sellable", "receiving"))
        for note in broker.stage.all(Note)
        if note.kind == "RECONCILE"
    ]
    assert corrected == [(30, 0, 30), (0, 40, -40)]


def test_an_order_on_its_way_in_one_account_holds_up_no_figures_of_another():
    stage = Stage()
    stage.send(stage.buy())
    other = AccountSnapshot(stage.now, "120C900001.6", 5_000_000, 5_000_000, {})

    stage.handle(AccountRead(stage.now, other))

    assert [each.scope for each in stage.new(StateChanged)] == ["base:120C900001.6"]


def test_figures_of_before_a_fill_that_come_after_it_are_no_difference():
    broker = having_bought()
    stage = broker.stage.after(60)
    stage.quote()
    asked_at = stage.now
    stage.after(1)
    intent = stage.working(100, 27_000, "ORD2")
    stage.after(1).book(report_of(intent, "ORD2", executed=100))

    held = {"HPG": Holding("HPG", 200, 0, 200, 27_000)}
    cash = broker.cash
    stage.handle(AccountRead(stage.now, AccountSnapshot(asked_at, ACCOUNT, cash, cash, held)))

    assert stage.engine.reconciliation().doubts == ()


def test_a_difference_that_no_second_read_has_shown_is_named():
    broker = having_bought()

    broker.read(1, cash=1_000, total=100)

    assert broker.stage.engine.reconciliation().doubts == (
        "cash: 1,000 at the broker",
        "HPG in all: 100 at the broker",
    )


# ------------------------------------------------------------------- while our own fills move them

ONE = COST // 2
GONE = 30_000_000


@dataclass
class Trading:
    """A stage that goes on buying HPG, a hundred for 27,000 each time, and its broker's account."""

    stage: Stage
    cash: int = 100_000_000
    shares: int = 0
    rows: list[OrderReport] = field(default_factory=list)

    def read(self, seconds: float = 60, *, cash: int = 0, shares: int = 0) -> None:
        """Read an account that shows so much more."""
        now = self.stage.after(seconds).now
        self.stage.book(*self.rows)
        held = {"HPG": Holding("HPG", self.shares + shares, 0, self.shares + shares, 27_000)}
        shown = AccountSnapshot(now, ACCOUNT, self.cash + cash, 0, held if self.shares else {})
        self.stage.handle(AccountRead(now, shown))

    def buy(self, *, elsewhere: bool = False) -> None:
        """Buy as a strategy does, or in the broker's app: the account shows that at once."""
        order_id = f"ORD{len(self.rows) + 1}"
        self.stage.after(20).quote()
        bought = (
            Stage().buy(100, 27_000) if elsewhere else self.stage.working(100, 27_000, order_id)
        )
        row = report_of(bought, order_id, executed=100, state=OrderState.FILLED, status="MATCHED")
        self.rows.append(replace(row, requested_at=self.stage.after(1).now))
        self.cash, self.shares = self.cash - ONE, self.shares + 100
        if not elsewhere:
            self.stage.book(*self.rows)

    def told(self) -> list[str]:
        codes = [str(note.numbers.get("alert")) for note in self.stage.all(Note)]
        return [code for code in codes if code in {"BREAK", "ACCOUNT_IN_DOUBT", "ACCOUNT_OLD"}]


def trading() -> Trading:
    day = Trading(Stage(settings=EngineSettings(pause_on_cash_difference=GONE - 1)))
    day.read()
    day.read()
    return day


def test_money_that_went_is_a_break_though_fills_go_on():
    day = trading()
    day.cash -= GONE

    for _ in range(3):
        day.buy()
        for seconds in (1, 5, 15):
            day.read(seconds)

    [found] = day.stage.engine.reconciliation().breaks
    assert found.text.endswith(f": {-GONE:+,} VND that no order explains")
    assert (day.told(), day.stage.engine.status().state) == (["BREAK"], RunState.PAUSED)


@pytest.mark.parametrize("gone", [{"cash": -GONE}, {"shares": -550}])
def test_what_went_is_a_break_though_one_order_fills_piece_by_piece(gone):
    day = trading()
    day.buy()
    for _ in range(3):
        day.buy()
    day.read()
    day.stage.quote()
    intent = day.stage.working(900, 27_000, "LONG")

    for executed in range(100, 600, 100):
        row = report_of(intent, "LONG", executed=executed, state=OrderState.PARTIALLY_FILLED)
        day.rows = [*day.rows[:4], row]
        day.cash, day.shares = day.cash - ONE, day.shares + 100
        day.read(20, **gone)

    assert len(day.stage.engine.reconciliation().breaks) == 1
    assert day.told() == ["BREAK"]


def test_an_account_that_is_always_one_fill_behind_makes_no_break_of_it():
    day = trading()
    day.buy()
    day.read()

    for _ in range(12):
        day.buy()
        day.read(1, cash=ONE, shares=-100)
        day.read(5, cash=ONE, shares=-100)

    assert day.told() == []


def test_shares_that_are_as_many_as_fills_of_longer_ago_than_any_node_lags_are_a_break():
    day = trading()
    for _ in range(4):
        day.buy()
    day.read()

    for _ in range(5):
        day.buy()
        day.read(10, shares=-300)

    assert "BREAK" in day.told()


def test_an_account_that_stands_still_for_a_minute_is_a_break_though_fills_go_on():
    day = trading()
    day.buy()
    day.read()

    for behind in range(1, 4):
        day.buy()
        day.read(10, shares=-100 * behind, cash=ONE * behind)

    assert day.told() == ["BREAK"]


def test_trades_by_hand_that_the_account_shows_before_the_day_order_book_make_no_break():
    day = trading()
    for _ in range(4):
        day.buy()
        day.read(20)

    for _ in range(12):
        day.buy(elsewhere=True)
        newest = day.rows.pop()
        day.read(9)
        day.rows.append(newest)

    assert "BREAK" not in day.told()


def test_what_differs_in_every_read_otherwise_is_told_after_three_minutes_and_until_it_is_over():
    day = trading()

    for times in range(12):
        day.read(15, cash=-GONE - times)
    early = day.told()
    day.read(15, cash=-GONE - 12)

    [standing] = day.stage.engine.status().standing
    assert (early, day.told(), standing.code) == ([], ["ACCOUNT_IN_DOUBT"], "ACCOUNT_IN_DOUBT")
    assert standing.facts == {
        "account": "001.1",
        "symbol": None,
        "what": "cash",
        "since": (START + timedelta(seconds=135)).isoformat(),
        "off": f"{-GONE - 12:+,} VND",
        "do_buys_leave": True,
        "limit_s": None,
    }
    day.read(15, cash=-GONE - 13)
    assert day.told() == ["ACCOUNT_IN_DOUBT"]
    day.read()
    assert day.stage.engine.status().standing == ()


@pytest.mark.parametrize(
    ("shares", "limit_s", "says"),
    [
        (50, 120, "Nothing is bought while its figures are older than 120 s; sales and cancels go"),
        (50, None, "Orders go on"),
        (0, 120, "Orders go on"),
    ],
)
def test_a_doubt_that_lasts_says_whether_buys_go_on(shares, limit_s, says):
    most = None if limit_s is None else timedelta(seconds=limit_s)
    limits = AccountLimits(max_account_age=most)
    day = Trading(Stage(settings=EngineSettings(account_limits=limits)))
    day.read()
    day.buy()
    day.read(20)
    day.read(20)

    for times in range(14):
        day.read(15, shares=-shares - times if shares else 0, cash=-GONE - times)
    day.stage.quote()
    day.stage.request(lambda s: s.buy(100, limit=26_900, why="as asked"))

    goes_on = says == "Orders go on"
    standing = [
        each for each in day.stage.engine.status().standing if each.code == "ACCOUNT_IN_DOUBT"
    ]
    facts = [(each.facts["do_buys_leave"], each.facts["limit_s"]) for each in standing]
    assert [f"break yet. {says}" in each.text for each in standing] == [True] * (1 + bool(shares))
    assert set(facts) == {(goes_on, limit_s)}
    assert day.stage.decided() == (("PASSED", "OK") if goes_on else ("BLOCKED", "ACCOUNT_AGE"))


def test_a_doubt_about_each_of_two_accounts_since_the_same_second_is_told_twice():
    day = trading()

    for times in range(14):
        day.read(15, cash=-GONE - times)
        for number in (2, 3):
            off = GONE + times if times else 0
            name = f"120C90000{number}.1"
            shown = AccountSnapshot(day.stage.now, name, 10**9 - off, 0, {})
            day.stage.handle(AccountRead(day.stage.now, shown))

    told = [note.numbers["account"] for note in day.stage.all(Note) if note.kind == "ALERT"]
    assert told == ["001.1", "002.1", "003.1"]


def test_a_read_that_agrees_in_between_begins_the_three_minutes_anew():
    day = trading()

    for times in range(12):
        day.read(30, cash=-GONE - times if times % 5 else 0)

    assert day.told() == []


# -------------------------------------------------------------------------------- what a right says


@pytest.mark.parametrize(("days", "is_named"), [(-8, False), (-7, True), (7, True), (8, False)])
def test_a_dividend_may_come_a_week_from_the_day_that_the_broker_names(days, is_named):
    broker = having_bought()
    broker.read(rights=(replace(DIVIDEND, paid_on=DAY + timedelta(days=days)),))

    broker.read(2, cash=broker.cash + 475_000)

    assert broker.notes()[0].startswith("cash dividend") is is_named
    assert broker.stage.engine.status().halted_symbols == {}


def test_new_shares_of_another_symbol_explain_nothing():
    broker = having_bought()
    broker.read(rights=(replace(BONUS, symbol="SSI"),))

    broker.read(2, total=230)

    assert broker.notes()[0].endswith("+30 shares that no order explains")


def test_new_shares_that_no_strategy_holds_are_named_and_halt_nothing():
    stage = Stage(sellable=200)
    broker = Broker(stage, total=200, sellable=200)
    broker.read(rights=(BONUS,))

    broker.read(2, total=230)

    assert broker.notes() == ["stock dividend HPG 100:15: +30 shares"]
    assert stage.engine.status().halted_symbols == {}


def test_one_right_may_bring_money_and_shares_once_each():
    both = replace(BONUS, dividend=500_000)
    broker = having_bought()
    broker.read(rights=(both,))

    broker.read(2, cash=broker.cash + 500_000, total=230)

    assert [text.rpartition(": ")[2] for text in broker.notes()] == [
        "+500,000 before tax",
        "+30 shares",
    ]


# -------------------------------------------------------- beside money that is held or came early


@pytest.mark.parametrize("moved", [10_000_000, -10_000_000])
def test_money_that_moves_beside_money_held_for_a_buy_is_all_that_is_unexplained(moved: int):
    broker = having_bought(shown_cash=100_000_000)
    broker.read(2)
    after = 100_000_000 + moved

    for times in (1, 3):  # also before a second read makes it certain
        broker.read(times, cash=after)
        assert broker.stage.engine.balances()[0].buying_power == after - COST
    come_to(broker.stage, SETTLES - timedelta(days=3))
    broker.read(3, cash=after - COST)

    shown = f"expected 100,000,000, found {after:,}"
    assert broker.notes() == [f"cash: {shown}: {moved:+,} VND that no order explains"]


def started_again(first: Stage) -> Broker:
    """The next run of a day on a journal that has the first one's base, fills and reads."""
    base = first.engine._state.ledgers[ACCOUNT].base
    reads = [each.snapshot for each in first.all(AccountSeen) if each.at > base.at]
    fills = tuple((DAY, fill) for fill in first.all(Fill))
    held = RecoveredStrategy({"HPG": (200, BOUGHT)}, 0, 0, 0, "on")
    seen = {each.cash: each for each in reads}
    recovery = Recovery(
        DAY,
        recent_fills=fills,
        bases=(base,),
        strategies={"test": held},
        account_reads=tuple(sorted(seen.values(), key=lambda each: each.at)),
    )
    stage = Stage(recovery=recovery, is_open=False)
    stage.now = first.now
    return Broker(stage, total=200)


@pytest.mark.parametrize("moved", [10_000_000, -10_000_000])
@pytest.mark.parametrize("is_seen", [False, True], ids=["while down", "once before the stop"])
def test_money_that_moves_beside_held_money_on_the_day_of_a_restart_is_one_break(
    moved: int, is_seen: bool
):
    before = having_bought(shown_cash=100_000_000)
    before.read(2)
    after = 100_000_000 + moved
    if is_seen:
        before.read(1, cash=after)

    broker = started_again(before.stage)
    broker.read(3, cash=after)
    assert broker.stage.engine.balances()[0].buying_power == after - COST
    come_to(broker.stage, SETTLES - timedelta(days=3))
    broker.read(3, cash=after - COST)

    shown = f"expected 100,000,000, found {after:,}"
    assert broker.notes() == [f"cash: {shown}: {moved:+,} VND that no order explains"]


@pytest.mark.parametrize("moved", [10_000_000, -10_000_000])
def test_money_that_moves_after_an_early_delivery_is_all_that_is_unexplained(moved: int):
    stage, proceeds = having_sold()
    broker = Broker(stage)
    broker.read(1)
    come_to(stage, SETTLES - timedelta(hours=1))
    broker.read(2, cash=100_000_000 + proceeds)

    broker.read(3, cash=broker.cash + moved)
    come_to(stage, SETTLES)
    broker.read(3)

    shown = f"expected {100_000_000 + proceeds:,}, found {broker.cash:,}"
    assert broker.notes() == [f"cash: {shown}: {moved:+,} VND that no order explains"]


@pytest.mark.parametrize("moved", [5_000_000, -5_000_000])
@pytest.mark.parametrize(("early", "held"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_money_that_moves_on_a_day_with_a_delivery_and_a_buy_is_all_that_is_unexplained(
    early: int, held: int, moved: int
):
    stage, proceeds = having_sold()
    broker = Broker(stage)
    broker.read(1)
    come_to(stage, SETTLES - timedelta(hours=3))
    stage.phase(Phase.PROGRESS)
    broker.read(2)
    stage.handle(Reconciled(stage.now))
    stage.quote()
    intent = stage.working(100, 27_000, "ORD2")
    stage.after(1).book(report_of(intent, "ORD2", executed=100))
    cost = COST // 2
    usual = 100_000_000 - cost + early * proceeds + held * cost
    broker.read(2, cash=usual, total=100)

    broker.read(3, cash=usual + moved)

    shown = f"expected {usual:,}, found {usual + moved:,}"
    assert broker.notes() == [f"cash: {shown}: {moved:+,} VND that no order explains"]


def test_held_money_is_not_spent_again_by_a_read_that_lacks_shares_and_shows_other_cash():
    stage = Stage()
    intent = stage.working(200, 27_000)
    for executed in (100, 200):
        stage.after(20).book(report_of(intent, executed=executed))
    broker = Broker(stage)
    broker.read(2, total=200)
    stage.quote()
    stage.working(100, 27_000, "ORD2")

    broker.read(1, cash=110_000_000, total=100)

    assert stage.engine.balances()[0].buying_power == 110_000_000 - COST - COST // 2


def test_money_that_comes_before_a_delivery_of_its_size_is_not_taken_for_it():
    stage, proceeds = having_sold()
    broker = Broker(stage)
    broker.read(1)
    come_to(stage, SETTLES - timedelta(hours=3))
    broker.read(3, cash=105_000_000)

    come_to(stage, SETTLES)
    broker.read(3, cash=105_000_000 + proceeds)

    [told] = broker.notes()
    assert told.endswith("found 105,000,000: +5,000,000 VND that no order explains")


def test_a_dividend_and_an_early_delivery_in_one_read_explain_it_together():
    stage, proceeds = having_sold()
    broker = Broker(stage)
    broker.read(1, rights=(DIVIDEND,))
    come_to(stage, SETTLES - timedelta(hours=1))

    broker.read(3, cash=100_000_000 + proceeds + 475_000)
    come_to(stage, SETTLES)
    broker.read(3)

    assert broker.notes() == ["cash dividend HPG 500 VND/share: +475,000 after tax"]


def test_of_held_money_that_is_taken_with_another_fee_only_the_fee_is_unexplained():
    broker = having_bought(shown_cash=100_000_000)
    broker.read(2)

    broker.read(3, cash=100_000_000 - COST - 2_700)

    [told] = broker.notes()
    assert told.endswith("-2,700 VND that no order explains")


def _trading_while_money_comes(before):
    stage, proceeds = having_sold()
    broker = Broker(stage)
    broker.read(1)
    come_to(stage, SETTLES - before)
    stage.phase(Phase.PROGRESS)
    broker.read(2)
    stage.handle(Reconciled(stage.now))
    return broker, proceeds


def _buys(broker, price, order_id="ORD2", quantity=100):
    broker.stage.quote()
    intent = broker.stage.working(quantity, price, order_id)
    broker.stage.after(1).book(report_of(intent, order_id, executed=quantity))
    return quantity * price + RULEBOOK.fee(quantity * price)


@pytest.mark.parametrize("held", [0, COST])
def test_the_money_of_several_sales_may_come_piece_by_piece_around_midday(held: int):
    broker, proceeds = _trading_while_money_comes(timedelta(minutes=62))
    stage = broker.stage
    if held:
        assert _buys(broker, 27_000, quantity=200) == held
        broker.read(2, total=200)

    broker.read(3, cash=100_000_000 + proceeds // 3)
    used = stage.engine.balances()[0].buying_power
    broker.read(3, cash=100_000_000 + proceeds)
    stage.now = SETTLES
    stage.pass_time(1)

    assert used == 100_000_000 + proceeds // 3 - held
    assert stage.engine.balances()[0].buying_power == 100_000_000 + proceeds - held
    broker.read(3, cash=100_000_000 + proceeds - held)
    assert broker.notes() == []


def test_a_piece_that_came_before_a_buy_does_not_hide_that_the_buy_s_money_is_held_back():
    broker, proceeds = _trading_while_money_comes(timedelta(minutes=62))
    with_piece = 100_000_000 + proceeds // 3
    broker.stage.after(180)
    broker.read(3, cash=with_piece)

    spent = _buys(broker, 27_000, quantity=200)
    broker.read(4, cash=with_piece, total=200)

    assert broker.stage.engine.balances()[0].buying_power == with_piece - spent
    assert broker.notes() == []


def test_a_broker_that_deducts_at_once_holds_nothing_back_beside_a_piece():
    broker, proceeds = _trading_while_money_comes(timedelta(hours=3))
    first = _buys(broker, 26_000, "ORD2")
    broker.read(3, cash=100_000_000 - first, total=100)
    broker.stage.now = SETTLES - timedelta(minutes=112)
    broker.read(3, cash=broker.cash + proceeds * 2 // 3)

    second = _buys(broker, 27_000, "ORD3")
    broker.read(4, cash=broker.cash - second, total=200)

    assert broker.stage.engine.balances()[0].buying_power == broker.cash


def test_money_that_a_lagging_read_lacks_is_not_held_back_besides():
    broker, proceeds = _trading_while_money_comes(timedelta(minutes=115))
    broker.read(3, cash=100_000_000 + proceeds)
    first = _buys(broker, 26_000, "ORD2")
    broker.read(2, cash=broker.cash - first, total=100)

    second = _buys(broker, 27_000, "ORD3")
    broker.read(1, total=200)

    assert broker.stage.engine.balances()[0].buying_power == broker.cash - second


def test_money_that_is_taken_for_a_piece_of_a_sale_s_is_told_once_that_has_settled():
    stage, proceeds = having_sold()
    broker = Broker(stage)
    broker.read(1)
    come_to(stage, SETTLES - timedelta(hours=1))
    broker.read(3, cash=101_000_000)

    come_to(stage, SETTLES)
    broker.read(3, cash=101_000_000 + proceeds)

    [told] = broker.notes()
    assert told.endswith("+1,000,000 VND that no order explains")


def test_of_money_that_has_come_whole_no_piece_is_still_to_come():
    stage, proceeds = having_sold()
    broker = Broker(stage)
    broker.read(1)
    come_to(stage, SETTLES - timedelta(hours=1))
    broker.read(2, cash=100_000_000 + proceeds)

    broker.read(3, cash=100_000_000 + proceeds - 1_000_000)

    [told] = broker.notes()
    assert told.endswith("-1,000,000 VND that no order explains")


# ------------------------------------------------------------------------------- our own numbers


def test_more_may_be_sellable_by_what_was_on_its_way_before_the_base_and_by_no_share_besides():
    held = {"HPG": Holding("HPG", 300, 100, 200, 0), "SSI": Holding("SSI", 50, 50, 0, 0)}
    ledger = AccountLedger(AccountSnapshot(START, ACCOUNT, 0, 0, held))

    ours = expected_at(ledger, START)

    assert ours.holdings == {"HPG": Shares(300, 100, 300, 200, 200), "SSI": Shares(50, 50, 50, 0)}


def test_in_its_very_instant_a_buy_of_before_has_settled_and_holds_back_no_money():
    base = AccountSnapshot(START - timedelta(days=5), ACCOUNT, 100_000_000, 0, {})
    bought = Flow(START - timedelta(days=3), ACCOUNT, "HPG", COST, 0, 0, 200, START)

    ours = expected_at(AccountLedger(base, [bought]), START)

    cash = 100_000_000 - COST
    assert ours == Expected(cash, frozenset({cash}), 0, {"HPG": Shares(200, 200, 200, 0)})


def test_shares_that_came_some_hours_early_do_not_come_again_at_their_hour():
    broker = having_bought()
    come_to(broker.stage, SETTLES - timedelta(hours=3))
    broker.read(3, sellable=200)

    come_to(broker.stage, SETTLES)
    broker.read(3)

    assert broker.notes() == []
