"""Replays a recorded day differently: with fills by a model, or with other strategies.

    recorded quote, depth ─► mirrored market ─► Engine ── orders ─► mirrored market ─► rows

With `trade_again`, the engine gets the recorded market, phases, timers and operator as before;
account, orders and rows come from a house simulated here. So only the fills assumed by the model
differ from the recorded day, and what follows from them.

With `what_if`, other strategies see the market, phases, 2FA and operator of that day, and its
account as of the start of each run. They see none of the recorded orders, and none of their own is
sent, as the recording cannot tell who would have filled it. So each order ends unsent, and the
strategy continues as if it had none.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from pathlib import Path
from typing import Final

from bot.config.strategies.invoke import invoke
from bot.config.strategies.load import check_files, market_of
from bot.domain.entry import Decision, Verdict
from bot.domain.instrument import Instrument
from bot.domain.local_time import local_of
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
from bot.domain.order import Side
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
"""Events of that day's network and machine. Deadlines stay: what was due at the instant of a poll
came before or after it.
"""
COUNTED: Final = (
    *("recorded", "played", "the same order", "the same fill", "other shares", "other price"),
    *("only recorded", "only played"),
)
"""What orders are counted by, if there are any."""
OF_ORDERS: Final = (
    *(SendStarted, PlaceAnswered, CancelAnswered, AmendAnswered, NonceBurnt, OrderRead),
    *(AmendAsked, CancelAsked, VerdictAsked, BreakAccepted, ReconcileAsked, EarlierOrdersRead),
    *(FaultFound, Noted),
)
"""Events about the recorded orders, and that day's faults in the bot."""
UNSENT: Final = "a replay sends nothing"


@dataclass(frozen=True, slots=True)
class Order:
    """One order that was sent, and its result."""

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
        """What identifies the same order on both sides."""
        return (self.at, self.strategy, self.symbol, self.side, self.quantity, self.price)


@dataclass(frozen=True, slots=True)
class Compared:
    """The orders of a recorded day as recorded, and as the fill model has them."""

    day: date
    fill: FillName
    recorded: tuple[Order, ...]
    played: tuple[Order, ...]

    def counts(self) -> Mapping[str, int]:
        """Count the orders by which of their values are equal."""
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
    """Trade the runs of a recorded day again and compare its orders. A run that began on an earlier
    day is traded from its beginning: what its strategies hold is of then. Raises Unusable.
    """
    kept, played = Collected(), list[Order]()
    for folder in recorded_runs(state_dir, day):
        head, ways = read_head(folder)
        parts = [part for each in folders_of(state_dir, head, day) for part in parts_of(each)]
        again = Collected()
        for row in _rows_of(parts):
            if row.kind == GAP:
                raise Unusable(f"{folder}: events are missing, so its orders can't be compared")
            # an order that was open at a restart is told on in the next run
            for command in ways.commands.read(row.commands or "[]"):
                if isinstance(command, Record):
                    kept.keep(command.entry)
        market = played_market(_events_of(parts, ways), head.rulebook, fill)
        strategies = [
            replace(each, plan=replace(each.plan, account=market.script.extended_id))
            for each in strategies_of(head)
        ]
        engine = Engine(
            rulebook=head.rulebook, strategies=strategies, settings=head.settings, invoke=invoke
        )
        market.through(engine, _events_of(parts, ways), again, heard)
        played += orders_of(again)
    sides = (
        tuple(each for each in side if local_of(each.at).date() == day)
        for side in (orders_of(kept), played)
    )
    return Compared(day, fill, *sides)


def _events_of(parts: Sequence[Path], ways: Codecs) -> Iterator[Event]:
    """Return the events of a run, one by one: they may be too many to keep."""
    return (ways.event.read(row.event) for row in _rows_of(parts) if row.event)


def _rows_of(parts: Sequence[Path]) -> Iterator[Row]:
    return (row for part in parts for row in rows_of(part))


def heard(event: Event) -> Event | None:
    """Return the events for the engine from a recorded one, without its orders and its machine."""
    if isinstance(event, Recovered):
        owned = {  # on the account that is simulated here
            name: replace(each, held_in=frozenset[str]())
            for name, each in event.recovery.strategies.items()
        }
        return Recovered(event.at, Recovery(event.recovery.trading_date, strategies=owned))
    is_known = isinstance(event, EarlierOrdersRead)  # a simulated house answers this itself
    return None if isinstance(event, (*OF_ORDERS, *OF_THE_MACHINE)) and not is_known else event


def played_market(events: Iterable[Event], rulebook: Rulebook, fill: FillName) -> PlayedMarket:
    """Return a market showing these events, with an account that begins like the recorded one."""
    quotes, instruments = dict[str, Quote](), dict[str, Instrument]()
    first, account, deep = None, None, set[str]()
    bought_on = dict[str, date]()
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
        elif isinstance(event, Recovered):
            for day, own in event.recovery.recent_fills:
                if own.side is Side.BUY:
                    bought_on[own.symbol] = max(day, bought_on.get(own.symbol, day))
    if first is None or account is None or not quotes:
        raise Unusable("it holds no quote or no account: there is nothing to trade on")
    known = [held for held in account.holdings.values() if held.symbol in quotes]
    holdings = {
        held.symbol: held.total - held.receiving for held in known if held.total > held.receiving
    }
    script = AccountScript(id=ACCOUNT_ID, cash=account.cash, holdings=holdings)
    market = PlayedMarket(quotes, instruments, deep, script, at=first, rulebook=rulebook, fill=fill)
    for held in known:  # shares still on their way can't be sold yet
        if held.receiving and held.symbol in instruments:
            instrument, price = instruments[held.symbol], held.cost_price
            day = bought_on.get(held.symbol, local_of(first).date())
            market.account.deposit_due(instrument, held.receiving, cost_price=price, traded_on=day)
    return market


def orders_of(kept: Collected) -> list[Order]:
    """Return the orders of a run or a day, in the order of the decisions that they were sent by."""
    by_intent = {each.intent_id: each for each in kept.orders.values()}
    found = []
    for each in kept.decisions:
        if each.verdict is not Verdict.PASSED or each.side is None:
            continue
        order = by_intent.pop(each.request_id, None)  # a later decision cancels or amends it
        if order is not None:
            found.append(
                Order(
                    *(each.at, each.strategy, each.symbol, each.side, order.quantity),
                    *(order.price, order.state, order.executed_quantity, order.executed_amount),
                )
            )
    return found


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The decisions of a day, and what they would have been; `damage`: where a recording breaks
    off.
    """

    day: date
    recorded: tuple[Decision, ...]
    now: tuple[Decision, ...]
    damage: tuple[str, ...]


def load_strategies_from(files: Sequence[Path], day: date) -> tuple[LoadedStrategy, ...]:
    """Load strategy files under the rules of a day. Raises OperatorMistake with all mistakes."""
    market = market_of(day)
    return tuple(
        LoadedStrategy(each.plan, each.factory, market.instruments(each.plan))
        for each in check_files(files, market=market)
    )


def what_if(
    state_dir: Path,
    day: date,
    files: Sequence[Path],
    progress: Progress = lambda _: None,
) -> WhatIf:
    """Feed a recorded day to other strategies, loaded anew for each run as by a restart.

    Raises Unusable if nothing of it can be read, OperatorMistake if a file is broken.
    """
    folders = recorded_runs(state_dir, day)
    recorded, now, damage = list[Decision](), list[Decision](), list[str]()
    for at, folder in enumerate(folders):

        def show(done: float, at: int = at) -> None:
            progress((at + done) / len(folders))

        try:
            head, ways = read_head(folder)
            other = Other(head, load_strategies_from(files, day))
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
    """An engine with other strategies in place of a recorded one."""

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
        """Feed a row's market data, and return the decisions it leads to."""
        event: Event | None = ways.event.read(row.event) if row.event else None
        match event:  # without anything about the recorded orders
            case Recovered(recovery=recovery):
                without = replace(
                    recovery, intents=(), orders=(), amends=(), later_ids={}, changes={}, cancels={}
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
