"""Everything the engine knows: its single mutable root, with each strategy.

Only event handlers change it. Its parts: orders under way (`tracked.py`, filed in `index.py`),
accounts (`account_state.py`, `flows.py`), what holds orders back (`control_state.py`), the market
(`findings.py`, `bars.py`).
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from datetime import date, datetime

from bot.domain.account import AccountSnapshot, ShareholderRight
from bot.domain.entry import Entry, Note, Numbers, RunState, StateChanged
from bot.domain.instrument import Exchange, Instrument
from bot.domain.message import (
    AmendOrder,
    CancelOrder,
    Command,
    PlaceOrder,
    ReadOrder,
    Record,
    TodaysOrdersRead,
)
from bot.domain.order import Side
from bot.domain.plan import NONE, Limits, StrategyPlan
from bot.domain.recovery import RECENT_BUYS
from bot.domain.rulebook import Rulebook
from bot.engine.account_state import OF_LATE, DayTrade, Exposure, Recent, Usage
from bot.engine.bars import Bars
from bot.engine.chains import Chains
from bot.engine.control_state import (
    Checked,
    FailingReads,
    Gate,
    MachineTime,
    OldBooks,
    PlaceAnswers,
    TrackedFault,
)
from bot.engine.flows import AccountLedger, Flow, Flows, Reconciling
from bot.engine.index import Index, SeenIds
from bot.engine.seen import Belief, DepthSeen, PhaseSeen, QuoteSeen, Rules
from bot.engine.settings import LONG_AGO, EngineSettings, Guard, Invoke, LoadedStrategy, unguarded
from bot.engine.tracked import BackOff, TrackedAmend, TrackedCancel, TrackedIntent, TrackedOrder
from bot.strategy import Context, Request, Strategy


@dataclass(slots=True)
class Position:
    """Shares and their cost, in VND without fees."""

    shares: int = 0
    cost: int = 0

    def take(self, side: Side, quantity: int, amount: int) -> int:
        """Apply a fill; return a sale's realised result before fee and tax, 0 for a buy.

        By average cost: the cost of the shares sold is their share of the whole cost, rounded down;
        what rounding leaves stays with the rest, and the last share takes all that is left.
        """
        if side is Side.BUY:
            self.shares += quantity
            self.cost += amount
            return 0
        known = min(quantity, self.shares)
        cost = self.cost * known // self.shares if known > 0 else 0
        self.shares -= quantity
        self.cost -= cost
        return amount - cost


@dataclass(slots=True)
class Instance:
    """One instance of a strategy at its symbol. `bars_needed` is 0 once it has its history."""

    symbol: str
    strategy: Strategy
    context: Context
    woken_at: dict[str, datetime] = field(default_factory=dict)
    bars_needed: int = 0
    has_started: bool = False
    start_error: str = ""


@dataclass(slots=True)
class StrategyState:
    """A strategy with its instances, its switch and its counters of the day.

    `coming`: by symbol and settlement, the shares that it has bought and that are not settled.
    `limits` are the tighter of its file's and the bot's, `shared_limits` the names of the bot's;
    `refusals` the broker's, in a row; `repeats` today's orders filled on a side of a symbol since
    it was last switched on; `days` today's trades; `recent_buys` the values of its last buys;
    `refused_rows` the sides and codes of limit refusals that have rows, today and since a symbol's
    last order; `asked_of_late` how many requests it has made since `asked_since`, a second at most.
    """

    plan: StrategyPlan
    limits: Limits
    instances: dict[str, Instance]
    shared_limits: frozenset[str] = frozenset()
    state: str = "on"
    state_by: str = ""
    state_reason: str = ""
    faults: int = 0
    refusals: int = 0
    refused_of_late: Recent = field(default_factory=lambda: Recent(OF_LATE))
    orders_today: int = 0
    realised_today: int = 0
    fees_today: int = 0
    refused_rows: dict[str, set[tuple[Side, str]]] = field(default_factory=dict)
    repeats: dict[tuple[str, Side], int] = field(default_factory=dict)
    positions: dict[str, Position] = field(default_factory=dict)
    coming: dict[str, dict[datetime, int]] = field(default_factory=dict)
    days: dict[str, DayTrade] = field(default_factory=dict)
    recent_buys: deque[int] = field(default_factory=lambda: deque(maxlen=RECENT_BUYS))
    asked_since: datetime | None = None
    asked_of_late: int = 0

    def position(self, symbol: str) -> Position:
        """Return the own position in a symbol; an empty one, not stored, if there is none."""
        return self.positions.get(symbol, Position())

    def unsettled(self, symbol: str, now: datetime) -> int:
        """Return how many shares it has bought that cannot be sold yet (T+2)."""
        coming = self.coming.get(symbol)
        return sum(shares for at, shares in coming.items() if at > now) if coming else 0


@dataclass(frozen=True, slots=True)
class HookCall:
    """A due hook of an instance; it is called once the event's state has settled.

    `round`: 1 for the event's own hooks, 2 for those that result from them, and so on.
    """

    strategy: StrategyState
    instance: Instance
    hook: str
    argument: object | None
    round: int


@dataclass(frozen=True, slots=True)
class WaitingClose:
    """A close that waits until sales may go out again."""

    strategy: str
    symbol: str
    request: Request
    why: str
    since: datetime
    due: datetime


MakeContext = Callable[[str, str], Context]
"""Creates the context of an instance, for a symbol and a strategy."""


class State:
    """The root. `now` is the latest market time of an event."""

    def __init__(
        self,
        *,
        rulebook: Rulebook,
        strategies: Sequence[LoadedStrategy],
        settings: EngineSettings,
        invoke: Invoke,
        guard: Guard = unguarded,
        context: MakeContext = Context,
    ) -> None:
        self.rulebook, self.settings = rulebook, settings
        self.rules = Rules(rulebook, settings)
        self.has_account_limits = settings.account_limits != NONE
        self.invoke, self.guard, self._make_context = invoke, guard, context
        self.now = LONG_AGO
        self.trading_date: date = date.min
        self.gate = Gate()
        self.instruments: dict[str, Instrument] = {}
        self.quotes: dict[str, QuoteSeen] = {}
        self.depths: dict[str, DepthSeen] = {}
        self.phases: dict[Exchange, PhaseSeen] = {}
        self.beliefs: dict[str, Belief] = {}
        self.bars, self.chains = Bars(), Chains()
        self.accounts: dict[str, AccountSnapshot] = {}
        self.reconciling = Reconciling()
        self.flows, self.usage, self.exposure = Flows(), Usage(), Exposure()
        self.ledgers: dict[str, AccountLedger] = {}
        self.early_flows: list[Flow] = []
        self.rights: dict[str, tuple[ShareholderRight, ...]] = {}
        self.explained_rights: set[tuple[str, str | None]] = set()
        self.index = Index(rulebook)
        self.intents, self.orders = self.index.intents, self.index.orders
        self.cancels: dict[str, TrackedCancel] = {}
        self.amends: dict[str, TrackedAmend] = {}
        self.seen_ids = SeenIds()
        self.halted_symbols: dict[str, str] = {}
        self.halted_scopes: dict[str, str] = {}
        self.refusals: dict[str, tuple[str, int]] = {}
        self.set_aside: dict[str, TodaysOrdersRead] = {}
        self.waiting_closes: dict[tuple[str, str], WaitingClose] = {}
        self.alerted: set[str] = set()
        self.next_intent_number = self.next_fill_number = 1
        self.day_order_book_asked_at: datetime | None = None
        self.machine, self.place_answers, self.old_books = MachineTime(), PlaceAnswers(), OldBooks()
        self.failing_reads: dict[str, FailingReads] = {}
        self.checked = Checked()
        self.counts: Counter[str] = Counter()
        self.due_hooks: deque[HookCall] = deque()
        self.early_news: list[HookCall] = []
        self.is_reconciled, self.earlier_ended_at, self.hook_round = False, date.min, 0
        self.faults: dict[str, TrackedFault] = {}
        self.unloaded: dict[tuple[str, str], Position] = {}
        self.unloaded_coming: dict[tuple[str, str], dict[datetime, int]] = {}
        self.strategies = {loaded.plan.name: self._started(loaded) for loaded in strategies}
        self.instances: dict[str, list[tuple[StrategyState, Instance]]] = {}
        for strategy in self.strategies.values():
            for symbol, instance in strategy.instances.items():
                self.instances.setdefault(symbol, []).append((strategy, instance))
        self._records: list[Command] = []
        self._others: dict[Command, None] = {}

    def _started(self, loaded: LoadedStrategy) -> StrategyState:
        plan, instances = loaded.plan, {}
        for instrument in loaded.instruments:
            self.instruments[instrument.symbol] = instrument
        for symbol in plan.symbols:
            if (width := plan.wake.bar) is not None:
                self.bars.want(symbol, width)
            context = self._make_context(symbol, plan.name)
            strategy = loaded.factory(context)
            for name, value in plan.parameters.items():
                setattr(strategy, name, value)
            instances[symbol] = Instance(symbol, strategy, context)
        limits = tighter(plan.limits, self.settings.limits)
        return StrategyState(plan, limits, instances, of_the_bot(limits, plan.limits))

    def position_of(self, strategy: str, symbol: str) -> Position:
        """Return the position of a strategy in a symbol, which fills change; those of strategies
        missing in this run are `unloaded`.
        """
        loaded = self.strategies.get(strategy)
        if loaded is not None:
            return loaded.positions.setdefault(symbol, Position())
        return self.unloaded.setdefault((strategy, symbol), Position())

    # --------------------------------------------------------------------- the commands of an event

    def record(self, entry: Entry) -> None:
        """Journal an entry."""
        self._records.append(Record(entry))

    def command(self, command: Command) -> None:
        """Issue a command, once per event, with an order named as the broker knows it."""
        addressed = self.chains.addressed(command)
        if addressed not in self._others:
            if isinstance(command, PlaceOrder):
                usage = self.usage.of(command.intent.account)
                usage.send(self.now)
                if command.intent.side is Side.SELL:
                    usage.sell(self.now)
            elif isinstance(command, CancelOrder | AmendOrder):
                self.usage.of(command.account).send(self.now)
        self._others[addressed] = None

    def read_former(self, order_id: str) -> None:
        """Request the row of a former id of an order, from before an amendment."""
        self._others[ReadOrder(order_id, "what was matched under a former id")] = None

    def drain(self) -> list[Command]:
        """Return and clear the event's commands, records first."""
        commands = [*self._records, *self._others]
        self._records, self._others = [], {}
        return commands

    def note(
        self, kind: str, text: str, numbers: Numbers | None = None, *, symbol: str | None = None
    ) -> None:
        """Journal a line that is not about an order."""
        self.record(Note(self.now, kind, text, numbers or {}, symbol))

    def alert(
        self, code: str, text: str, facts: Numbers, *, about: str = "", symbol: str | None = None
    ) -> None:
        """Journal an alert: once if `about` is the same, every time without it.

        `code` names the kind in capitals, `text` is the whole message in English: what happened, to
        which order, what the bot does now, what the person must do. From `code` and `facts` alone
        another language says the same.
        """
        key = f"{code} {about}"
        if not about or key not in self.alerted:
            self.alerted.add(key)
            self.note("ALERT", text, {"alert": code, **facts}, symbol=symbol)

    def halt_symbol(self, symbol: str, reason: str) -> None:
        """Accept no new order in a symbol until an operator resumes."""
        if symbol not in self.halted_symbols:
            self.halted_symbols[symbol] = reason
            self._switch_symbol(symbol, RunState.HALTED, reason, "engine")
            self.tell_of_halt(symbol, reason)

    def tell_of_halt(self, symbol: str, reason: str) -> None:
        """Raise the alert; of a symbol that is halted already, about another reason."""
        text = (
            f"{symbol} halted: {reason}. No new order goes out in it, cancels go on. When it is"
            f' clear: bot resume {symbol} --reason "…"'
        )
        self.alert("SYMBOL_HALTED", text, {"symbol": symbol, "why": reason}, symbol=symbol)

    def resume_symbols(self, reason: str, by: str, *, only: str | None = None) -> None:
        """Resume every halted symbol, or one."""
        for symbol in sorted(self.halted_symbols) if only is None else [only]:
            del self.halted_symbols[symbol]
            self._switch_symbol(symbol, RunState.RUNNING, reason, by)
            self.note("RESUME", f"{symbol} trades again: {reason}", symbol=symbol)

    def _switch_symbol(self, symbol: str, to: RunState, reason: str, by: str) -> None:
        """Journal it under its own scope: it survives a restart, and sends are
        checked against it.
        """
        before = RunState.RUNNING if to is RunState.HALTED else RunState.HALTED
        self.record(StateChanged(self.now, before, to, reason, by, scope=f"symbol:{symbol}"))

    # ----------------------------------------------------------------------------- what it looks up

    def passes_halt(self, intent_id: str) -> bool:
        """Return whether an order is a sale that a person has requested with the halt itself."""
        flattening = self.gate.flattening
        return flattening is not None and intent_id in flattening.intents

    def phase_of(self, exchange: Exchange) -> PhaseSeen:
        """Return the announced phase, else the rulebook's: before the first read, if none worked
        since the last boundary, and at once where the timetable closes something.
        """
        seen = self.phases.get(exchange)
        if seen is not None and self.now < seen.until:
            closing = seen.closing
            if closing is None or not closing.since <= self.now < closing.until:
                return seen
            return closing
        phase = self.rulebook.phase_at(exchange, self.now)
        since = self.rulebook.phase_since(exchange, phase, self.now)
        return PhaseSeen(phase, None, since or LONG_AGO)

    def open_orders(self) -> Sequence[TrackedOrder]:
        """Every order that has not ended, own and external."""
        return self.index.open.of(True)

    def working_orders(self, strategy: str, symbol: str) -> list[TrackedOrder]:
        """The open orders of one strategy in one symbol."""
        return [one for one in self.index.open_in.of(symbol) if one.row.strategy == strategy]

    def pending_intents(self) -> Sequence[TrackedIntent]:
        """Intents without a known order whose full size is reserved."""
        return self.index.pending.of(True)

    def due_polls(self, at: datetime) -> Sequence[TrackedOrder | TrackedIntent]:
        """Return what the day order book has to be read for by then: orders, then lost places."""
        index = self.index
        orders, intents = index.order_polls.ripe(self.now), index.intent_polls.ripe(self.now)
        polled: Iterable[TrackedOrder | TrackedIntent] = (*orders, *intents)
        return [one for one in polled if one.poll is not None and one.poll.due <= at]

    def satisfy_polls(self, requested_at: datetime) -> None:
        """A day order book has come: what was due when it was requested need not be requested
        again.
        """
        self.day_order_book_asked_at = None
        for polled in self.due_polls(requested_at):
            self.advance_poll(polled)

    def first_poll(self) -> BackOff:
        """Return the back-off of something just sent or changed."""
        return BackOff(self.now + self.settings.poll_backoff[0])

    def advance_poll(self, polled: TrackedOrder | TrackedIntent) -> None:
        """Request the day order book one interval later than before."""
        assert polled.poll is not None, "what falls due is polled"
        polled.poll = polled.poll.advanced(self.now, self.settings.poll_backoff)


def tighter(one: Limits, other: Limits) -> Limits:
    """Return, limit by limit, the smaller of two; None is no limit."""

    def least(name: str) -> int | None:
        values = (getattr(one, name), getattr(other, name))
        return min((value for value in values if value is not None), default=None)

    return Limits(**{each.name: least(each.name) for each in fields(Limits)})


def of_the_bot(limits: Limits, own: Limits) -> frozenset[str]:
    """Return the names of the effective limits that do not come from a strategy's own file."""
    names = (each.name for each in fields(Limits))
    return frozenset(
        name.removesuffix("_ppm") for name in names if getattr(limits, name) != getattr(own, name)
    )
