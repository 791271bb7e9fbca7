"""The one way into the engine: events wait here, the most urgent first.

    the start ─► operators ─► answers of writes ─► reads of orders and account ─► the market

Within one urgency events keep their order. Of the market only the newest of each symbol and kind
waits: an older one would be decided on only to be forgotten. The newer takes the older one's place,
not the last: else a symbol that is polled faster than it is looked at would never have its turn.

Until the start has posted its last event all keep the order of their arrival, since each builds on
those before it. On a stepped clock they keep it for good, so that the same seed tells the same
story; there only what an operator asks from outside goes first.

What waits is bounded: the market by symbols and kinds, answers by what is in flight, reads by what
the engine has asked for and the timetable's own, asks by `ASKS_MAX`. None but the market, and a
clock that was looked at too late, is ever passed over.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from bot.domain import message, operations
from bot.domain.message import Event
from bot.domain.operations import Action, OperatorActed
from bot.domain.quote import BarsRead, ClosesRead
from bot.runtime.activity import Activity

ASKS_MAX: Final = 1_000
"""With so many asks of operators waiting, only those that make the bot safer are still taken."""


class Urgency(IntEnum):
    """Whose event it is, the most urgent first."""

    START = 0
    OPERATOR = 1
    ANSWER = 2
    READ = 3
    MARKET = 4


JUST_OPERATORS: Final = (Urgency.OPERATOR,)

URGENCY: Final[Mapping[type[Event], Urgency]] = {
    operations.OperatorActed: Urgency.OPERATOR,
    operations.AmendAsked: Urgency.OPERATOR,
    operations.CancelAsked: Urgency.OPERATOR,
    operations.VerdictAsked: Urgency.OPERATOR,
    operations.BreakAccepted: Urgency.OPERATOR,
    operations.ReconcileAsked: Urgency.OPERATOR,
    message.FaultFound: Urgency.OPERATOR,
    message.JournalHealthChanged: Urgency.OPERATOR,
    message.ClockOffsetChanged: Urgency.ANSWER,
    operations.ClockStepped: Urgency.OPERATOR,
    operations.StoodStill: Urgency.OPERATOR,
    operations.DiskSeen: Urgency.OPERATOR,
    message.SendStarted: Urgency.ANSWER,
    message.PlaceAnswered: Urgency.ANSWER,
    message.CancelAnswered: Urgency.ANSWER,
    message.AmendAnswered: Urgency.ANSWER,
    message.NonceBurnt: Urgency.ANSWER,
    message.TwoFactorReady: Urgency.ANSWER,
    operations.CodesCounted: Urgency.ANSWER,
    message.TwoFactorMissing: Urgency.ANSWER,
    message.Noted: Urgency.ANSWER,  # what is told of the second factor comes before its token
    message.Recovered: Urgency.READ,
    message.InstrumentsRead: Urgency.READ,
    operations.EarlierOrdersRead: Urgency.READ,
    message.TradingDayStarted: Urgency.READ,
    operations.TradingDayEnded: Urgency.READ,
    message.PhaseChanged: Urgency.READ,
    message.AccountRead: Urgency.READ,
    message.TodaysOrdersRead: Urgency.READ,
    ClosesRead: Urgency.READ,
    message.OrderRead: Urgency.READ,
    message.BrokerHealthChanged: Urgency.READ,
    message.ReadHealthChanged: Urgency.READ,
    message.TimePassed: Urgency.READ,
    message.QuoteReceived: Urgency.MARKET,
    message.DepthReceived: Urgency.MARKET,
    message.BarClosed: Urgency.MARKET,
    BarsRead: Urgency.MARKET,
    message.TimerFired: Urgency.MARKET,
    message.Reconciled: Urgency.READ,
}
"""The urgency of every event once the start is over."""

NEWEST: Final[Mapping[type[Event], Callable[..., Hashable]]] = {
    message.QuoteReceived: lambda event: ("quote", event.quote.symbol),
    message.DepthReceived: lambda event: ("depth", event.depth.symbol),
    message.TimePassed: lambda _: "time",
}
"""The events of which only the newest waits, with what two have to share for that."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """What goes first, and what is passed over."""

    urgency: Mapping[type[Event], Urgency]
    newest: Mapping[type[Event], Callable[..., Hashable]]


BY_URGENCY: Final = Ranking(URGENCY, NEWEST)
BY_ARRIVAL: Final = Ranking(dict.fromkeys(URGENCY, Urgency.MARKET), {})
"""One after another: a stepped clock waits for all of them before it moves."""
_AT_THE_START: Final = Ranking(dict.fromkeys(URGENCY, Urgency.START), {})


@dataclass(slots=True)
class _Waiting:
    """A place in the line; a newer event may take it over."""

    event: Event
    key: Hashable | None


class Inbox:
    """Events that wait; one counts as under way until it has been handled (`done`)."""

    def __init__(self, activity: Activity) -> None:
        self._activity = activity
        self._ranking = _AT_THE_START
        self._lines: dict[Urgency, deque[_Waiting]] = {each: deque() for each in Urgency}
        self._newest: dict[Hashable, _Waiting] = {}
        self._arrived = asyncio.Event()
        self.on_urgent: Callable[[], None] | None = None
        """Called when something waits that is `heard` at once."""
        self.heard: Collection[Urgency] = JUST_OPERATORS
        self.passed_over = 0
        """How many quotes and depths made room for a newer one before they were looked at."""

    def counted_in(self, activity: Activity) -> "Inbox":
        """Return it as somebody looks at it: until then no stepped clock waits for what waits."""
        self._activity = activity
        for line in self._lines.values():
            for _ in line:
                activity.begin()
        return self

    def rank(self, ranking: Ranking) -> None:
        """The start has posted all it has: from now on `ranking` says what goes first."""
        self._ranking = ranking

    def post(self, event: Event) -> None:
        """Have an event handled, after all that are as urgent."""
        kind = type(event)
        urgency, key_of = self._ranking.urgency[kind], self._ranking.newest.get(kind)
        if key_of is None:
            self._add(urgency, event, None)
        elif (waiting := self._newest.get(key := key_of(event))) is None:
            self._newest[key] = self._add(urgency, event, key)
        else:
            self.passed_over += urgency is Urgency.MARKET
            if event.at >= waiting.event.at:  # an answer may come after one that was asked later
                waiting.event = event

    def ask(self, event: Event) -> bool:
        """Have handled what an operator asks from outside: before all else once the start is over.

        False when it is not taken, as too many others wait.
        """
        is_safer = isinstance(event, OperatorActed) and event.action is not Action.RESUME
        if len(self._lines[Urgency.OPERATOR]) >= ASKS_MAX and not is_safer:
            return False
        is_over = self._ranking is not _AT_THE_START
        self._add(Urgency.OPERATOR if is_over else Urgency.START, event, None)
        return True

    def _add(self, urgency: Urgency, event: Event, key: Hashable | None) -> _Waiting:
        waiting = _Waiting(event, key)
        self._activity.begin()
        self._lines[urgency].append(waiting)
        self._arrived.set()
        if urgency in self.heard and self.on_urgent is not None:
            asyncio.get_running_loop().call_soon(self.on_urgent)
        return waiting

    @property
    def waiting(self) -> Mapping[Urgency, int]:
        """How many events wait, by urgency."""
        return {urgency: len(line) for urgency, line in self._lines.items()}

    def holds(self, least: Urgency) -> bool:
        """Whether something at least so urgent waits."""
        return any(line for urgency, line in self._lines.items() if urgency <= least)

    def up_to(self, kind: type[Event]) -> Sequence[Urgency]:
        """Return what is at least as urgent as an event of a kind is now, the most urgent first."""
        return [urgency for urgency in Urgency if urgency <= self._ranking.urgency[kind]]

    @property
    def unheard(self) -> int:
        """How many events wait that a next start would not hear anyway: not market, not time."""
        kinds = [type(each.event) for line in self._lines.values() for each in line]
        return sum(
            BY_URGENCY.urgency[kind] < Urgency.MARKET and kind is not message.TimePassed
            for kind in kinds
        )

    @property
    def has_more(self) -> bool:
        """True when an event waits."""
        return any(self._lines.values())

    def take(self, least: Urgency = Urgency.MARKET) -> Event | None:
        """Take the first event at least so urgent, None without one; `done` must follow."""
        for urgency, line in self._lines.items():
            if urgency > least:
                break
            if line:
                waiting = line.popleft()
                self._newest.pop(waiting.key, None)
                return waiting.event
        return None

    async def arrival(self) -> None:
        """Wait until an event waits."""
        while not self.has_more:
            self._arrived.clear()
            await self._arrived.wait()

    def done(self) -> None:
        """An event taken has been handled, its rows written and its commands started."""
        self._activity.end()
