"""A recorded day as it might have been: with fills by a model, or with other strategies.

    recorded quote, depth ─► mirrored market ─► Engine ── orders ─► mirrored market ─► rows

Traded again (`trade_again`), what the recording holds of the market, the phases, the timers and the
operator goes to the engine as it did; account, orders and rows come from a house that is played
here. So what differs from the recorded day are the fills that the model supposes, and what follows
from them.

Other strategies (`what_if`) see the market, the phases, the second factor and the operator of that
day, and its account as it was at the start of each run. Nothing of the recorded orders reaches
them, and no order of theirs leaves: who would have filled it is not in the recording. So each order
ends unsent, and a strategy goes on as if it had none.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from pathlib import Path
from typing import Final

from bot.config.strategies.invoke import invoke
from bot.config.strategies.load import check_files, market_of
from bot.domain.entry import Decision, Verdict
from bot.domain.instrument import Instrument
from bot.domain.message import (
    AccountRead,
    AmendAnswered,
    BrokerHealthChanged,
    CancelAnswered,
    ClockOffsetChanged,
    DepthReceived,
    Event,
    FaultFound,
    InstrumentsRead,
    JournalHealthChanged,
    NonceBurnt,
    Noted,
    OrderRead,
    PlaceAnswered,
    PlaceOrder,
    QuoteReceived,
    ReadHealthChanged,
    Record,
    Recovered,
    SendStarted,
    TodaysOrdersRead,
)
from bot.domain.operations import (
    AmendAsked,
    BreakAccepted,
    CancelAsked,
    ClockStepped,
    DiskSeen,
    EarlierOrdersRead,
    ReconcileAsked,
    StoodStill,
    VerdictAsked,
)
from bot.domain.outcome import NotSent
from bot.domain.quote import Quote
from bot.domain.recovery import Recovery
from bot.domain.rulebook import Rulebook
from bot.engine.engine import Engine
from bot.engine.settings import LoadedStrategy
from bot.runtime.history.backtest.played_market import PlayedMarket
from bot.runtime.history.backtest.result import ACCOUNT_ID, Collected
from bot.runtime.history.recording.recordings import (
    GAP,
    Codecs,
    Head,
    Row,
    Unusable,
    parts_of,
    read_head,
    rows_of,
)
from bot.runtime.history.recording.replay import (
    Player,
    Progress,
    day_of,
    decisions_in,
    folders_of,
    recorded_runs,
    sealed_rows,
    strategies_of,
)
from bot.sandbox.markets.mirror.model import FillName
from bot.sandbox.scenario import AccountScript

OF_THE_MACHINE: Final = (
    *(BrokerHealthChanged, JournalHealthChanged, ReadHealthChanged),
    *(ClockOffsetChanged, ClockStepped, StoodStill, DiskSeen),
)
"""Events of the network and the machine of that day. Its deadlines stay: what is due at the instant
of a poll came before or after it."""
COUNTED: Final = (
    *("recorded", "played", "the same order", "the same fill", "other shares", "other price"),
    *("only recorded", "only played"),
)
"""What orders are counted by, as far as there are any."""
OF_ORDERS: Final = (
    *(SendStarted, PlaceAnswered, CancelAnswered, AmendAnswered, NonceBurnt, OrderRead),
    *(AmendAsked, CancelAsked, VerdictAsked, BreakAccepted, ReconcileAsked, EarlierOrdersRead),
    *(FaultFound, Noted),
)
"""Events of the recorded orders, and of our own bugs of that day."""
UNSENT: Final = "a replay sends nothing"


@dataclass(frozen=True, slots=True)
class Order:
    """One order that was sent, and what it came to."""

    at: datetime
    strategy: str
    symbol: str
    side: str
    quantity: int
    price: int | None
    state: str
    executed: int
    amount: int

    @property
    def key(self) -> tuple[object, ...]:
        """What makes it the same order on both sides."""
        return (self.at, self.strategy, self.symbol, self.side, self.quantity, self.price)


@dataclass(frozen=True, slots=True)
class Compared:
    """The orders of a recorded day as they were, and as the fill model has them."""

    day: date
    fill: FillName
    recorded: tuple[Order, ...]
    played: tuple[Order, ...]

    def counts(self) -> Mapping[str, int]:
        """Count the orders by what is equal about them."""
        ours = {each.key: each for each in self.played}
        counts: Counter[str] = Counter(recorded=len(self.recorded), played=len(self.played))
        for each in self.recorded:
            other = ours.pop(each.key, None)
            if other is None:
                counts["only recorded"] += 1
                continue
            counts["the same order"] += 1
            if each.executed != other.executed:
                counts["other shares"] += 1
            elif each.amount != other.amount:
                counts["other price"] += 1
            else:
                counts["the same fill"] += 1
        counts["only played"] = len(ours)
        return counts


def trade_again(state_dir: Path, day: date, *, fill: FillName = "queue") -> Compared:
    """Trade the runs of a recorded day again and compare. Raises Unusable."""
    recorded, played = list[Order](), list[Order]()
    for folder in recorded_runs(state_dir, day):
        head, ways = read_head(folder)
        rows = [row for part in parts_of(folder) for row in rows_of(part)]
        if any(row.kind == GAP for row in rows):
            raise Unusable(f"{folder}: events are missing, so its orders can't be compared")
        events = [ways.event.read(row.event) for row in rows if row.event]
        kept, again = Collected(), Collected()
        for row in rows:
            for command in ways.commands.read(row.commands or "[]"):
                if isinstance(command, Record):
                    kept.keep(command.entry)
        recorded += orders_of(kept)
        market = played_market(events, head.rulebook, fill)
        strategies = [
            replace(each, plan=replace(each.plan, account=market.script.extended_id))
            for each in strategies_of(head)
        ]
        engine = Engine(
            rulebook=head.rulebook, strategies=strategies, settings=head.settings, invoke=invoke
        )
        market.through(engine, events, again, heard)
        played += orders_of(again)
    return Compared(day, fill, tuple(recorded), tuple(played))


def heard(event: Event) -> Event | None:
    """Return what an engine hears of a recorded event: nothing of its orders and its machine."""
    if isinstance(event, Recovered):
        return Recovered(event.at, Recovery(event.recovery.trading_date))
    is_known = isinstance(event, EarlierOrdersRead)  # which a played house answers itself
    return None if isinstance(event, (*OF_ORDERS, *OF_THE_MACHINE)) and not is_known else event


def played_market(events: Iterable[Event], rulebook: Rulebook, fill: FillName) -> PlayedMarket:
    """Return a market of what these events show, with an account that begins as theirs did."""
    quotes, instruments = dict[str, Quote](), dict[str, Instrument]()
    first, account, deep = None, None, set[str]()
    for event in events:
        first = first or event.at
        if isinstance(event, QuoteReceived):
            quotes.setdefault(event.quote.symbol, event.quote)
        elif isinstance(event, DepthReceived):
            deep.add(event.depth.symbol)
        elif isinstance(event, InstrumentsRead):
            instruments |= {each.symbol: each for each in event.instruments}
        elif isinstance(event, AccountRead):
            account = account or event.snapshot
    if first is None or account is None or not quotes:
        raise Unusable("it holds no quote or no account: there is nothing to trade on")
    holdings = {
        symbol: held.total
        for symbol, held in account.holdings.items()
        if held.total and symbol in quotes
    }
    script = AccountScript(id=ACCOUNT_ID, cash=account.cash, holdings=holdings)
    return PlayedMarket(quotes, instruments, deep, script, at=first, rulebook=rulebook, fill=fill)


def orders_of(kept: Collected) -> list[Order]:
    """Return the orders of a run, in the order in which they were decided."""
    by_intent = {each.intent_id: each for each in kept.orders.values()}
    found = []
    for each in kept.decisions:
        order = by_intent.get(each.request_id)
        if each.verdict is Verdict.PASSED and order is not None and each.side is not None:
            found.append(
                Order(
                    *(each.at, each.strategy, each.symbol, each.side, order.quantity),
                    *(order.price, order.state, order.executed_quantity, order.executed_amount),
                )
            )
    return found


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What was decided on a day, and what would have been; `damage` where a recording ends."""

    day: date
    recorded: tuple[Decision, ...]
    now: tuple[Decision, ...]
    damage: tuple[str, ...]


def load_strategies_from(files: Sequence[Path], day: date) -> tuple[LoadedStrategy, ...]:
    """Load strategy files by the rules of a day. Raises OperatorMistake with all their mistakes."""
    market = market_of(day)
    return tuple(
        LoadedStrategy(each.plan, each.factory, market.instruments(each.plan))
        for each in check_files(files, market=market)
    )


def what_if(
    state_dir: Path,
    day: date,
    strategies: Sequence[LoadedStrategy],
    progress: Progress = lambda _: None,
) -> WhatIf:
    """Feed a recorded day to other strategies. Raises Unusable when nothing of it can be read."""
    folders = recorded_runs(state_dir, day)
    recorded, now, damage = list[Decision](), list[Decision](), list[str]()
    for at, folder in enumerate(folders):

        def show(done: float, at: int = at) -> None:
            progress((at + done) / len(folders))

        try:
            head, ways = read_head(folder)
            other = Other(head, strategies)
            parts = [part for each in folders_of(state_dir, head, day) for part in parts_of(each)]
            for row in sealed_rows(parts, show):
                if row.kind == GAP:
                    raise Unusable(f"run {head.run}: events are missing after {row.number:,}")
                decided = other.decisions_at(row, ways)
                if day_of(row) == day:
                    recorded += decisions_in(ways.commands.read(row.commands or "[]"))
                    now += decided
        except Unusable as error:
            damage.append(str(error))
    return WhatIf(day, tuple(recorded), tuple(now), tuple(damage))


class Other:
    """An engine of other strategies in the place of a recorded one."""

    def __init__(self, head: Head, strategies: Sequence[LoadedStrategy]) -> None:
        player = Player()
        accounts = [each.plan.account for each in head.strategies]
        of_account = [
            replace(each, plan=replace(each.plan, account=accounts[0])) for each in strategies
        ]
        self._engine = Engine(
            rulebook=head.rulebook,
            strategies=of_account,
            settings=head.settings,
            invoke=player.invoke,
            guard=player.guard,
        )
        self._account: AccountRead | None = None

    def decisions_at(self, row: Row, ways: Codecs) -> list[Decision]:
        """Take in what a row says of the market, and return what is decided on it."""
        event: Event | None = ways.event.read(row.event) if row.event else None
        match event:  # without what the recorded orders have to do with it
            case Recovered(recovery=recovery):
                without = replace(
                    recovery, intents=(), orders=(), amends=(), later_ids={}, cancels={}
                )
                event = replace(event, recovery=without)
            case TodaysOrdersRead():
                event = replace(event, reports=(), set_aside=())
            case AccountRead(at=at):
                self._account = self._account or event
                event = replace(self._account, at=at)
        if event is None or isinstance(event, OF_ORDERS):
            return []
        decided, waiting = list[Decision](), list[Event]([event])
        for each in waiting:
            commands = self._engine.handle(each)
            decided += decisions_in(commands)
            waiting += [
                PlaceAnswered(event.at, command.intent.intent_id, NotSent(UNSENT), None)
                for command in commands
                if isinstance(command, PlaceOrder)
            ]
        return decided
