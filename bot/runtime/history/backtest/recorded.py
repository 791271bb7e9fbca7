"""Trades a recorded day again: its market in the mirror of paper mode, its strategies on top.

    recorded quote, depth ─► mirrored market ─► Engine ── orders ─► mirrored market ─► rows

What the recording holds of the market, the phases, the timers and the operator goes to the engine
as it did; account, orders and rows come from a house that is played here. So what differs from the
recorded day are the fills that the model supposes, and what follows from them.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from pathlib import Path
from typing import Final

from bot.config.strategies.invoke import invoke
from bot.domain.entry import Verdict
from bot.domain.instrument import Instrument
from bot.domain.message import (
    AccountRead,
    BrokerHealthChanged,
    ClockOffsetChanged,
    DepthReceived,
    Event,
    InstrumentsRead,
    JournalHealthChanged,
    QuoteReceived,
    ReadHealthChanged,
    Record,
    Recovered,
)
from bot.domain.operations import ClockStepped, DiskSeen, EarlierOrdersRead, StoodStill
from bot.domain.quote import Quote
from bot.domain.recovery import Recovery
from bot.domain.rulebook import Rulebook
from bot.engine.engine import Engine
from bot.runtime.history.backtest.collect import Collected
from bot.runtime.history.backtest.played_market import PlayedMarket
from bot.runtime.history.recording.recordings import GAP, Unusable, parts_of, read_head, rows_of
from bot.runtime.history.recording.replay import recorded_runs, strategies_of
from bot.runtime.history.recording.what_if import OF_ORDERS
from bot.sandbox.markets.mirror.model import FillName
from bot.sandbox.scenario import AccountScript

ACCOUNT_ID: Final = "0000000001"

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
        market = market_of(events, head.rulebook, fill)
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


def market_of(events: Iterable[Event], rulebook: Rulebook, fill: FillName) -> PlayedMarket:
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
