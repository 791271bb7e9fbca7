"""A halt that flattens: cancels first, then sales that alone pass it, until nothing is held."""

from dataclasses import replace
from datetime import datetime, time, timedelta
from itertools import pairwise

import pytest

from bot.cli.telling.languages import catalogue
from bot.domain.entry import (
    ACCOUNT_SCOPE,
    FLATTEN_NOTE,
    Decision,
    IntentMoved,
    IntentRecorded,
    Note,
    RunState,
    Verdict,
)
from bot.domain.errors import Fault
from bot.domain.instrument import BOARD_LOT, EXCHANGE_TZ, Exchange, Instrument, Phase
from bot.domain.message import (
    CancelOrder,
    FaultFound,
    InstrumentsRead,
    NonceBurnt,
    PhaseChanged,
    PlaceAnswered,
    PlaceOrder,
    ReadAccount,
    TimePassed,
    TradingDayStarted,
)
from bot.domain.operations import (
    Action,
    CancelAsked,
    EarlierOrdersRead,
    OperatorActed,
    VerdictAsked,
)
from bot.domain.order import OrderState, OrderType, SendState, Side
from bot.domain.outcome import NotSent, Refused, Resolution, Unknown
from bot.domain.plan import AccountLimits, StrategyMode, When
from bot.domain.recovery import (
    RecoveredStrategy,
    Recovery,
    StoredFault,
    StoredFlatten,
    StoredIntent,
)
from bot.engine.flatten import AGAIN, SALES_MAX
from bot.engine.settings import EngineSettings
from bot.engine.state import Position
from bot.engine.tracked import TrackedIntent
from tests.cli.telling.told_whole import require_whole
from tests.engine.stage import (
    ACCOUNT,
    DAY,
    PLAN,
    RULEBOOK,
    START,
    Stage,
    attempt_of,
    report_of,
)

_UNTRADED = "no strategy trades it any more: sell it in the broker's own app"


def _halt(stage: Stage, *, flatten: bool = False) -> None:
    asked = OperatorActed(stage.now, Action.HALT, "enough", "operator", flatten=flatten)
    stage.handle(asked)


def _holding(shares: int = 300) -> Stage:
    """A stage whose strategy holds settled shares."""
    before = RecoveredStrategy({"HPG": (shares, 27_000 * shares)}, 0, 0, 0, "on")
    recovery = Recovery(DAY, strategies={"test": before})
    stage = Stage(recovery=recovery, sellable=shares)
    stage.after(60).quote(27_000)
    stage.depth(bid=26_950)
    return stage


def _late(exchange: Exchange, at: str, phase: Phase, shares: int) -> Stage:
    """The same in another phase of its day; the last price is 27,000, the bid 26,900."""
    before = RecoveredStrategy({"HPG": (shares, 27_000 * shares)}, 0, 0, 0, "on")
    stage = Stage(recovery=Recovery(DAY, strategies={"test": before}), sellable=shares)
    stage.now = datetime.combine(DAY, time.fromisoformat(at), EXCHANGE_TZ)
    stage.handle(InstrumentsRead(stage.now, (Instrument("HPG", exchange),)))
    listed = RULEBOOK.broker_listed_types(exchange, phase)
    stage.handle(PhaseChanged(stage.now, exchange, phase, frozenset(listed)))
    stage.account()
    stage.quote(27_000, exchange=exchange)
    stage.depth(bid=26_900)
    return stage


def _look(stage: Stage, seconds: float = 15) -> None:
    stage.after(seconds).quote(26_950)
    stage.depth(bid=26_900)
    stage.handle(TimePassed(stage.now))


def _sale(stage: Stage) -> tuple[Side, int, OrderType, int | None]:
    intent = stage.last(PlaceOrder).intent
    return intent.side, intent.quantity, intent.order_type, intent.limit_price


def test_a_halt_that_flattens_sells_at_the_bid_and_nothing_else_leaves() -> None:
    stage = _holding()

    _halt(stage, flatten=True)

    assert _sale(stage) == (Side.SELL, 300, OrderType.LO, 26_950)
    sale = stage.last(PlaceOrder).intent
    assert sale.why == "flatten by operator: enough"
    assert sale.expire_after == timedelta(seconds=30)
    assert stage.engine.passes_halt(sale)
    assert stage.engine.reason_not_to_send(sale) is None
    other = replace(sale, intent_id="L-0999")
    assert stage.engine.reason_not_to_send(other) == "HALTED: enough"
    assert stage.engine.status().state is RunState.HALTED
    [note] = [one for one in stage.all(Note) if one.kind == "FLATTEN"]
    assert note.text == "sells what the strategies hold, asked for by operator: enough"


def test_a_halt_that_does_not_flatten_sells_nothing() -> None:
    stage = _holding()

    _halt(stage)
    _look(stage)

    assert stage.new(PlaceOrder) == []


def test_it_waits_for_the_cancels_then_sells() -> None:
    stage = _holding()
    stage.request(lambda s: s.sell(100, limit=27_500))
    working = stage.last(PlaceOrder).intent
    stage.send(working)
    stage.accept(working, "ORD2")
    stage.new(PlaceOrder)

    _halt(stage, flatten=True)
    assert stage.new(PlaceOrder) == []
    assert "an order of it works" in stage.engine.status().alerts[0]
    report = report_of(working, order_id="ORD2")
    _look(stage, 3)
    assert stage.all(CancelOrder) != []
    assert stage.new(PlaceOrder) == []
    stage.book(replace(report, state=report.state))


def test_when_all_is_sold_it_is_over_and_the_bot_stays_halted() -> None:
    stage = _holding()
    _halt(stage, flatten=True)
    sale = stage.last(PlaceOrder).intent
    stage.send(sale)
    stage.accept(sale, "ORD2")

    stage.after(1).book(report_of(sale, order_id="ORD2", executed=300))
    _look(stage)

    assert stage.all(Note)[-1].text.startswith("the strategies hold nothing any more")
    assert stage.engine.status().state is RunState.HALTED
    assert not stage.engine.passes_halt(sale)


def test_what_is_sold_does_not_hide_when_the_rest_is_looked_at_again() -> None:
    stage = _holding()
    _halt(stage, flatten=True)
    sale = stage.last(PlaceOrder).intent
    stage.send(sale)
    stage.accept(sale, "ORD2")
    stage.engine._state.strategies["test"].positions["FPT"] = Position(100, 9_000_000)

    stage.after(1).book(report_of(sale, order_id="ORD2", executed=300))
    _look(stage)

    flattening = stage.engine._state.gate.flattening
    assert flattening is not None
    assert flattening.left == {("test", "FPT"): _UNTRADED}
    assert stage.engine.next_due() == stage.now + AGAIN


def test_a_symbol_that_is_overdue_does_not_hide_when_another_is_looked_at_again() -> None:
    stage = _holding()
    _halt(stage, flatten=True)
    flattening = stage.engine._state.gate.flattening
    assert flattening is not None
    due = flattening.due["test", "HPG"]

    flattening.due["test", "FPT"] = stage.now  # as left by a step that raised halfway

    assert due == stage.now + AGAIN
    assert stage.engine.next_due() == due


def test_nothing_is_sold_of_an_account_whose_orders_are_halted_and_why_is_said() -> None:
    before = RecoveredStrategy({"HPG": (300, 8_100_000)}, 0, 0, 0, "on")
    scopes = {f"{ACCOUNT_SCOPE}{ACCOUNT}": "FORBIDDEN three times"}
    recovery = Recovery(DAY, strategies={"test": before}, halted_scopes=scopes)
    stage = Stage(recovery=recovery, sellable=300)
    stage.after(60).quote(27_000)
    stage.depth(bid=26_950)

    _halt(stage, flatten=True)

    assert stage.new(PlaceOrder) == []
    told = [one for one in stage.engine.status().standing if one.code == "FLATTEN"]
    assert "no order of its account is sent: FORBIDDEN three times. The bot goes" in told[0].text


@pytest.mark.parametrize("is_answered", [False, True])
def test_while_a_sale_works_nobody_is_told_to_sell_the_same_elsewhere(is_answered: bool) -> None:
    stage = _holding()
    _halt(stage, flatten=True)
    sale = stage.last(PlaceOrder).intent
    stage.send(sale)
    if is_answered:
        stage.accept(sale, "ORD2")

    [told] = [one for one in stage.engine.status().standing if one.code == "FLATTEN"]

    assert told.text == (
        "flatten: test still holds 300 HPG: L-0001 sells 300. L-0001 may sell at any moment: "
        "before you sell in the broker's own app, end it, or the shares are sold "
        "twice: bot cancel L-0001"
    )
    vietnamese = catalogue("vi").told("FLATTEN", told.facts)
    assert vietnamese is not None
    assert "bot cancel L-0001" in vietnamese


def test_a_sale_that_was_cancelled_is_made_again_when_no_equal_one_is_refused() -> None:
    stage = _holding()
    _halt(stage, flatten=True)
    sale = stage.last(PlaceOrder).intent
    began = stage.now
    stage.send(sale)
    stage.accept(sale, "ORD2")
    row = report_of(sale, order_id="ORD2", state=OrderState.CANCELLED)
    stage.after(31).handle(TimePassed(stage.now))
    stage.book(replace(row, status="CANCELLED"))

    told = set[str]()
    while stage.last(PlaceOrder).intent == sale and stage.now < began + timedelta(minutes=5):
        due = stage.engine.next_due()
        assert due is not None
        stage.after((due - stage.now).total_seconds()).quote(27_000)
        stage.depth(bid=26_950)
        stage.handle(TimePassed(stage.now))
        told |= {one.text for one in stage.engine.status().standing if one.code == "FLATTEN"}

    assert stage.last(PlaceOrder).intent.intent_id == "L-0002"
    assert _sale(stage) == (Side.SELL, 300, OrderType.LO, 26_950)
    assert stage.now == sale.created_at + timedelta(seconds=60)
    assert [one for one in stage.all(Decision) if one.code == "DUPLICATE"] == []
    assert any("L-0001 was equal, less than 60 s ago; again from 09:3" in text for text in told)


@pytest.mark.parametrize("phase", [Phase.PROGRESS, Phase.CLOSED])
def test_what_has_not_settled_is_named_and_not_sold(phase: Phase) -> None:
    stage = Stage()
    bought = stage.working(300)
    stage.after(1).book(report_of(bought, executed=300))
    stage.after(60).quote(27_000)
    stage.phase(phase, *([OrderType.LO] if phase is Phase.PROGRESS else []))
    stage.new(PlaceOrder)

    _halt(stage, flatten=True)

    assert stage.new(PlaceOrder) == []
    told = [one for one in stage.engine.status().standing if one.code == "FLATTEN"]
    assert told[0].text.startswith("flatten: test still holds 300 HPG: not settled until ")
    require_whole("FLATTEN", told[0].text)


def test_shares_that_an_ended_sale_still_blocks_are_named_and_sold_once_they_are_read() -> None:
    stage = _holding()
    stage.request(lambda s: s.sell(300, limit=28_000))
    sale = stage.last(PlaceOrder).intent
    stage.accept(sale)
    stage.sellable = 0
    stage.after(20).account(300)
    _halt(stage, flatten=True)

    stage.after(1).book(report_of(sale, cancelled=300, state=OrderState.CANCELLED))
    assert any(isinstance(one, ReadAccount) for one in stage.done)
    _look(stage)
    told = [one for one in stage.engine.status().standing if one.code == "FLATTEN"]
    stage.sellable = 300
    stage.after(1).account()
    _look(stage)

    blocked = "blocked by a sale that has just ended: the account is read again"
    assert told[0].text.startswith(f"flatten: test still holds 300 HPG: {blocked}")
    assert stage.last(PlaceOrder).intent.side is Side.SELL
    assert stage.last(PlaceOrder).intent.intent_id != sale.intent_id


@pytest.mark.parametrize(
    ("phase", "sold"),
    [(Phase.PRE_CLOSED, OrderType.ATC), (Phase.OPEN, OrderType.ATO), (Phase.BREAK, None)],
)
def test_it_sells_by_the_phase(phase: Phase, sold: OrderType | None) -> None:
    stage = _holding()
    stage.phase(phase, *([sold] if sold else []))

    _halt(stage, flatten=True)

    places = stage.new(PlaceOrder)
    assert [one.intent.order_type for one in places] == ([sold] if sold else [])
    if not sold:
        alerts = stage.engine.status().alerts
        assert any("HOSE takes no sale of it now (lunch break); from " in one for one in alerts)


@pytest.mark.parametrize(
    ("exchange", "at", "phase", "shares", "words", "sells_from"),
    [
        (Exchange.HOSE, "11:45", Phase.BREAK, 300, "lunch break", "13:00"),
        (Exchange.HOSE, "14:48", Phase.PUT_THROUGH, 300, "negotiated only", "11-20 09:00"),
        (Exchange.HOSE, "14:56", Phase.PUT_THROUGH, 50, "negotiated only", "11-20 09:00"),
        (Exchange.HNX, "14:48", Phase.POST_SESSION, 50, "post-close (PLO)", "11-20 09:00"),
    ],
)
def test_it_names_the_next_time_at_which_something_can_be_sold(
    exchange: Exchange, at: str, phase: Phase, shares: int, words: str, sells_from: str
) -> None:
    stage = _late(exchange, at, phase, shares)

    _halt(stage, flatten=True)

    assert stage.new(PlaceOrder) == []
    what = "it" if shares >= BOARD_LOT else "an odd lot"
    text = f"{exchange} takes no sale of {what} now ({words}); from {sells_from}"
    assert any(text in one for one in stage.engine.status().alerts)


@pytest.mark.parametrize(
    ("exchange", "at", "phase", "shares", "sold", "limit"),
    [
        (Exchange.HOSE, "09:31", Phase.OPEN, 50, OrderType.LO, 26_900),
        (Exchange.HOSE, "14:33", Phase.PRE_CLOSED, 50, OrderType.LO, 26_900),
        (Exchange.HNX, "14:33", Phase.PRE_CLOSED, 50, OrderType.LO, 26_900),
        (Exchange.HNX, "14:48", Phase.POST_SESSION, 300, OrderType.PLO, None),
        (Exchange.HNX, "14:56", Phase.POST_SESSION, 300, OrderType.PLO, None),
    ],
)
def test_it_sells_outside_continuous_trading_what_the_exchange_takes_then(
    exchange: Exchange, at: str, phase: Phase, shares: int, sold: OrderType, limit: int | None
) -> None:
    stage = _late(exchange, at, phase, shares)

    _halt(stage, flatten=True)

    assert _sale(stage) == (Side.SELL, shares, sold, limit)


def test_an_odd_lot_is_not_priced_by_an_auctions_crossed_bids() -> None:
    stage = _late(Exchange.HOSE, "14:33", Phase.PRE_CLOSED, 50)
    stage.depth(bid=28_800, ask=26_000)

    _halt(stage, flatten=True)

    assert _sale(stage) == (Side.SELL, 50, OrderType.LO, 26_950)


def test_after_the_close_it_names_the_day_on_which_it_sells() -> None:
    stage = _holding()
    stage.after(7 * 3_600)
    stage.phase(Phase.CLOSED)

    _halt(stage, flatten=True)

    alerts = stage.engine.status().alerts
    assert any("takes no sale of it now (closed); from 11-20 09:00" in one for one in alerts)


def test_an_odd_lot_is_an_order_of_its_own() -> None:
    stage = _holding(350)

    _halt(stage, flatten=True)

    assert _sale(stage)[:2] == (Side.SELL, 300)


def test_a_resume_ends_it() -> None:
    stage = _holding()
    _halt(stage, flatten=True)
    sale = stage.last(PlaceOrder).intent

    stage.handle(OperatorActed(stage.now, Action.RESUME, "no", "operator"))

    assert not stage.engine.passes_halt(sale)


def test_a_second_halt_takes_the_sales_back() -> None:
    stage = _holding()
    _halt(stage, flatten=True)
    sale = stage.last(PlaceOrder).intent

    _halt(stage)

    assert stage.engine.reason_not_to_send(sale) == "HALTED: enough"
    assert stage.all(IntentRecorded)[-1].state is SendState.READY
    decisions = [one for one in stage.all(Decision) if one.verdict is Verdict.PASSED]
    assert decisions[-1].code == "CANCEL"


def test_without_a_token_nothing_is_sold_and_why_is_said() -> None:
    stage = _holding()
    blocked = stage.buy(100, limit=26_000)
    stage.send(blocked)
    stage.block_for_token(blocked)
    stage.new(PlaceOrder)

    _halt(stage, flatten=True)

    assert stage.new(PlaceOrder) == []
    assert any("the bot is NEEDS_2FA too" in one for one in stage.engine.status().alerts)


def test_what_is_more_than_an_order_may_be_is_sold_in_pieces_at_the_pace_of_sales() -> None:
    before = RecoveredStrategy({"HPG": (300, 8_100_000)}, 0, 0, 0, "on")
    limits = AccountLimits(max_order_value=2_000_000, max_orders_per_minute=1, max_orders_per_day=1)
    stage = Stage(
        settings=EngineSettings(account_limits=limits),
        recovery=Recovery(DAY, strategies={"test": before}),
        sellable=300,
    )
    stage.after(60).quote(27_000)
    stage.depth(bid=26_950)
    sold, heard = [], len(stage.commands)

    _halt(stage, flatten=True)
    for number in range(1, 20):
        for placed in [one for one in stage.commands[heard:] if isinstance(one, PlaceOrder)]:
            sold.append((placed.intent.quantity, stage.now))
            stage.send(placed.intent)
            stage.accept(placed.intent, order_id := f"ORD{number}")
            row = report_of(placed.intent, order_id, executed=100, state=OrderState.FILLED)
            stage.book(replace(row, status="FILLED"))
        heard = len(stage.commands)
        _look(stage)

    assert [quantity for quantity, _ in sold] == [100, 100, 100]
    assert all(later - at >= timedelta(minutes=1) for (_, at), (_, later) in pairwise(sold))


def _sold_in_pieces(stage: Stage, *, executed: int) -> int:
    """Sell in orders of 100, of each of which so many are executed; return how many went out."""
    _halt(stage, flatten=True)
    sold = list[PlaceOrder]()
    for number in range(3 * SALES_MAX):
        stage.after(15).quote(27_000)
        stage.depth(bid=26_950 - 50 * (number % 8))
        for placed in stage.all(PlaceOrder)[len(sold) :]:
            sold.append(placed)
            sale = placed.intent
            stage.accept(sale, order_id := f"ORD{number}")
            left = sale.quantity - executed
            row = report_of(sale, order_id, executed=executed, cancelled=left, remaining=0)
            ended = OrderState.CANCELLED if left else OrderState.FILLED
            status = "INTERNAL_CANCELLED" if left else "MATCHED_ALL"
            stage.book(replace(row, state=ended, status=status))
    return len(sold)


@pytest.mark.parametrize(("executed", "sales"), [(100, SALES_MAX + 2), (0, SALES_MAX)])
def test_only_sales_that_sell_nothing_are_given_up(executed: int, sales: int) -> None:
    shares = 100 * (SALES_MAX + 2)
    before = RecoveredStrategy({"HPG": (shares, 27_000 * shares)}, 0, 0, 0, "on")
    stage = Stage(
        settings=EngineSettings(account_limits=AccountLimits(max_order_value=2_700_000)),
        recovery=Recovery(DAY, strategies={"test": before}),
        sellable=shares,
    )
    stage.after(60).quote(27_000)
    stage.depth(bid=26_950)

    assert _sold_in_pieces(stage, executed=executed) == sales


# ------------------------------------------------------------------- what it covers, and what not


def _notes(stage: Stage) -> list[str]:
    return [one.text for one in stage.all(Note) if one.kind == FLATTEN_NOTE]


def test_a_strategy_cannot_cancel_what_is_sold_for_a_person() -> None:
    before = RecoveredStrategy({"HPG": (300, 8_100_000)}, 0, 0, 0, "on")
    stage = Stage(
        recovery=Recovery(DAY, strategies={"test": before}),
        sellable=300,
        hooks={"on_fill": lambda strategy, _: strategy.cancel(why="I want to keep it")},
    )
    stage.after(60).quote(27_000)
    stage.depth(bid=26_950)
    _halt(stage, flatten=True)
    sale = stage.last(PlaceOrder).intent
    stage.accept(sale, "ORD2")

    stage.after(1).book(report_of(sale, order_id="ORD2", executed=100))

    assert stage.decided() == ("SKIPPED", "FLATTENING")
    stage.pass_time(3)
    assert stage.all(CancelOrder) == []


def test_a_cancel_in_another_symbol_is_not_waited_for() -> None:
    first = Stage()
    intent = replace(first.working(), symbol="FPT", strategy="other")
    row = replace(first.entries_of_order(), symbol="FPT", strategy="other")
    stored = StoredIntent(intent, SendState.ACKED, "ORD1", None)
    before = RecoveredStrategy({"HPG": (300, 8_100_000)}, 0, 0, 0, "on")
    recovery = Recovery(DAY, 2, 1, intents=(stored,), orders=(row,), strategies={"test": before})
    stage = Stage(recovery=recovery, sellable=300)
    stage.after(60).quote(27_000)
    stage.depth(bid=26_950)

    _halt(stage, flatten=True)

    assert list(stage.engine._state.cancels) == ["ORD1"]
    assert _sale(stage) == (Side.SELL, 300, OrderType.LO, 26_950)


@pytest.mark.parametrize("is_sent", [False, True])
def test_it_waits_for_a_buy_of_another_strategy_that_is_on_its_way(is_sent: bool) -> None:
    before = RecoveredStrategy({"HPG": (300, 8_100_000)}, 0, 0, 0, "on")
    recovery = Recovery(DAY, strategies={"test": before})
    stage = Stage(recovery=recovery, sellable=300, beside=[replace(PLAN, name="other")])
    stage.depth(bid=26_950)
    stage.request(lambda s: s.buy(200, limit=27_000), by="other")
    buy = stage.last(PlaceOrder).intent
    if is_sent:
        stage.send(buy)

    _halt(stage, flatten=True)
    assert Verdict.BLOCKED not in [one.verdict for one in stage.all(Decision)]
    assert "a buy of other is on its way" in stage.engine.status().alerts[0]
    stage.after(0.1)
    not_sent = NotSent("HALTED: enough") if not is_sent else Refused("-100113", "no", 200)
    stage.handle(PlaceAnswered(stage.now, buy.intent_id, not_sent, None))
    _look(stage, AGAIN.total_seconds())

    assert _sale(stage) == (Side.SELL, 300, OrderType.LO, 26_950)


@pytest.mark.parametrize(
    ("phase", "limit", "is_waited_for"),
    [
        (Phase.PROGRESS, 26_900, False),
        (Phase.PROGRESS, 26_950, True),
        (Phase.PRE_CLOSED, 26_900, True),
    ],
)
def test_a_buy_on_its_way_is_waited_for_only_where_the_sale_could_trade_with_it(
    phase, limit, is_waited_for
) -> None:
    before = RecoveredStrategy({"HPG": (300, 8_100_000)}, 0, 0, 0, "on")
    recovery = Recovery(DAY, strategies={"test": before})
    stage = Stage(recovery=recovery, sellable=300, beside=[replace(PLAN, name="other")])
    stage.depth(bid=26_950)
    stage.request(lambda s: s.buy(200, limit=limit), by="other")
    buy = stage.last(PlaceOrder).intent
    stage.send(buy)
    stage.phase(phase)

    _halt(stage, flatten=True)

    sale = stage.last(PlaceOrder).intent
    assert (sale is buy) == is_waited_for
    assert is_waited_for or _sale(stage) == (Side.SELL, 300, OrderType.LO, 26_950)
    assert Verdict.BLOCKED not in [one.verdict for one in stage.all(Decision)]


def test_a_buy_of_another_symbol_on_its_way_is_not_waited_for() -> None:
    stage = _holding()
    stage.request(lambda s: s.buy(100, limit=25_200))
    tracked = stage.engine._state.intents["L-0001"]
    stage.engine._state.index.forget_intent("L-0001")
    intent = replace(tracked.intent, symbol="FPT", strategy="other")
    stage.engine._state.index.track_intent(TrackedIntent(intent, SendState.SENDING))

    _halt(stage, flatten=True)

    assert _sale(stage) == (Side.SELL, 300, OrderType.LO, 26_950)


def test_what_only_watches_is_not_sold_and_is_named() -> None:
    before = RecoveredStrategy({"HPG": (300, 8_100_000)}, 0, 0, 0, "on")
    plan = replace(PLAN, mode=StrategyMode.WATCH)
    stage = Stage(plan, recovery=Recovery(DAY, strategies={"test": before}), sellable=300)

    _halt(stage, flatten=True)

    assert stage.all(PlaceOrder) == []
    text = "the strategies hold nothing any more; the bot stays HALTED"
    others = "300 HPG of test, which only watches"
    assert _notes(stage)[-1] == f"{text}. Not sold: {others}"


def test_what_a_strategy_that_does_not_run_holds_is_not_sold_and_is_named() -> None:
    broken = RecoveredStrategy({"HPG": (300, 8_100_000)}, 0, 0, 0, "on")
    stage = Stage(recovery=Recovery(DAY, strategies={"broken": broken}), sellable=500)

    _halt(stage, flatten=True)

    assert stage.all(PlaceOrder) == []
    text = "the strategies hold nothing any more; the bot stays HALTED"
    others = (
        "300 HPG of broken, which does not run; 200 HPG that no strategy of this run has bought"
    )
    assert _notes(stage)[-1] == f"{text}. Not sold: {others}"
    [left] = stage.engine.status().unloaded
    assert (left.strategy, left.symbol, left.shares) == ("broken", "HPG", 300)


def test_shares_that_nobody_has_bought_are_not_sold_and_are_named() -> None:
    before = RecoveredStrategy({"HPG": (300, 8_100_000)}, 0, 0, 0, "on")
    stage = Stage(recovery=Recovery(DAY, strategies={"test": before}), sellable=800)
    stage.after(60).quote(27_000)
    stage.depth(bid=26_950)

    _halt(stage, flatten=True)

    assert _sale(stage)[:2] == (Side.SELL, 300)
    [left] = [one for one in stage.engine.status().standing if one.code == "FLATTEN_LEAVES"]
    assert left.facts == {"left": "500 HPG that no strategy of this run has bought"}


# ------------------------------------------------------------------------------------- a restart


def _restarted(
    *,
    is_allowed: bool = True,
    intents: tuple[StoredIntent, ...] = (),
    left_out: frozenset[tuple[str, str]] = frozenset(),
    faults: tuple[StoredFault, ...] = (),
) -> Stage:
    before = RecoveredStrategy({"HPG": (300, 8_100_000)}, 0, 0, 0, "on")
    recovery = Recovery(
        DAY,
        2,
        1,
        RunState.HALTED,
        "enough",
        intents=intents,
        strategies={"test": before},
        flatten=StoredFlatten("enough", "operator", START, left_out, is_allowed),
        faults=faults,
    )
    stage = Stage(recovery=recovery, sellable=300)
    stage.after(60).quote(27_000)
    stage.depth(bid=26_950)
    stage.pass_time(11)
    return stage


def test_a_restart_goes_on_with_it_and_says_so() -> None:
    stage = _restarted()

    assert _sale(stage) == (Side.SELL, 300, OrderType.LO, 26_950)
    assert stage.engine.passes_halt(stage.last(PlaceOrder).intent)
    held = "the strategies hold 300 HPG. To end it: bot halt"
    assert _notes(stage) == [f"goes on after the restart, asked for by operator: {held}"]
    assert stage.engine.status().state is RunState.HALTED


def test_a_restart_sells_nothing_twice_while_a_sale_of_before_may_have_arrived() -> None:
    first = _holding()
    _halt(first, flatten=True)
    sale = replace(first.last(PlaceOrder).intent, intent_id="L-0001")

    post = attempt_of(sale, sale.created_at)
    stage = _restarted(intents=(StoredIntent(sale, SendState.SENDING, None, post),))

    assert stage.all(PlaceOrder) == []
    stage.book(report_of(sale, order_id="ORD2", executed=300))
    assert _notes(stage)[-1].startswith("the strategies hold nothing any more")
    assert stage.all(PlaceOrder) == []


def test_a_restart_after_a_plain_halt_sells_nothing_and_says_what_is_left() -> None:
    stage = _restarted(is_allowed=False)

    assert stage.all(PlaceOrder) == []
    [alert] = [one for one in stage.all(Note) if one.numbers.get("alert") == "FLATTEN_ENDED"]
    assert alert.text == (
        "flatten not continued, because a halt came since, or another machine took over: "
        "the strategies hold 300 HPG. To sell it: bot halt --flatten"
    )


@pytest.mark.parametrize("action", [Action.RESUME, Action.HALT, Action.PAUSE])
def test_that_a_person_has_ended_it_is_journalled(action: Action) -> None:
    stage = _holding()
    _halt(stage, flatten=True)

    stage.handle(OperatorActed(stage.now, action, "no", "operator"))

    [*_, note] = [one for one in stage.all(Note) if one.kind == FLATTEN_NOTE]
    assert note.text == f"ended by a {action} by operator: the strategies hold 300 HPG"
    assert note.numbers == {"is_over": True}


def test_it_sells_as_soon_as_the_start_is_over() -> None:
    before = RecoveredStrategy({"HPG": (300, 8_100_000)}, 0, 0, 0, "on")
    stored = StoredFlatten("enough", "operator", START, is_allowed=True)
    held = Recovery(
        DAY, 2, 1, RunState.HALTED, "enough", strategies={"test": before}, flatten=stored
    )
    stage = Stage(recovery=held, sellable=300, is_open=False)
    assert "the bot is STARTING too" in stage.engine.status().alerts[0]

    stage.open()
    stage.depth(bid=26_950)
    stage.pass_time(1)

    assert _sale(stage) == (Side.SELL, 300, OrderType.LO, 26_950)


def test_a_pause_of_before_keeps_no_sale_back() -> None:
    stage = _holding()
    stage.handle(OperatorActed(stage.now, Action.PAUSE, "lunch", "operator"))

    _halt(stage, flatten=True)

    sale = stage.last(PlaceOrder).intent
    assert _sale(stage) == (Side.SELL, 300, OrderType.LO, 26_950)
    assert stage.engine.reason_not_to_send(sale) is None
    assert stage.engine.status().state is RunState.HALTED


def test_a_sale_that_lacked_a_token_does_not_keep_the_next_one_back() -> None:
    stage = _holding()
    _halt(stage, flatten=True)
    sale = stage.last(PlaceOrder).intent
    stage.block_for_token(sale)
    assert stage.engine.status().held == ()

    stage.after(20).token()
    _look(stage)

    assert _sale(stage) == (Side.SELL, 300, OrderType.LO, 26_900)
    assert stage.last(PlaceOrder).intent.intent_id != sale.intent_id


def test_nothing_is_sold_once_what_the_bot_believes_contradicts_itself() -> None:
    stage = _holding()
    fault = Fault("invariant I9", "I9: shares", "trace", invariant="I9")

    stage.phase(Phase.BREAK)
    _halt(stage, flatten=True)
    stage.handle(FaultFound(stage.now, "the account", fault))
    stage.phase(Phase.PROGRESS)
    _look(stage)

    assert stage.all(PlaceOrder) == []
    assert "contradicts itself: bot status. To sell anyway: bot halt --flatten" in "".join(
        stage.engine.status().alerts
    )
    stage.after(1)
    _halt(stage, flatten=True)
    assert _sale(stage)[:2] == (Side.SELL, 300)


def test_the_sessions_of_a_strategy_file_keep_no_sale_of_a_flatten_back() -> None:
    before = RecoveredStrategy({"HPG": (300, 8_100_000)}, 0, 0, 0, "on")
    recovery = Recovery(DAY, strategies={"test": before})
    when = When(phases=frozenset({Phase.PRE_CLOSED}), start=time(14, 30), end=time(14, 45))
    stage = Stage(replace(PLAN, when=when), recovery=recovery, sellable=300)
    stage.after(60).quote(27_000)
    stage.depth(bid=26_950)

    _halt(stage, flatten=True)

    assert _sale(stage) == (Side.SELL, 300, OrderType.LO, 26_950)


BROKEN = Fault("invariant I9", "I9: shares", "trace", invariant="I9")


def test_a_restart_sells_nothing_by_a_belief_that_contradicted_itself_before_it() -> None:
    stage = _restarted(faults=(StoredFault(START + timedelta(seconds=9), "the account", BROKEN),))

    assert stage.all(PlaceOrder) == []
    shown = stage.engine.status()
    assert [(one.where, one.error) for one in shown.faults] == [("the account", "I9: shares")]
    assert "contradicts itself: bot status. To sell anyway: bot halt" in "".join(shown.alerts)
    _look(stage)
    _halt(stage, flatten=True)
    assert _sale(stage)[:2] == (Side.SELL, 300)


def test_what_broke_before_a_person_asked_to_sell_holds_no_restart_back() -> None:
    stage = _restarted(faults=(StoredFault(START - timedelta(seconds=9), "the account", BROKEN),))

    assert _sale(stage)[:2] == (Side.SELL, 300)


def test_a_fault_of_before_the_restart_is_told_anew_and_ends_by_a_resume() -> None:
    stage = _restarted(faults=(StoredFault(START - timedelta(seconds=9), "the account", BROKEN),))

    for _ in range(2):
        stage.handle(FaultFound(stage.now, "the account", BROKEN))

    told = [one for one in stage.all(Note) if one.numbers.get("alert") == "INVARIANT_BROKEN"]
    assert len(told) == 1
    stage.handle(OperatorActed(stage.now, Action.RESUME, "looked", "operator"))
    assert stage.engine.status().faults == ()


# -------------------------------------------------------------------------------- a cancel by hand


def _cancelled(stage: Stage, name: str | None) -> None:
    """A person cancels the first sale, and the broker's row shows its end."""
    sale = stage.last(PlaceOrder).intent
    stage.accept(sale, "ORD2")
    stage.after(1).handle(CancelAsked(stage.now, name, "operator", "keep them"))
    row = report_of(sale, order_id="ORD2", state=OrderState.CANCELLED)
    stage.after(3).book(replace(row, status="CANCELLED"))
    stage.new(PlaceOrder)


@pytest.mark.parametrize("name", ["L-0001", "ORD2", None])
def test_what_a_person_cancels_of_it_is_not_sold_again_and_is_named(name: str | None) -> None:
    stage = _holding()
    _halt(stage, flatten=True)

    _cancelled(stage, name)
    for _ in range(10):
        _look(stage)

    assert stage.new(PlaceOrder) == []
    [left] = [one for one in stage.engine.status().standing if one.code == "FLATTEN"]
    why = "left out, as its sale was cancelled by hand. To sell it: bot halt --flatten"
    assert left.text == f"flatten: test still holds 300 HPG: {why}"
    [_, note] = [one for one in stage.all(Note) if one.kind == FLATTEN_NOTE]
    assert note.text == "sells no more HPG of test: operator has cancelled its sale"
    assert (note.numbers["left_out"], note.numbers["is_over"]) == ("HPG test", False)


def test_a_sale_whose_outcome_is_unknown_is_left_out_too_when_a_person_cancels_it() -> None:
    stage = _holding()
    _halt(stage, flatten=True)
    sale = stage.last(PlaceOrder).intent
    stage.send(sale)
    stage.after(1).answer(sale, Unknown("no answer came"))
    stage.handle(NonceBurnt(stage.now, sale.intent_id, Resolution.REACHED, "used"))

    stage.after(1).handle(CancelAsked(stage.now, sale.intent_id, "operator", "keep them"))
    stage.after(5).book()
    stage.handle(VerdictAsked(stage.now, sale.intent_id, None, "operator", "it never arrived"))
    for _ in range(10):
        _look(stage)

    assert stage.last(IntentMoved).to_state is SendState.NOT_PLACED
    assert stage.last(PlaceOrder).intent == sale


@pytest.mark.parametrize(
    ("status", "executed", "is_left_out"),
    [
        ("CANCELLED", 0, True),
        ("SENT", 100, True),
        ("INTERNAL_CANCELLED", 0, False),
        ("CANCEL_BY_STOCK_EVENT", 0, False),
    ],
)
def test_what_is_cancelled_in_the_brokers_app_is_left_out_too(
    status: str, executed: int, *, is_left_out: bool
) -> None:
    stage = _holding()
    _halt(stage, flatten=True)
    sale = stage.last(PlaceOrder).intent
    stage.accept(sale, "ORD2")
    gone = report_of(
        sale, "ORD2", executed=executed, cancelled=300 - executed, state=OrderState.CANCELLED
    )

    stage.after(3).book(replace(gone, status=status))
    for _ in range(10):
        _look(stage)

    assert (stage.last(PlaceOrder).intent == sale) is is_left_out
    notes = [one.text for one in stage.all(Note) if one.kind == FLATTEN_NOTE][1:]
    who = "somebody in the broker's own app has cancelled its sale"
    assert notes == [f"sells no more HPG of test: {who}"] * is_left_out


@pytest.mark.parametrize("phase", [Phase.OPEN, Phase.PRE_CLOSED])
def test_what_an_auction_leaves_unsold_is_sold_after_it(phase: Phase) -> None:
    stage = _holding()
    stage.phase(phase)
    _halt(stage, flatten=True)
    sale = stage.last(PlaceOrder).intent
    stage.accept(sale, "ORD2")
    gone = report_of(sale, "ORD2", cancelled=300, state=OrderState.CANCELLED)

    stage.phase(Phase.PROGRESS)
    stage.after(3).book(replace(gone, status="CANCELLED"))
    for _ in range(10):
        _look(stage)

    assert stage.last(PlaceOrder).intent != sale


def test_what_an_auction_left_unsold_before_the_night_is_sold_the_next_day() -> None:
    stage = _holding()
    stage.phase(Phase.PRE_CLOSED)
    _halt(stage, flatten=True)
    sale = stage.last(PlaceOrder).intent
    stage.accept(sale, "ORD2")
    stage.phase(Phase.CLOSED)
    stage.after(86_400).handle(TradingDayStarted(stage.now, DAY + timedelta(days=1)))
    gone = report_of(sale, "ORD2", cancelled=300, state=OrderState.CANCELLED)

    gone = replace(gone, status="CANCELLED", requested_at=stage.now)
    stage.handle(EarlierOrdersRead(stage.now, (gone,)))
    stage.open()
    stage.depth(bid=26_950)
    _look(stage)

    assert stage.last(PlaceOrder).intent != sale


def test_what_its_own_time_cancels_is_sold_again() -> None:
    stage = _holding()
    _halt(stage, flatten=True)
    sale = stage.last(PlaceOrder).intent
    stage.accept(sale, "ORD2")
    for _ in range(3):
        _look(stage)
    assert "ORD2" in stage.engine._state.cancels

    gone = report_of(sale, "ORD2", cancelled=300, state=OrderState.CANCELLED)
    stage.after(3).book(replace(gone, status="CANCELLED"))
    for _ in range(10):
        _look(stage)

    assert stage.last(PlaceOrder).intent != sale


def test_a_flatten_that_is_asked_for_anew_sells_also_what_a_person_had_cancelled() -> None:
    stage = _holding()
    _halt(stage, flatten=True)
    _cancelled(stage, "ORD2")

    stage.after(60)
    _look(stage)
    _halt(stage, flatten=True)

    assert _sale(stage) == (Side.SELL, 300, OrderType.LO, 26_900)


def test_a_restart_leaves_out_what_a_person_has_cancelled() -> None:
    stage = _restarted(left_out=frozenset({("test", "HPG")}))
    for _ in range(3):
        _look(stage)

    assert stage.all(PlaceOrder) == []
    [left] = [one for one in stage.engine.status().standing if one.code == "FLATTEN"]
    assert "left out, as its sale was cancelled by hand" in left.text


def test_a_cancel_of_what_worked_before_the_halt_leaves_nothing_out() -> None:
    stage = _holding()
    stage.request(lambda s: s.sell(100, limit=27_500))
    working = stage.last(PlaceOrder).intent
    stage.send(working)
    stage.accept(working, "ORD2")
    stage.after(1)

    _halt(stage, flatten=True)
    stage.handle(CancelAsked(stage.now, "ORD2", "operator", "by hand"))

    flattening = stage.engine._state.gate.flattening
    assert flattening is not None
    assert flattening.left_out == set()
