"""Everything the engine knows: its one mutable root. Only handlers of events change it."""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from datetime import date, datetime, timedelta
from typing import Final

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
from bot.domain.operations import CodesCounted
from bot.domain.order import Side
from bot.domain.plan import NONE, Limits
from bot.domain.rulebook import Rulebook
from bot.engine.bars import Bars
from bot.engine.cancelling import Flattening, TrackedCancel
from bot.engine.chains import Chains
from bot.engine.exposure import Exposure
from bot.engine.findings import Belief, Rules
from bot.engine.flows import Flows
from bot.engine.index import Index, SeenIds
from bot.engine.seen import DepthSeen, PhaseSeen, QuoteSeen
from bot.engine.settings import EngineSettings, Guard, Invoke, LoadedStrategy, unguarded
from bot.engine.tracked import (
    BEGINNING,
    AccountLedger,
    BackOff,
    Flow,
    HookCall,
    Instance,
    Position,
    Reconciling,
    StrategyState,
    TrackedAmend,
    TrackedFault,
    TrackedIntent,
    TrackedOrder,
    WaitingClose,
)
from bot.engine.usage import Usage
from bot.engine.watched import Checked, MachineTime
from bot.strategy import Context

PRIORITY: Final = (
    RunState.STOPPING,
    RunState.HALTED,
    RunState.STARTING,
    RunState.NEEDS_2FA,
    RunState.DEGRADED,
    RunState.PAUSED,
)
"""What closes the gate, the strongest first."""
LASTING: Final = (RunState.HALTED, RunState.PAUSED)
"""States that a restart does not end, the stronger one first."""
BY_ENGINE: Final = "engine"
"""Who closed the gate when the engine's own fault did: open orders stay, then and at a restart."""
BY_CLOCK: Final = "clock"
"""Who closed it when our clock was too far from the broker's."""
BY_BROKER: Final = "broker"
"""Who closed it when no read worked."""
BY_JOURNAL: Final = "database"
"""Who closed it when nothing could be written."""


MakeContext = Callable[[str, str], Context]
"""Makes what an instance of a symbol and a strategy is shown."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Why the gate is closed, who closed it, and since when it has been.

    An operator need give no reason. `code` is the broker's word for a missing token.
    """

    reason: str
    by: str
    code: str = ""
    since: datetime | None = None


@dataclass(slots=True)
class TokenQuestion:
    """A person is asked for a 2FA token: `times` since it was needed, or since this morning.

    `due` is when they are asked again; None where no calendar says so.
    """

    code: str
    since: datetime
    asked_at: datetime
    times: int = 0
    due: datetime | None = None


@dataclass(slots=True)
class TokenEnding:
    """A token ends while it is needed: when its last write leaves, and when a person is told next,
    having been told so many `times`.
    """

    at: datetime
    due: datetime
    times: int = 0


@dataclass(slots=True)
class Gate:
    """What keeps orders back: the causes, and `state`, that of the strongest one.

    `kept` is the state that a restart would begin with, `missed` counts the signals refused for
    want of a token. `codes_counted` says how many codes could still be mailed. `troubles` are why
    the bot is DEGRADED, by who found it so. `skew` is how far our clock is off, where that is worth
    a word. `wished` is, by intent, why its order is cancelled when it turns up.
    """

    troubles: dict[str, str] = field(default_factory=dict)
    causes: dict[RunState, Cause] = field(
        default_factory=lambda: {RunState.STARTING: Cause("reading the day order book", "bot")}
    )
    state: RunState = RunState.STARTING
    kept: RunState = RunState.RUNNING
    reason: str = "reading the day order book"
    since: datetime | None = None
    token_until: datetime | None = None
    is_unproven: bool = False
    question: TokenQuestion | None = None
    ending: TokenEnding | None = None
    codes_counted: CodesCounted | None = None
    missed: int = 0
    has_stopped: bool = False
    journal_lost: list[datetime] = field(default_factory=list)
    wished: dict[str, str] = field(default_factory=dict)
    flattening: Flattening | None = None
    skew: timedelta | None = None

    @property
    def is_asleep(self) -> bool:
        """Whether no strategy is woken; in the other states their signals are taken and refused."""
        return self.state in {RunState.STOPPING, RunState.HALTED, RunState.STARTING}

    @property
    def lacks_token(self) -> bool:
        """Whether no write can succeed, neither an order nor a cancel."""
        return RunState.NEEDS_2FA in self.causes


class State:
    """The root. `now` is the latest market time that an event has brought."""

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
        self.now = BEGINNING
        self.trading_date: date = date.min
        self.gate = Gate()
        self.instruments: dict[str, Instrument] = {}
        self.quotes: dict[str, QuoteSeen] = {}
        self.depths: dict[str, DepthSeen] = {}
        self.phases: dict[Exchange, PhaseSeen] = {}
        self.beliefs: dict[str, Belief] = {}
        self.bars = Bars()
        self.accounts: dict[str, AccountSnapshot] = {}
        self.reconciling = Reconciling()
        self.flows, self.usage, self.exposure = Flows(), Usage(), Exposure()
        self.ledgers: dict[str, AccountLedger] = {}
        self.early_flows: list[Flow] = []
        self.rights: dict[str, tuple[ShareholderRight, ...]] = {}
        self.explained_rights: set[tuple[str, bool]] = set()
        self.index = Index(rulebook)
        self.intents, self.orders = self.index.intents, self.index.orders
        self.chains = Chains()
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
        self.machine = MachineTime()
        self.failing_reads: dict[str, dict[str, str]] = {}
        self.checked = Checked()
        self.counts: Counter[str] = Counter()
        self.due_hooks: deque[HookCall] = deque()
        self.early_news: list[HookCall] = []
        self.is_reconciled, self.earlier_ended_at, self.hook_round = False, date.min, 0
        self.faults: dict[str, TrackedFault] = {}
        self.unloaded: dict[tuple[str, str], Position] = {}
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
        return StrategyState(plan, tighter(plan.limits, self.settings.limits), instances)

    def position_of(self, strategy: str, symbol: str) -> Position:
        """Return what a strategy holds of a symbol, which fills change: those that this run lacks
        are `unloaded`.
        """
        loaded = self.strategies.get(strategy)
        if loaded is not None:
            return loaded.positions.setdefault(symbol, Position())
        return self.unloaded.setdefault((strategy, symbol), Position())

    # --------------------------------------------------------------------- the commands of an event

    def record(self, entry: Entry) -> None:
        """Have an entry journalled."""
        self._records.append(Record(entry))

    def command(self, command: Command) -> None:
        """Have something done, once per event, with an order named as the broker knows it."""
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
        """Have the row read of an id that an order had before an amendment."""
        self._others[ReadOrder(order_id, "what was matched under a former id")] = None

    def drain(self) -> list[Command]:
        """Return the commands of the event, records first, and forget them."""
        commands = [*self._records, *self._others]
        self._records, self._others = [], {}
        return commands

    def note(
        self, kind: str, text: str, numbers: Numbers | None = None, *, symbol: str | None = None
    ) -> None:
        """Journal a line that is no order."""
        self.record(Note(self.now, kind, text, numbers or {}, symbol))

    def alert(
        self, code: str, text: str, facts: Numbers, *, about: str = "", symbol: str | None = None
    ) -> None:
        """Journal an alert; once `about` the same thing, each time without one.

        `code` names the kind in capitals, `text` is the whole message in English: what happened, to
        which order, what the bot does now, what the person must do. From `code` and `facts` alone
        another language says the same.
        """
        key = f"{code} {about}"
        if not about or key not in self.alerted:
            self.alerted.add(key)
            self.note("ALERT", text, {"alert": code, **facts}, symbol=symbol)

    def halt_symbol(self, symbol: str, reason: str) -> None:
        """Take no new order in a symbol until an operator resumes."""
        if symbol not in self.halted_symbols:
            self.halted_symbols[symbol] = reason
            self._switch_symbol(symbol, RunState.HALTED, reason, "engine")
            text = (
                f"{symbol} halted: {reason}. No new order goes out in it, cancels go on. When it is"
                f' clear: bot resume {symbol} --reason "…"'
            )
            self.alert("SYMBOL_HALTED", text, {"symbol": symbol, "why": reason}, symbol=symbol)

    def resume_symbols(self, reason: str, by: str, *, only: str | None = None) -> None:
        """Let every halted symbol trade again, or one."""
        for symbol in sorted(self.halted_symbols) if only is None else [only]:
            del self.halted_symbols[symbol]
            self._switch_symbol(symbol, RunState.RUNNING, reason, by)
            self.note("RESUME", f"{symbol} trades again: {reason}", symbol=symbol)

    def _switch_symbol(self, symbol: str, to: RunState, reason: str, by: str) -> None:
        """Journal it under a scope of its own: a restart keeps it, a send is checked against it."""
        before = RunState.RUNNING if to is RunState.HALTED else RunState.HALTED
        self.record(StateChanged(self.now, before, to, reason, by, scope=f"symbol:{symbol}"))

    # ----------------------------------------------------------------------------- what it looks up

    def passes_halt(self, intent_id: str) -> bool:
        """Whether an order is a sale that a person has asked for with the halt itself."""
        flattening = self.gate.flattening
        return flattening is not None and intent_id in flattening.intents

    def phase_of(self, exchange: Exchange) -> PhaseSeen:
        """Return the phase that was announced, else the rulebook's."""
        seen = self.phases.get(exchange)
        return seen or PhaseSeen(self.rulebook.phase_at(exchange, self.now), None)

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
        """What the day order book is to be read for by then: orders, then lost places."""
        index = self.index
        orders, intents = index.order_polls.ripe(self.now), index.intent_polls.ripe(self.now)
        polled: Iterable[TrackedOrder | TrackedIntent] = (*orders, *intents)
        return [one for one in polled if one.poll is not None and one.poll.due <= at]

    def satisfy_polls(self, requested_at: datetime) -> None:
        """A day order book has come: what was due when it was asked for need not be asked again."""
        self.day_order_book_asked_at = None
        for polled in self.due_polls(requested_at):
            self.advance_poll(polled)

    def first_poll(self) -> BackOff:
        """Return the back-off of something that has just been sent, or has just changed."""
        return BackOff(self.now + self.settings.poll_backoff[0])

    def advance_poll(self, polled: TrackedOrder | TrackedIntent) -> None:
        """Ask for the day order book a distance later than before."""
        assert polled.poll is not None, "what falls due is polled"
        polled.poll = polled.poll.advanced(self.now, self.settings.poll_backoff)


def tighter(one: Limits, other: Limits) -> Limits:
    """Return, limit by limit, the smaller of two; None is no limit."""

    def least(name: str) -> int | None:
        values = (getattr(one, name), getattr(other, name))
        return min((value for value in values if value is not None), default=None)

    return Limits(**{each.name: least(each.name) for each in fields(Limits)})
