"""A stage for the engine: one HOSE symbol, one strategy that makes a test's requests."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from bot.cli.telling.languages import catalogue
from bot.config.rulebook import load_rulebook
from bot.domain.account import AccountSnapshot, Holding
from bot.domain.entry import AttemptFinished, AttemptStarted, Decision, Note, OrderUpdated
from bot.domain.instrument import Exchange, Instrument, Phase
from bot.domain.message import (
    AccountRead,
    Command,
    DepthReceived,
    Event,
    InstrumentsRead,
    OrderRead,
    PhaseChanged,
    PlaceAnswered,
    PlaceOrder,
    QuoteReceived,
    Reconciled,
    Record,
    Recovered,
    SendStarted,
    TimePassed,
    TimerFired,
    TodaysOrdersRead,
    TwoFactorReady,
)
from bot.domain.order import (
    Intent,
    OrderReport,
    OrderResult,
    OrderState,
    OrderType,
    Side,
    UnreadRow,
)
from bot.domain.outcome import Accepted, Outcome, Refused
from bot.domain.plan import Limits, OrderPlan, StrategyMode, StrategyPlan, Wake, When
from bot.domain.quote import Depth, DepthLevel, Quote
from bot.domain.recovery import Recovery
from bot.domain.rulebook import Rulebook
from bot.engine.engine import Engine
from bot.engine.settings import (
    EngineSettings,
    Guard,
    LoadedStrategy,
    StrategyFault,
    invoke_plainly,
    unguarded,
)
from bot.strategy import Strategy
from tests import order_rows
from tests.cli.telling.told_whole import require_whole

DAY = date(2026, 11, 19)
START = datetime(2026, 11, 19, 2, 30, tzinfo=UTC)
"""09:30 local on a Thursday, HOSE continuous."""
ACCOUNT = "120C900001.1"
HPG = Instrument("HPG", Exchange.HOSE)
RULEBOOK = load_rulebook()
PLAN = StrategyPlan(
    name="test",
    use="test",
    symbols=("HPG",),
    account=ACCOUNT,
    mode=StrategyMode.TRADE,
    parameters={},
    wake=Wake(),
    when=When(),
    order=OrderPlan(),
    limits=Limits(),
)
Requester = Callable[[Strategy], None]


class Stage:
    """Drives one engine. `done` holds the commands of the last event, `entries` all records."""

    def __init__(
        self,
        plan: StrategyPlan = PLAN,
        *,
        settings: EngineSettings | None = None,
        cash: int = 100_000_000,
        sellable: int = 0,
        is_open: bool = True,
        recovery: Recovery | None = None,
        hooks: dict[str, object] | None = None,
        rulebook: Rulebook | None = None,
        guard: Guard = unguarded,
        beside: Sequence[StrategyPlan] = (),
    ) -> None:
        self.now = START
        self.entries: list[object] = []
        self.commands: list[Command] = []
        self.done: list[Command] = []
        self.told: list[tuple[str, Any]] = []
        self.fault: StrategyFault | None = None
        self._requesters: list[Requester] = []
        factory = self._class(hooks or {})
        self.engine = Engine(
            rulebook=rulebook or RULEBOOK,
            strategies=[LoadedStrategy(each, factory, (HPG,)) for each in (plan, *beside)],
            settings=settings or EngineSettings(),
            invoke=self._invoke,
            guard=guard,
        )
        self.cash, self.sellable = cash, sellable
        self.handle(Recovered(self.now, recovery or Recovery(DAY)))
        if is_open:
            self.open()

    def open(self) -> None:
        self.handle(InstrumentsRead(self.now, (HPG,)))
        self.phase(Phase.PROGRESS)
        self.account()
        self.handle(Reconciled(self.now))
        self.quote()

    def _class(self, hooks: dict[str, object]) -> type[Strategy]:
        stage = self

        class Told(Strategy):
            def on_timer(self, timer: time) -> None:  # noqa: ARG002
                while stage._requesters:
                    stage._requesters.pop(0)(self)

            def on_fill(self, fill: object) -> None:
                stage.told.append(("fill", fill))

            def on_reject(self, rejection: object) -> None:
                stage.told.append(("reject", rejection))

        return type("Hooked", (Told,), hooks)

    def _invoke(
        self, strategy: Strategy, hook: str, argument: object | None
    ) -> StrategyFault | None:
        invoke_plainly(strategy, hook, argument)
        return self.fault

    # ---------------------------------------------------------------------------- what happens

    def handle(self, event: Event) -> list[Command]:
        self.done = self.engine.handle(event)
        self.commands += self.done
        self.entries += [one.entry for one in self.done if isinstance(one, Record)]
        for note in self.new(Note):
            code = note.numbers.get("alert")
            is_missed = (note.kind, code) == ("MISSED", "TIMER_MISSED")
            assert (note.kind in {"ALERT", "FAULT"} or is_missed) is (code is not None), note
            assert code is None or catalogue("vi").told(str(code), note.numbers), note
            if note.kind == "ALERT":
                require_whole(str(code), note.text)
        return self.done

    def after(self, seconds: float) -> "Stage":
        self.now += timedelta(seconds=seconds)
        return self

    def pass_time(self, seconds: float) -> list[Command]:
        self.after(seconds)
        return self.handle(TimePassed(self.now))

    def request(self, *requests: Requester, by: str = "test") -> list[Command]:
        self._requesters += requests
        return self.handle(TimerFired(self.now, by, time(9, 30)))

    def buy(self, quantity: int = 100, limit: int = 27_000) -> Intent:
        self.request(lambda s: s.buy(quantity, limit=limit, why="as asked"))
        placed: PlaceOrder = self.last(PlaceOrder)
        return placed.intent

    def quote(self, last: int = 27_000, **changes: object) -> list[Command]:
        quote = Quote(
            "HPG", Exchange.HOSE, last, 27_000, 28_850, 25_150, None, None, None, 1_000, self.now
        )
        return self.handle(QuoteReceived(self.now, replace(quote, **changes)))  # type: ignore[arg-type]

    def depth(self, bid: int | None = 26_950, ask: int | None = 27_000) -> list[Command]:
        bids = (DepthLevel(bid, 5_000),) if bid else ()
        asks = (DepthLevel(ask, 1_000),) if ask else ()
        return self.handle(DepthReceived(self.now, Depth("HPG", bids, asks, self.now)))

    def phase(self, phase: Phase, *available: OrderType) -> list[Command]:
        listed = frozenset(available) or None
        return self.handle(PhaseChanged(self.now, Exchange.HOSE, phase, listed))

    def account(self, total: int | None = None, net_assets: int | None = None) -> list[Command]:
        held = self.sellable if total is None else total
        holding = Holding("HPG", held, self.sellable, held - self.sellable, 20_000)
        worth = self.cash if net_assets is None else net_assets
        snapshot = AccountSnapshot(self.now, ACCOUNT, self.cash, worth, {"HPG": holding})
        return self.handle(AccountRead(self.now, snapshot))

    # ------------------------------------------------------------------------- what is answered

    def send(self, intent: Intent) -> None:
        self.handle(SendStarted(self.now, intent.intent_id))

    def finished_of(self, intent: Intent) -> AttemptFinished:
        name = intent.intent_id
        return AttemptFinished(self.now, f"a-{name}", name, "?", 200, None, "", "{}", 1)

    def answer(
        self, intent: Intent, outcome: Outcome, finished: AttemptFinished | None = None
    ) -> list[Command]:
        finished = finished or self.finished_of(intent)
        return self.handle(PlaceAnswered(self.now, intent.intent_id, outcome, finished))

    def accept(self, intent: Intent, order_id: str = "ORD1") -> list[Command]:
        self.send(intent)
        return self.answer(intent, Accepted(result_of(intent, order_id)))

    def working(self, quantity: int = 100, limit: int = 27_000, order_id: str = "ORD1") -> Intent:
        intent = self.buy(quantity, limit)
        self.accept(intent, order_id)
        return intent

    def block_for_token(self, intent: Intent, code: str = "OTP_SESSION_EXPIRED") -> list[Command]:
        self.send(intent)
        return self.answer(intent, Refused(code, "2FA", 403))

    def token(self) -> list[Command]:
        return self.handle(TwoFactorReady(self.now, self.now + timedelta(hours=8), "operator"))

    def book(
        self,
        *reports: OrderReport,
        asked_at: datetime | None = None,
        set_aside: Sequence[UnreadRow] = (),
    ) -> list[Command]:
        asked = asked_at or self.now
        rows = tuple(replace(one, requested_at=asked) for one in reports)
        return self.handle(TodaysOrdersRead(self.now, ACCOUNT, rows, asked, tuple(set_aside)))

    def row(self, report: OrderReport | None, order_id: str = "ORD1") -> list[Command]:
        found = replace(report, requested_at=self.now) if report else None
        return self.handle(OrderRead(self.now, order_id, found))

    # ---------------------------------------------------------------------------- what is found

    def all(self, kind: type) -> list[Any]:
        return [one for one in (*self.entries, *self.commands) if isinstance(one, kind)]

    def last(self, kind: type) -> Any:
        return self.all(kind)[-1]

    def new(self, kind: type) -> list[Any]:
        return [one for one in self.news() if isinstance(one, kind)]

    def news(self) -> list[Any]:
        return [one.entry if isinstance(one, Record) else one for one in self.done]

    def entries_of_order(self, order_id: str = "ORD1") -> OrderUpdated:
        rows = [one for one in self.entries if isinstance(one, OrderUpdated)]
        return [row for row in rows if row.order_id == order_id][-1]

    def due(self) -> datetime:
        due = self.engine.next_due()
        assert due is not None
        return due

    def is_idle(self) -> bool:
        """Whether nothing is due any more, except that what was traded settles in two days."""
        return self.engine.next_due() in {None, self.engine._state.reconciling.settled_at}

    def decided(self) -> tuple[str, str]:
        decision: Decision = self.last(Decision)
        return decision.verdict, decision.code


def report_of(
    intent: Intent,
    order_id: str = "ORD1",
    *,
    executed: int = 0,
    cancelled: int = 0,
    remaining: int | None = None,
    average: int | None = None,
    state: OrderState | None = OrderState.ACCEPTED,
    status: str = "SENT",
    **changes: object,
) -> OrderReport:
    """A row of the day order book that shows an intent's order."""
    average_price = average or intent.limit_price or 27_000
    report = replace(
        order_rows.report_of(intent, order_id, START),
        executed_quantity=executed,
        average_price=average_price if executed else 0,
        executed_amount=executed * average_price,
        remaining_quantity=intent.quantity - executed - cancelled
        if remaining is None
        else remaining,
        cancelled_quantity=cancelled,
        status=status,
        state=state,
        placed_at=None,
        raw=f"{status} {executed}",
    )
    return replace(report, **changes)  # type: ignore[arg-type]


def attempt_of(intent: Intent, at: datetime, *known_ids: str) -> AttemptStarted:
    """The POST of an intent, as stored in the journal."""
    return AttemptStarted(
        at=at,
        attempt_id="a-1",
        intent_id=intent.intent_id,
        verb="POST",
        target="/",
        order_id=None,
        nonce="n",
        signed_ms=0,
        boot_id="boot",
        boottime_ns=0,
        body_sha256="",
        body="",
        known_ids=known_ids,
        epoch=1,
    )


def result_of(intent: Intent, order_id: str = "ORD1", **changes: object) -> OrderResult:
    """The one element of a place answer."""
    result = order_rows.result_of(order_rows.report_of(intent, order_id, START))
    return replace(result, **{"lot": "EVEN", **changes})  # type: ignore[arg-type]


def limited(**limits: int) -> StrategyPlan:
    """The plan with some limits."""
    return replace(PLAN, limits=Limits(**limits))


def sell_intent(intent: Intent) -> Intent:
    """The same intent on the other side."""
    return replace(intent, side=Side.SELL)
