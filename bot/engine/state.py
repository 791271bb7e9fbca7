"""Everything the engine knows: its one mutable root. Only handlers of events change it."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date, datetime

from bot.domain.account import AccountSnapshot, ShareholderRight
from bot.domain.entry import Entry, Note, Numbers, RunState, StateChanged
from bot.domain.instrument import Exchange, Instrument
from bot.domain.message import Command, Record, TodaysOrdersRead
from bot.domain.rulebook import Rulebook
from bot.engine.bars import BarStore
from bot.engine.chains import Chains
from bot.engine.gate import Gate
from bot.engine.settings import (
    EngineSettings,
    Guard,
    Invoke,
    LoadedStrategy,
    unguarded,
)
from bot.engine.tracked import (
    BEGINNING,
    AccountLedger,
    DepthSeen,
    Flow,
    HookCall,
    Instance,
    PhaseSeen,
    QuoteSeen,
    StrategyState,
    TrackedAmend,
    TrackedCancel,
    TrackedFault,
    TrackedIntent,
    TrackedOrder,
)
from bot.strategy import Context


class Outbox:
    """The commands of one event: records first, then what is to be done."""

    def __init__(self) -> None:
        self._records: list[Command] = []
        self._others: list[Command] = []

    def record(self, entry: Entry) -> None:
        """Have an entry journalled."""
        self._records.append(Record(entry))

    def command(self, command: Command) -> None:
        """Have something done, once per event however often it is asked for."""
        if command not in self._others:
            self._others.append(command)

    def drain(self) -> list[Command]:
        """Return everything in order, and be empty."""
        commands = self._records + self._others
        self._records, self._others = [], []
        return commands


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
    ) -> None:
        self.rulebook = rulebook
        self.settings = settings
        self.invoke = invoke
        self.guard = guard
        self.now = BEGINNING
        self.trading_date: date = date.min
        self.gate = Gate()
        self.outbox = Outbox()
        self.instruments: dict[str, Instrument] = {}
        self.quotes: dict[str, QuoteSeen] = {}
        self.depths: dict[str, DepthSeen] = {}
        self.phases: dict[Exchange, PhaseSeen] = {}
        self.bars = BarStore()
        self.accounts: dict[str, AccountSnapshot] = {}
        self.external_shares: dict[tuple[str, str], int] = {}
        self.drift: dict[tuple[str, str], int] = {}
        self.flows: list[Flow] = []
        self.ledgers: dict[str, AccountLedger] = {}
        self.early_flows: list[Flow] = []
        self.rights: dict[str, tuple[ShareholderRight, ...]] = {}
        self.explained_rights: set[tuple[str, bool]] = set()
        self.intents: dict[str, TrackedIntent] = {}
        self.orders: dict[str, TrackedOrder] = {}
        self.chains = Chains()
        self.cancels: dict[str, TrackedCancel] = {}
        self.amends: dict[str, TrackedAmend] = {}
        self.seen_ids: set[str] = set()
        self.halted_symbols: dict[str, str] = {}
        self.set_aside: dict[str, TodaysOrdersRead] = {}
        self.alerted: set[str] = set()
        self.next_intent_number = 1
        self.next_fill_number = 1
        self.day_order_book_asked_at: datetime | None = None
        self.counts: Counter[str] = Counter()
        self.due_hooks: list[HookCall] = []
        self.faults: dict[str, TrackedFault] = {}
        self.strategies = {loaded.plan.name: self._with_instances(loaded) for loaded in strategies}

    def _with_instances(self, loaded: LoadedStrategy) -> StrategyState:
        for instrument in loaded.instruments:
            self.instruments[instrument.symbol] = instrument
        plan = loaded.plan
        if plan.wake.bar is not None:
            for symbol in plan.symbols:
                self.bars.want(symbol, plan.wake.bar)
        return StrategyState(loaded, {symbol: _instance(loaded, symbol) for symbol in plan.symbols})

    # ------------------------------------------------------------------------------- short words

    def record(self, entry: Entry) -> None:
        """Have an entry journalled."""
        self.outbox.record(entry)

    def command(self, command: Command) -> None:
        """Have something done, with an order named as the broker knows it."""
        self.outbox.command(self.chains.addressed(command))

    def note(
        self, kind: str, text: str, numbers: Numbers | None = None, *, symbol: str | None = None
    ) -> None:
        """Journal a line that is no order."""
        self.record(Note(self.now, kind, text, numbers or {}, symbol))

    def alert_once(self, key: str, text: str, *, symbol: str | None = None) -> None:
        """Journal an alert, the first time only."""
        if key not in self.alerted:
            self.alerted.add(key)
            self.note("ALERT", text, symbol=symbol)

    def halt_symbol(self, symbol: str, reason: str) -> None:
        """Take no new order in a symbol until an operator resumes."""
        if symbol not in self.halted_symbols:
            self.halted_symbols[symbol] = reason
            self._switch_symbol(symbol, RunState.HALTED, reason, "engine")
            self.note("ALERT", f"{symbol} halted: {reason}", symbol=symbol)

    def resume_symbols(self, reason: str, by: str) -> None:
        """Let every halted symbol trade again."""
        for symbol in sorted(self.halted_symbols):
            self._switch_symbol(symbol, RunState.RUNNING, reason, by)
            self.note("RESUME", f"{symbol} trades again: {reason}", symbol=symbol)
        self.halted_symbols.clear()

    def _switch_symbol(self, symbol: str, to: RunState, reason: str, by: str) -> None:
        """Journal it under a scope of its own: a restart keeps it, a send is checked against it."""
        before = RunState.RUNNING if to is RunState.HALTED else RunState.HALTED
        self.record(StateChanged(self.now, before, to, reason, by, scope=f"symbol:{symbol}"))

    def phase_of(self, exchange: Exchange) -> PhaseSeen:
        """Return the phase that was announced, else the rulebook's."""
        seen = self.phases.get(exchange)
        return seen or PhaseSeen(self.rulebook.phase_at(exchange, self.now), None)

    def open_orders(self) -> Iterator[TrackedOrder]:
        """Every order that has not ended, own and external."""
        return (order for order in self.orders.values() if order.is_open)

    def working_orders(self, strategy: str, symbol: str) -> list[TrackedOrder]:
        """The open orders of one strategy in one symbol."""
        return [
            order
            for order in self.open_orders()
            if order.row.strategy == strategy and order.row.symbol == symbol
        ]

    def pending_intents(self) -> Iterator[TrackedIntent]:
        """Intents without a known order whose full size is reserved."""
        return (tracked for tracked in self.intents.values() if tracked.reserves_in_full)


def _instance(loaded: LoadedStrategy, symbol: str) -> Instance:
    context = Context(symbol, loaded.plan.name)
    strategy = loaded.factory(context)
    for name, value in loaded.plan.parameters.items():
        setattr(strategy, name, value)
    return Instance(symbol, strategy, context)
