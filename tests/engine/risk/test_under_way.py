"""While something of ours is under way, an account may differ by its size and by no more."""

from dataclasses import replace
from datetime import date

import pytest

from bot.domain.account import AccountSnapshot, Holding
from bot.domain.entry import Decision, OrderUpdated, RunState, Verdict
from bot.domain.instrument import Exchange, Phase
from bot.domain.message import AccountRead, InstrumentsRead, PlaceOrder, Reconciled
from bot.domain.order import Intent, OrderState, OrderType, SendState, Side
from bot.domain.outcome import Unknown
from bot.domain.plan import SizeUnit, StrategyPlan
from bot.domain.quote import ClosesRead, LastClose
from bot.domain.recovery import RecoveredStrategy, Recovery, StoredIntent
from bot.engine.risk.accounts import free_cash
from bot.engine.risk.under_way import worst_price
from tests.engine.risk.test_ledgers import BONUS, COST, DIVIDEND, Broker, having_bought
from tests.engine.stage import (
    ACCOUNT,
    DAY,
    HPG,
    PLAN,
    RULEBOOK,
    START,
    Stage,
    attempt_of,
    report_of,
)

SIZE = 100 * 26_000
MOST = SIZE + RULEBOOK.fee(SIZE)
"""What the order that works may take, with its fee."""
CASH = 100_000_000 - COST


def working() -> Broker:
    """An order for 100 HPG at 26,000 works, a minute after 200 were bought and agreed."""
    broker = having_bought()
    broker.stage.after(61).quote()
    broker.stage.working(100, 26_000, "ORD2")
    return broker


def working_at_market() -> Broker:
    """The same without a limit."""
    broker = having_bought()
    stage = broker.stage.after(61)
    stage.quote()
    stage.request(lambda s: s.buy(100, market="MP", why="as asked"))
    stage.accept(stage.last(PlaceOrder).intent, "ORD2")
    return broker


def ended(broker: Broker, executed: int = 0) -> None:
    intent = [*broker.stage.engine._state.intents.values()][-1].intent
    row = report_of(intent, "ORD2", executed=executed, cancelled=100 - executed)
    row = replace(row, state=OrderState.CANCELLED, status="CANCELLED")
    broker.stage.after(1).book(row)


@pytest.mark.parametrize(("cash", "total"), [(-MOST, 100), (-1, 0), (0, 100), (-MOST, 1), (0, 0)])
def test_what_the_order_may_have_moved_is_no_difference(cash: int, total: int) -> None:
    broker = working()

    broker.read(5, cash=CASH + cash, total=200 + total)

    assert broker.notes() == []


@pytest.mark.parametrize(
    ("cash", "text"),
    [
        (-MOST - 1, f"at least {CASH - MOST:,}, found {CASH - MOST - 1:,}: -1 VND"),
        (1, f"at most {CASH:,}, found {CASH + 1:,}: +1 VND"),
        (-50_000_000, f"at least {CASH - MOST:,}, found {CASH - 50_000_000:,}"),
    ],
)
def test_more_cash_than_it_may_take_is_a_break(cash: int, text: str) -> None:
    broker = working()

    broker.read(cash=CASH + cash)
    assert broker.notes() == []
    broker.read(4)

    [told] = broker.notes()
    assert told.startswith(f"cash: expected {text}")


@pytest.mark.parametrize(("off", "text"), [(101, "at most 300, found 301: +1"), (-1, "at least")])
def test_more_shares_than_it_may_bring_are_a_break(off: int, text: str) -> None:
    broker = working()

    broker.read(4, total=200 + off)

    [told] = broker.notes()
    assert told.startswith(f"HPG in all: expected {text}")
    assert broker.stage.engine.status().halted_symbols


def test_an_order_of_somebody_else_brings_no_shares_before_a_row_shows_them() -> None:
    broker = working()
    intent = [*broker.stage.engine._state.intents.values()][-1].intent
    broker.stage.after(1).book(report_of(intent, "X1", quantity=300, remaining=300))

    broker.read(4, total=301)

    [told] = broker.notes()
    assert told.startswith("HPG in all: expected at most 300, found 301")


@pytest.mark.parametrize("executed", [0, 100])
def test_after_such_a_break_no_share_and_no_vnd_is_lost_or_told_twice(executed: int) -> None:
    broker = working()
    gone = 50_000_000
    broker.read(4, cash=CASH - gone)
    cost = 0 if not executed else MOST

    ended(broker, executed)
    broker.read(6, cash=CASH - gone - cost, total=200 + executed)

    breaks = broker.stage.engine.reconciliation().breaks
    assert sum((each.theirs or 0) - (each.ours or 0) for each in breaks) == -gone
    assert [each.symbol for each in breaks] == [None, None]


def test_shares_beyond_what_the_order_may_bring_are_told_once() -> None:
    broker = working()
    broker.read(4, total=301)

    ended(broker, executed=100)
    broker.read(4, total=301, cash=CASH - MOST)

    first, *others = broker.notes()
    assert first.startswith("HPG in all: expected at most 300, found 301")
    assert not any("in all" in each for each in others)


def test_money_that_is_held_for_a_buy_hides_nothing_that_the_working_order_takes() -> None:
    stage = Stage()
    stage.after(1).book(report_of(stage.working(200, 27_000), executed=200))
    stage.after(61).quote()
    stage.working(100, 26_000, "ORD2")
    broker = Broker(stage, total=200)  # no read before has shown how it takes its money

    broker.read(4, cash=100_000_000 - 40 * 26_000)

    assert broker.notes() == []


def test_beside_a_buy_at_the_market_without_a_known_ceiling_no_cash_is_compared() -> None:
    broker = working_at_market()
    broker.stage.engine._state.quotes.clear()  # as after a restart

    broker.read(4, cash=1)

    assert broker.notes() == []


def selling() -> Broker:
    """A sale of 100 of 500 HPG works."""
    stage = Stage(sellable=300)
    stage.after(1).book(report_of(stage.working(200, 27_000), executed=200))
    broker = Broker(stage, cash=CASH, total=500, sellable=300)
    broker.read(2)
    stage.quote()
    stage.request(lambda s: s.sell(100, limit=27_500, why="as asked"))
    stage.accept(stage.last(PlaceOrder).intent, "ORD2")
    return broker


def test_a_sell_that_works_may_take_shares_and_brings_no_money_yet() -> None:
    broker = selling()

    broker.read(4, total=400, sellable=200)
    assert broker.notes() == []
    broker.read(4, cash=CASH + 1)
    broker.read(4, total=399)

    assert [each.split(",")[0] for each in broker.notes()] == [
        "cash: expected at most 94",
        "HPG in all: expected at least 400",
    ]


@pytest.mark.parametrize(
    ("shares", "least", "most"), [(0, 400, 500), (30, 400, 530), (-30, 370, 500)]
)
def test_a_right_moves_what_may_be_there_by_its_shares_and_to_its_side_only(
    shares: int, least: int, most: int
) -> None:
    for total in (least - 1, least, most, most + 1):
        broker = selling()
        broker.read(rights=(replace(BONUS, shares=shares),))

        broker.read(4, total=total)

        assert bool(broker.notes()) is (total < least or total > most)


def test_a_place_of_unknown_outcome_counts_as_an_order_that_works() -> None:
    broker = having_bought()
    stage = broker.stage.after(61)
    stage.quote()
    intent = stage.buy(100, 26_000)
    stage.send(intent)
    stage.answer(intent, Unknown("no answer came"))

    broker.read(4, cash=CASH - MOST, total=300)
    assert broker.notes() == []
    broker.read(4, cash=CASH - MOST - 1)

    assert f"at least {CASH - MOST:,}" in broker.notes()[0]


def test_a_buy_at_the_market_may_take_as_much_as_the_ceiling() -> None:
    broker = working_at_market()
    most = 100 * 28_850 + RULEBOOK.fee(100 * 28_850)

    broker.read(4, cash=CASH - most)
    assert broker.notes() == []
    broker.read(4, cash=CASH - most - 1)

    assert f"at least {CASH - most:,}" in broker.notes()[0]


def test_a_node_that_lags_may_lack_a_part_of_our_newest_fills_and_of_no_older_ones() -> None:
    broker = working()
    intent = [*broker.stage.engine._state.intents.values()][-1].intent
    broker.stage.after(1).book(report_of(intent, "ORD2", executed=60))

    broker.stage.after(-30)  # the next read comes half a minute after the fill
    broker.read(total=240)
    assert list(broker.stage.engine.reconciliation().doubts) == []
    broker.read(total=240)

    doubts = broker.stage.engine.reconciliation().doubts
    assert [each.partition(":")[0] for each in doubts] == ["HPG in all"]


def test_a_dividend_that_comes_while_an_order_works_is_named_once_it_has_ended() -> None:
    broker = working()
    broker.read(rights=(DIVIDEND,))
    broker.read(4, cash=CASH + 475_000)
    assert broker.notes() == []

    ended(broker)
    broker.read(2)

    assert broker.notes() == ["cash dividend HPG 500 VND/share: +475,000 after tax"]


@pytest.mark.parametrize("with_order", [False, True])
@pytest.mark.parametrize(("cash", "shares"), [(50_000_000, 0), (100_000_000, 300)])
def test_a_start_with_a_difference_waits_for_a_person(
    cash: int, shares: int, *, with_order: bool
) -> None:
    intent: Intent | None = None
    orders: tuple[OrderUpdated, ...] = ()
    intents: tuple[StoredIntent, ...] = ()
    if with_order:
        first = Stage()
        intent = first.working(100, 26_900)
        orders = (first.entries_of_order(),)
        intents = (StoredIntent(intent, SendState.ACKED, "ORD1", attempt_of(intent, START)),)
    base = AccountSnapshot(START, ACCOUNT, 100_000_000, 100_000_000, {})
    known = Recovery(DAY, bases=(base,), orders=orders, intents=intents)
    stage = Stage(recovery=known, is_open=False).after(30)
    stage.handle(InstrumentsRead(stage.now, (HPG,)))
    stage.phase(Phase.PROGRESS)

    def read() -> None:
        stage.book(*([report_of(intent)] if intent else []))
        held = {"HPG": Holding("HPG", shares, shares, 0, 20_000)} if shares else {}
        stage.handle(AccountRead(stage.now, AccountSnapshot(stage.now, ACCOUNT, cash, cash, held)))

    read()
    stage.handle(Reconciled(stage.now))
    for _ in range(4):
        assert stage.engine.status().state is RunState.STARTING
        stage.after(30)
        read()

    assert stage.engine.status().state is RunState.STARTING
    assert [each.break_id for each in stage.engine.reconciliation().breaks] == ["B-0001"]


@pytest.mark.parametrize(
    ("ceiling", "last", "worst"),
    [
        (28_850, 27_000, 28_850),
        (27_000, 27_000, 28_850),
        (None, 27_000, 28_850),
    ],
)
def test_a_share_costs_no_less_than_the_ceiling_of_the_rules(ceiling, last, worst):
    stage = Stage()

    stage.after(1).quote(last, ceiling=ceiling)

    assert worst_price(stage.engine._state, "HPG", None) == worst
    assert worst_price(stage.engine._state, "HPG", 26_000) == 26_000


def test_a_share_whose_band_is_special_costs_at_most_what_is_quoted():
    stage = Stage()
    close = LastClose("HPG", 27_000, date(2026, 11, 18), ex_dates=frozenset({DAY}))
    stage.handle(ClosesRead(stage.now, (close,)))

    stage.after(1).quote(27_000)

    frame = stage.engine._state.beliefs["HPG"].frame
    assert frame is not None
    assert frame.band.ceiling == 32_400
    assert worst_price(stage.engine._state, "HPG", None) == 28_850


# ------------------------------------------------------- a buy without a limit, and without a quote


def _beside_an_ato(
    symbol: str = "FPT",
    *,
    is_own: bool = False,
    price: int | None = None,
    plan: StrategyPlan = PLAN,
) -> Stage:
    """Somebody's buy of 1,000 shares is open, of a symbol that this run does not quote."""
    row = OrderUpdated(
        at=START,
        order_id="ORD9",
        account=ACCOUNT,
        trading_date=DAY,
        intent_id="L-0001" if is_own else None,
        strategy="gone" if is_own else None,
        symbol=symbol,
        exchange=Exchange.HOSE,
        side=Side.BUY,
        quantity=1_000,
        order_type="LO" if price else "ATO",
        price=price,
        state=OrderState.ACCEPTED,
        broker_status="SENT",
    )
    held = RecoveredStrategy({"HPG": (200, 5_400_000)}, 0, 0, 0, "on")
    strategies = {"test": held}
    recovery = Recovery(DAY, orders=(row,), strategies=strategies, next_intent_number=5)
    return Stage(plan, recovery=recovery, sellable=200)


def _free(stage: Stage) -> int:
    state = stage.engine._state
    return free_cash(state, state.accounts[ACCOUNT])


@pytest.mark.parametrize("is_own", [False, True])
def test_beside_a_buy_whose_price_nothing_bounds_no_cash_is_free_and_why_is_said(is_own):
    stage = _beside_an_ato(is_own=is_own)
    name = "L-0001" if is_own else "ORD9"

    stage.request(lambda s: s.buy(100, limit=27_000))

    assert stage.decided() == (Verdict.BLOCKED, "UNPRICED_BUY")
    assert stage.last(Decision).checks[-1].text == (
        f"{name} buys FPT without a limit, and no quote of FPT has been read: what it takes of the "
        "cash is not known. Nothing is bought until it ends; it can be cancelled"
    )
    assert _free(stage) == 0


@pytest.mark.parametrize(("unit", "size"), [(SizeUnit.PERCENT, 10), (SizeUnit.CASH, 5_000_000)])
def test_beside_it_a_size_of_the_file_is_refused_for_the_same_reason(unit, size):
    order = replace(PLAN.order, size=size, size_unit=unit)
    stage = _beside_an_ato(plan=replace(PLAN, order=order))

    stage.request(lambda s: s.buy(limit=27_000))

    assert stage.decided() == (Verdict.BLOCKED, "UNPRICED_BUY")
    told = stage.last(Decision)
    assert (told.numbers["order"], told.numbers["symbol"]) == ("ORD9", "FPT")
    text = told.numbers["reason"] if unit is SizeUnit.PERCENT else told.checks[-1].text
    assert str(text).startswith("ORD9 buys FPT without a limit, and no quote of FPT has been read")


def test_beside_it_what_is_held_can_be_sold():
    stage = _beside_an_ato()

    stage.request(lambda s: s.close(limit=27_000))

    assert stage.last(PlaceOrder).intent.side is Side.SELL


@pytest.mark.parametrize(("symbol", "price"), [("HPG", None), ("FPT", 60_000)])
def test_a_buy_with_a_limit_or_a_quote_keeps_its_own_cost_and_no_more(symbol, price):
    stage = _beside_an_ato(symbol, price=price)
    most = 1_000 * (price or 28_850)

    assert _free(stage) == 100_000_000 - most - RULEBOOK.fee(most)
    stage.request(lambda s: s.buy(100, limit=27_000))
    assert stage.decided()[0] is Verdict.PASSED


def test_a_place_without_an_answer_and_without_a_price_is_no_less():
    intent = _market_buy_of("FPT")
    stored = StoredIntent(intent, SendState.REACHED, None, attempt_of(intent, START))
    stage = Stage(recovery=Recovery(DAY, 2, 1, intents=(stored,)))

    assert _free(stage) == 0
    stage.request(lambda s: s.buy(100, limit=27_000))
    assert stage.last(Decision).numbers["order"] == intent.intent_id


def test_once_it_has_ended_its_cash_is_free():
    stage = _beside_an_ato()
    buy = replace(_market_buy_of("FPT"), quantity=1_000)

    stage.after(1).book(
        report_of(buy, "ORD9", cancelled=1_000, state=OrderState.CANCELLED, status="CANCELLED")
    )

    assert _free(stage) == 100_000_000


def _market_buy_of(symbol: str) -> Intent:
    return replace(Stage().buy(), symbol=symbol, order_type=OrderType.ATO, limit_price=None)
