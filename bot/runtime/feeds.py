"""What is polled, how often, and the timetable that does it.

The API has no stream: a strategy's `wake` becomes polls. There is one poll per symbol and kind
however many strategies want it, at the shortest interval that any of them asked for.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, time, timedelta
from math import ceil
from typing import Final, Protocol

from bot.domain.instrument import Exchange, Instrument, Phase
from bot.domain.message import TimerFired
from bot.domain.plan import StrategyPlan
from bot.domain.rulebook import Rulebook
from bot.engine.risk.checks import SILENT_PHASES
from bot.runtime.activity import Post, Tasks
from bot.runtime.reads import DayOrderBook, Reads
from bot.runtime.schedule import POLL_MISFIRE_GRACE_S, Job, PhaseTrigger, daily_at, every

QUOTES_PER_BAR: Final = 6
"""A bar is built from this many quotes at least."""
QUOTE_INTERVAL_MIN: Final = timedelta(seconds=1)
QUOTES_FOR_CHECKS: Final = timedelta(seconds=10)
"""How fresh the checks want last price and depth of a symbol that is traded."""
POLLS_SHARE_PERCENT: Final = 50
"""What polls may ask of the quota in the long run: less than the lane of the other reads may fill
(60), so that phases, account and day order book always have their turn."""
HEARTBEAT: Final = timedelta(seconds=5)
RECONCILE: Final = timedelta(seconds=60)
RECONCILE_MINUTES_CLOSED: Final = 15
"""While every exchange is closed: each look is a row of the journal, and nothing trades."""
_MINUTE_S: Final = 60
DAY_START: Final = time(8, 30)


@dataclass(frozen=True, slots=True)
class Poll:
    """One poll: `kind` is quote or depth."""

    kind: str
    symbol: str
    interval: timedelta

    @property
    def per_minute(self) -> float:
        """What it costs of the request quota."""
        return 60 / self.interval.total_seconds()


def room_for_polls(quota: int) -> int:
    """How many of `quota` requests a minute polls may use; the rest is for orders. At least one."""
    return max(1, quota * POLLS_SHARE_PERCENT // 100)


def polls_of(plans: Iterable[StrategyPlan]) -> tuple[Poll, ...]:
    """Return the polls that these strategies need together, sorted by kind and symbol."""
    shortest: dict[tuple[str, str], timedelta] = {}
    for plan in plans:
        for kind, interval in _wanted(plan):
            for symbol in plan.symbols:
                key = (kind, symbol)
                shortest[key] = min(interval, shortest.get(key, interval))
    return tuple(
        Poll(kind, symbol, interval) for (kind, symbol), interval in sorted(shortest.items())
    )


def slowed_by(polls: Sequence[Poll], quota: int) -> float:
    """Return by which factor each poll has to be slower than its file says; 1 where all fit."""
    return max(1.0, sum(poll.per_minute for poll in polls) / room_for_polls(quota))


def fitted(polls: Sequence[Poll], quota: int) -> tuple[Poll, ...]:
    """Return the polls as slow as they must be for `quota` requests a minute, all by one factor.

    More than their share would keep the reads of phases and account waiting for ever.
    """
    slower = slowed_by(polls, quota)
    if slower <= 1:
        return tuple(polls)
    return tuple(replace(poll, interval=_whole_s(poll.interval * slower)) for poll in polls)


def _whole_s(interval: timedelta) -> timedelta:
    """Rounded up to whole seconds."""
    return timedelta(seconds=ceil(interval.total_seconds()))


def _wanted(plan: StrategyPlan) -> list[tuple[str, timedelta]]:
    """A quote is always wanted: the checks need band and last price of every symbol that is
    traded.
    """
    wake = plan.wake
    quotes = [QUOTES_FOR_CHECKS]
    if wake.quote is not None:
        quotes.append(wake.quote)
    if wake.bar is not None:
        quotes.append(max(wake.bar / QUOTES_PER_BAR, QUOTE_INTERVAL_MIN))
    wanted = [("quote", min(quotes))]
    if wake.depth is not None:
        wanted.append(("depth", wake.depth))
    elif plan.order.basis in {"bid", "ask", "mid"}:
        wanted.append(("depth", QUOTES_FOR_CHECKS))
    return wanted


class OnPoll(Protocol):
    """Is told of each poll that is due, and whether the one before it still waits."""

    def plan(self, polls: Sequence[Poll]) -> None: ...
    def due(self, poll: str, at: datetime, *, is_waiting: bool) -> None: ...


@dataclass(frozen=True, slots=True)
class Feeds:
    """Turns plans into jobs. All that a job does is to start a read or to post an event."""

    rulebook: Rulebook
    instruments: Mapping[str, Instrument]
    reads: Reads
    day_order_book: DayOrderBook
    tasks: Tasks
    post: Post
    on_day: Callable[[datetime], None]
    on_pulse: Callable[[datetime], None]
    pulse_every: timedelta
    quota: int
    on_poll: OnPoll

    def jobs(self, plans: Sequence[StrategyPlan], *, start: datetime) -> list[Job]:
        """Return the whole timetable, in the order in which jobs due at one instant fire."""
        exchanges = sorted({instrument.exchange for instrument in self.instruments.values()})
        polls = fitted(polls_of(plans), self.quota)
        self.on_poll.plan(polls)
        return [
            Job("day", daily_at(DAY_START), self.on_day),
            *(self._phase_job(exchange) for exchange in exchanges),
            *(self._poll_job(poll, start) for poll in polls),
            *self._timer_jobs(plans),
            Job("reconcile", every(RECONCILE, start=start + RECONCILE), self._reconcile),
            Job("pulse", every(self.pulse_every, start=start + self.pulse_every), self.on_pulse),
        ]

    def _phase_job(self, exchange: Exchange) -> Job:
        def fire(_: datetime) -> None:
            self.tasks.spawn(self.reads.phase(exchange), f"phase {exchange}")

        return Job(f"phase {exchange}", PhaseTrigger(self.rulebook, exchange), fire)

    def _poll_job(self, poll: Poll, start: datetime) -> Job:
        read = {"quote": self.reads.quote, "depth": self.reads.depth}[poll.kind]
        exchange = self.instruments[poll.symbol].exchange
        name = f"{poll.kind} {poll.symbol}"

        def fire(due: datetime) -> None:
            if self.rulebook.phase_at(exchange, due) not in SILENT_PHASES:
                self.on_poll.due(name, due, is_waiting=self.reads.is_under_way(name))
                self.tasks.spawn(read(poll.symbol), name)

        trigger = every(poll.interval, start=start + poll.interval)
        return Job(name, trigger, fire, POLL_MISFIRE_GRACE_S)

    def _timer_jobs(self, plans: Sequence[StrategyPlan]) -> list[Job]:
        return [
            Job(
                f"timer {plan.name} {moment:%H:%M:%S}",
                daily_at(moment),
                self._timer(plan.name, moment),
            )
            for plan in plans
            for moment in plan.wake.timers
        ]

    def _timer(self, strategy: str, moment: time) -> Callable[[datetime], None]:
        return lambda due: self.post(TimerFired(due, strategy, moment))

    def _reconcile(self, due: datetime) -> None:
        if self._is_closed(due) and due.timestamp() // _MINUTE_S % RECONCILE_MINUTES_CLOSED:
            return
        self.tasks.spawn(self.day_order_book.read(), "reconcile book")
        self.tasks.spawn(self.reads.account(), "reconcile account")

    def _is_closed(self, at: datetime) -> bool:
        exchanges = {instrument.exchange for instrument in self.instruments.values()}
        return all(self.rulebook.phase_at(each, at) is Phase.CLOSED for each in exchanges)
