"""The index of orders and intents, compared with a plain scan after every event.

Hypothesis tells stories of an order's life in any order of events, sensible or not: requests and
every answer to them, rows that come late, change, move to another id or are somebody else's,
amendments, lost tokens, restarts and new days.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from bot.domain.entry import Fill
from bot.domain.errors import Fault, InvariantBroken
from bot.domain.message import (
    AmendAnswered,
    CancelAnswered,
    NonceBurnt,
    OrderRead,
    TodaysOrdersRead,
    TradingDayStarted,
)
from bot.domain.operations import Action, AmendAsked, CancelAsked, OperatorActed
from bot.domain.order import OrderReport, OrderState, OrderType, SendState
from bot.domain.outcome import Accepted, NotSent, Outcome, Refused, Resolution, Unknown
from bot.domain.recovery import RecoveredStrategy, Recovery, StoredIntent
from bot.engine.gate import IllegalMove
from bot.engine.settings import EngineSettings
from bot.engine.tracked import TrackedIntent, TrackedOrder
from tests.engine.plain_scan import require_equal
from tests.engine.stage import (
    ACCOUNT,
    DAY,
    PLAN,
    START,
    Stage,
    attempt_of,
    report_of,
    result_of,
)

_S = OrderState
PRICES = (26_900, 27_000, 27_100, None)
STATES = (_S.ACCEPTED, _S.CANCELLED, _S.REJECTED, _S.EXPIRED, _S.PENDING_CANCEL, None)


class Watched(Stage):
    """A stage that compares after every event."""

    def handle(self, event):
        done = super().handle(event)
        require_equal(self.engine._state)
        self.engine.next_due()
        require_equal(self.engine._state)
        return done


def _guard(step: Callable[[], object]) -> Fault | None:
    """A step that makes no sense in this state raises, and the next one finds what it left."""
    try:
        step()
    except IllegalMove as error:
        return Fault("illegal", str(error), "")
    except InvariantBroken as error:
        if error.code != "I4":  # an answer with the id of another order of ours
            raise
        return Fault("illegal", str(error), "")
    return None


class Story:
    """Tells one; each step takes a number, and chooses by it from what there is."""

    def __init__(self) -> None:
        self.ids, self.day = 0, DAY
        self.fills: list[tuple[date, Fill]] = []
        self.stage = self._staged(None)

    def _staged(self, recovery: Recovery | None, now=START) -> Stage:
        plan = replace(
            PLAN, hold_2fa=timedelta(seconds=60), order=replace(PLAN.order, expire_after=EXPIRE)
        )
        rules = EngineSettings(
            amend_enabled=True, max_unknown=9, max_unknown_per_account=9, duplicate_window=WINDOW
        )
        stage = Watched(
            plan,
            settings=rules,
            sellable=10_000,
            recovery=recovery,
            cash=10**9,
            is_open=False,
            guard=_guard,
        )
        stage.now = now
        stage.open()
        return stage

    @property
    def state(self):
        return self.stage.engine._state

    def new_id(self) -> str:
        self.ids += 1
        return f"ORD{self.ids}"

    def intent(self, number: int) -> TrackedIntent | None:
        known = list(self.state.intents.values())
        return known[-1 - number % len(known)] if known else None

    def order(self, number: int) -> TrackedOrder | None:
        known = list(self.state.orders.values())
        return known[-1 - number % len(known)] if known else None

    # ------------------------------------------------------------------------------- the steps

    def request(self, number: int) -> None:
        if self.state.gate.lacks_token and number % 2:
            self.token(0)
        quantity, price = 100 * (1 + number % 2), PRICES[number % len(PRICES)]
        is_buy = number % 7 > 0
        self.operate(Action.RESUME)
        self.stage.quote()

        def ask(strategy):
            call = strategy.buy if is_buy else strategy.sell
            if price is None:
                call(quantity, market=OrderType.MTL, why="dice")
            else:
                call(quantity, limit=price, why="dice")

        self.stage.request(ask)

    def send(self, number: int) -> None:
        if (one := self.intent(number % 2)) and one.state is SendState.READY:
            self.stage.send(one.intent)

    def answer(self, number: int) -> None:
        if one := self.intent(number % 2):
            self.stage.answer(one.intent, self._outcome(one, number))

    def _outcome(self, one: TrackedIntent, number: int) -> Outcome:
        """The order may have been seen as somebody else's, or as another one of ours, and its row
        may contradict itself.
        """
        strange = [
            key
            for key, order in self.state.orders.items()
            if not order.is_own and order.row.quantity == one.intent.quantity
        ]
        order_id = strange[-1] if strange and number % 3 == 0 else self.new_id()
        last = self.order(0)
        if last and last.row.trading_date == self.state.trading_date and number % 13 == 0:
            order_id = next(reversed(self.state.orders))
        executed = -1 if number % 11 == 0 else 0
        result = result_of(one.intent, order_id, executed_quantity=executed)
        rejected = replace(result, state=_S.REJECTED)
        return (
            Accepted(result),
            Accepted(result),
            Unknown("deadline"),
            NotSent("no connection"),
            Refused("-1", "no", 400),
            Refused("-1", "no", 200, rejected),
            Refused("OTP_SESSION_EXPIRED", "2FA", 403),
        )[number % 7]

    def place(self, number: int) -> None:
        self.request(number)
        self.send(0)
        if one := self.intent(0):
            self.stage.answer(one.intent, self._outcome(one, number))

    def burn(self, number: int) -> None:
        if one := self.intent(number % 3):
            found = list(Resolution)[number % len(Resolution)]
            self.stage.handle(NonceBurnt(self.stage.now, one.intent.intent_id, found, "dice"))

    def row(self, number: int) -> None:
        if order := self.order(number % 3):
            self.stage.handle(
                OrderRead(self.stage.now, order.row.order_id, self._row(order, number))
            )

    def book(self, number: int) -> None:
        known = list(self.state.orders.values())
        rows = [self._row(order, number + place) for place, order in enumerate(known)]
        asked = self.stage.now - timedelta(seconds=number % 3)
        self.stage.handle(TodaysOrdersRead(self.stage.now, ACCOUNT, tuple(rows), asked, ()))

    def strange_row(self, number: int) -> None:
        """A row that nobody owns: like one of ours, or of another symbol or account."""
        if one := self.intent(number):
            row = report_of(one.intent, self.new_id(), trading_date=self.day)
            row = replace(row, symbol="SHS") if number % 4 == 1 else row
            row = replace(row, account="120C900002.1") if number % 4 == 2 else row
            self.stage.book(row)

    def renamed(self, number: int) -> None:
        """An amendment has given an order another id."""
        if order := self.order(number):
            row, old = self._row(order, 0), order.row.order_id
            self.stage.book(replace(row, order_id=self.new_id(), root_order_id=old))

    def _row(self, order: TrackedOrder, number: int) -> OrderReport:
        row = order.row
        executed = min(row.quantity, row.executed_quantity + 100 * (number % 3 == 1))
        state = STATES[number % len(STATES)]
        price = row.price + 100 if row.price and number % 5 == 4 else row.price
        average = row.price or 27_000
        change = order.change
        is_done = change is not None and number % 2 == 0
        wanted = change.ask if change is not None and is_done else None
        return OrderReport(
            order_id=row.order_id,
            root_order_id="",
            account=row.account,
            trading_date=row.trading_date,
            symbol=row.symbol,
            side=row.side,
            quantity=(wanted.quantity if wanted else None) or row.quantity,
            order_type=row.order_type,
            price=(wanted.limit_price if wanted else None) or price,
            executed_quantity=executed,
            average_price=average if executed else 0,
            executed_amount=executed * average,
            remaining_quantity=0 if state is _S.CANCELLED else row.quantity - executed,
            cancelled_quantity=row.quantity - executed if state is _S.CANCELLED else 0,
            status=str(state),
            state=state,
            may_cancel=True,
            may_amend=True,
            placed_at=None,
            message="",
            requested_at=self.stage.now,
            raw=f"{number}",
        )

    def cancel(self, number: int) -> None:
        name = order.row.order_id if (order := self.order(number)) and number % 4 else None
        self.stage.handle(CancelAsked(self.stage.now, name, "dice", "test"))

    def cancel_answered(self, number: int) -> None:
        if order := self.order(number):
            outcome = (NotSent("no"), Unknown("deadline"), Refused("-1", "no", 400))[number % 3]
            self.stage.handle(CancelAnswered(self.stage.now, order.row.order_id, outcome, None))

    def amend(self, number: int) -> None:
        if order := self.order(number % 2):
            name, now = order.row.order_id, self.stage.now
            price = 27_050 + 50 * (number % 3) if number % 2 else None
            quantity = None if number % 2 else 300 + 100 * (number % 3)
            self.stage.handle(AmendAsked(now, name, price, quantity, "dice", "test"))
            self.stage.after(1)
            if found := self.order(number % 2):
                row = replace(self._row(found, 0), requested_at=self.stage.now)
                self.stage.handle(OrderRead(self.stage.now, name, row))

    def amend_answered(self, number: int) -> None:
        if order := self.order(number % 2):
            outcome = (NotSent("no"), Unknown("deadline"), Refused("-1", "no", 400))[number % 3]
            self.stage.handle(AmendAnswered(self.stage.now, order.row.order_id, outcome, None))

    def wait(self, number: int) -> None:
        self.stage.pass_time((0.3, 0.6, 1, 2, 5, 16, 45, 130)[number % 8])

    def token(self, _number: int) -> None:
        self.stage.token()
        self.stage.quote()

    def close_gate(self, number: int) -> None:
        self.operate((Action.PAUSE, Action.HALT)[number % 2])

    def operate(self, action: Action) -> None:
        self.stage.handle(OperatorActed(self.stage.now, action, "dice", "test"))

    def account(self, _number: int) -> None:
        self.stage.account()

    def new_day(self, number: int) -> None:
        if number % 2:
            self.day += timedelta(days=1)
            self.stage.after(24 * 3600)
            self.stage.handle(TradingDayStarted(self.stage.now, self.day))

    def restart(self, _number: int) -> None:
        """Begin again from what a journal would know."""
        state = self.state
        stored = tuple(
            StoredIntent(
                one.intent,
                one.state,
                one.order_id,
                attempt_of(
                    one.intent, one.sent_at, *filter(one.known_ids.__contains__, state.orders)
                )
                if one.sent_at
                else None,
            )
            for one in state.intents.values()
        )
        new = [fill for fill in self.stage.entries if isinstance(fill, Fill)]
        self.fills += [(state.orders[fill.order_id].row.trading_date, fill) for fill in new]
        strategy = state.strategies["test"]
        held = {symbol: (one.shares, one.cost) for symbol, one in strategy.positions.items()}
        recovery = Recovery(
            self.day,
            next_intent_number=state.next_intent_number,
            next_fill_number=state.next_fill_number,
            intents=stored,
            orders=tuple(order.row for order in state.orders.values()),
            strategies={
                "test": RecoveredStrategy(
                    held,
                    strategy.orders_today,
                    strategy.realised_today,
                    strategy.fees_today,
                    strategy.state,
                )
            },
            recent_fills=tuple(self.fills),
        )
        self.stage = self._staged(recovery, self.stage.now)


EXPIRE, WINDOW = timedelta(seconds=100), timedelta(seconds=10)
STEPS = (
    *(Story.place, Story.request, Story.send, Story.answer, Story.burn),
    *(Story.row, Story.book, Story.strange_row, Story.renamed, Story.wait, Story.wait),
    *(Story.cancel, Story.cancel_answered, Story.amend, Story.amend, Story.amend_answered),
    *(Story.token, Story.close_gate, Story.account, Story.new_day, Story.restart, Story.place),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 99)), min_size=20, max_size=60))
def test_it_says_after_every_event_what_a_scan_of_everything_would_say(steps):
    story = Story()

    for step, number in steps:
        step(story, number)

    require_equal(story.state)


def test_an_open_order_that_is_forgotten_leaves_every_group_for_good():
    story = Story()
    story.stage.working()
    order, reserved = story.state.orders["ORD1"], story.state.index.reserved.of(ACCOUNT)

    story.state.index.forget_order("ORD1")
    order.row = replace(order.row, executed_quantity=0)

    assert reserved > 0
    assert story.state.index.reserved.of(ACCOUNT) == 0
    assert story.stage.engine.next_due() is None
    require_equal(story.state)
