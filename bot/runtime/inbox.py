"""The one way into the engine: events wait here, the most urgent first.

    the start ─► operators ─► answers of writes ─► reads of orders and account ─► the market

Within one urgency events keep their order. Of market data only the newest of each symbol and kind
waits, as deciding on an older one would be useless. The newer takes the older one's place rather
than the last: else a symbol polled faster than it is processed would never get its turn.

Until the start has posted its last event, all keep the order of arrival, since each builds on those
before it. On a stepped clock they always keep it, so that the same seed gives the same story; there
only an operator's requests from outside go first.

While an order is on its way the market waits for a moment (`RightOfWay`), so that no look at a
quote comes between its decision, its bytes and its answer.

The queue is bounded: quotes and depths by the symbols, timers and the bars of a warm-up, which are
not merged, by what the strategies ask for, answers by what is in flight, reads by what the engine
and the timetable request, operators' requests by `ASKS_MAX`. Only quotes, depths, and time that was
looked at too late are ever passed over.
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
"""With this many operators' requests waiting, only those that make the bot safer are accepted."""


class Urgency(IntEnum):
    """Whose event it is, most urgent first."""

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
    message.Noted: Urgency.ANSWER,  # notes about 2FA come before its token
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
"""The events of which only the newest waits, with what two of them must share for that."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """What goes first, and what may be passed over."""

    urgency: Mapping[type[Event], Urgency]
    newest: Mapping[type[Event], Callable[..., Hashable]]


BY_URGENCY: Final = Ranking(URGENCY, NEWEST)
BY_ARRIVAL: Final = Ranking(dict.fromkeys(URGENCY, Urgency.MARKET), {})
"""One after another: a stepped clock waits for all of them before it moves."""
ANSWERS: Final = (
    *(message.SendStarted, message.PlaceAnswered, message.CancelAnswered, message.AmendAnswered),
)
"""What tells how a write went."""
_AT_THE_START: Final = Ranking(dict.fromkeys(URGENCY, Urgency.START), {})


@dataclass(slots=True)
class _Waiting:
    """A place in the queue; a newer event may take it over."""

    event: Event
    key: Hashable | None


class Inbox:
    """Waiting events; one counts as under way until it has been handled (`done`)."""

    def __init__(self, activity: Activity) -> None:
        self._activity = activity
        self._ranking = _AT_THE_START
        self._lines: dict[Urgency, deque[_Waiting]] = {each: deque() for each in Urgency}
        self._newest: dict[Hashable, _Waiting] = {}
        self._arrived = asyncio.Event()
        self.on_urgent: Callable[[], None] | None = None
        """Called when something waits that is processed at once."""
        self.heard: Collection[Urgency] = JUST_OPERATORS
        self.passed_over = 0
        """Quotes and depths replaced by a newer one before they were processed."""

    def counted_in(self, activity: Activity) -> "Inbox":
        """Return the counter read by somebody looking at the inbox; until then no stepped clock
        waits for the queue.
        """
        self._activity = activity
        for line in self._lines.values():
            for _ in line:
                activity.begin()
        return self

    def rank(self, ranking: Ranking) -> None:
        """The start has posted everything: from now on `ranking` says what goes first."""
        self._ranking = ranking

    def post(self, event: Event) -> None:
        """Queue an event after all that are as urgent."""
        kind = type(event)
        urgency, key_of = self._ranking.urgency[kind], self._ranking.newest.get(kind)
        if key_of is None:
            self._add(urgency, event, None)
        elif (waiting := self._newest.get(key := key_of(event))) is None:
            self._newest[key] = self._add(urgency, event, key)
        else:
            self.passed_over += urgency is Urgency.MARKET
            if event.at >= waiting.event.at:  # an answer may arrive after that of a later request
                waiting.event = event

    def ask(self, event: Event) -> bool:
        """Queue an operator's request from outside: before everything else once the start is over.

        Return False if it is not accepted because too many wait.
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
        """Return whether something at least this urgent waits."""
        return any(line for urgency, line in self._lines.items() if urgency <= least)

    def up_to(self, kind: type[Event]) -> Sequence[Urgency]:
        """Return the urgencies at least that of an event of this kind now, most urgent first."""
        return [urgency for urgency in Urgency if urgency <= self._ranking.urgency[kind]]

    @property
    def unheard(self) -> int:
        """Return how many waiting events the next start would not get anyway: neither market nor
        time.
        """
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
        """Take the first event at least this urgent, None without one; `done` must follow."""
        for urgency, line in self._lines.items():
            if urgency > least:
                break
            if line:
                waiting = line.popleft()
                self._newest.pop(waiting.key, None)
                return waiting.event
        return None

    def take_answers(self) -> list[Event]:
        """Take the answers of writes, with that they had left, whatever waits before them; `done`
        must follow for each.
        """
        found = list[Event]()
        for line in self._lines.values():
            found += [each.event for each in line if isinstance(each.event, ANSWERS)]
            left = [each for each in line if not isinstance(each.event, ANSWERS)]
            line.clear()
            line.extend(left)
        return found

    async def arrival(self, least: Urgency = Urgency.MARKET) -> None:
        """Wait until an event at least this urgent waits."""
        while not self.holds(least):
            self._arrived.clear()
            await self._arrived.wait()

    def done(self) -> None:
        """An event taken has been handled: its rows are written and its commands started."""
        self._activity.end()
