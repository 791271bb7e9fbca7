"""What is polled and how often, the timetable for it, and a watch for late polls.

The API has no stream: a strategy's `wake` becomes polls. There is one poll per symbol and kind
however many strategies want it, at the shortest interval that any of them asked for.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, time, timedelta
from functools import partial
from math import ceil
from typing import Final

from bot.domain.calendar import TradingCalendar
from bot.domain.entry import Note
from bot.domain.instrument import EXCHANGE_TZ, Exchange, Instrument, Phase
from bot.domain.local_time import local_date
from bot.domain.message import Noted, PhaseChanged, TimerFired
from bot.domain.order import OrderType
from bot.domain.plan import StrategyPlan
from bot.domain.rulebook import Rulebook
from bot.engine.market import TIMER_LATE_MAX
from bot.engine.risk.view import SILENT_PHASES
from bot.engine.settings import EngineSettings
from bot.runtime.activity import Post, Tasks
from bot.runtime.closes import Closes
from bot.runtime.history.warming.warm_up import WarmUp
from bot.runtime.reads import DayBookReader, Reads
from bot.runtime.timetable.schedule import (
    Fire,
    Job,
    OnTradingDays,
    PhaseTrigger,
    Started,
    WhenMissed,
    daily_at,
    every,
    once,
)

QUOTES_PER_BAR: Final = 6
"""A bar is built from this many quotes at least."""
QUOTE_INTERVAL_MIN: Final = timedelta(seconds=1)
QUOTES_FOR_CHECKS: Final = timedelta(seconds=10)
"""How fresh the checks need last price and depth of a traded symbol."""
POLLS_SHARE_PERCENT: Final = 50
"""The share of the quota for polls in the long run: less than the lane for reads of orders and
account may fill (75), so that these always get their turn, even while orders are open.
"""
MINUTE: Final = timedelta(minutes=1)
RECONCILE: Final = timedelta(seconds=60)
ACCOUNT_READS: Final = 2
"""Calls of one account read: shares and cash."""
RECONCILE_MINUTES_CLOSED: Final = 15
"""While every exchange is closed: each read makes a row in the journal, and nothing trades."""
PHASE_AGAIN: Final = timedelta(seconds=5)
"""How often a phase is read again, in its first minute, until the broker says what the timetable
has; after that once a minute.
"""
AFTER_LAST_PRICE: Final = timedelta(minutes=2)
"""How long, and one poll more, quotes are still polled after the closing auction or, without one,
the day's end: longer than a phase may be late and a node behind, so that they show the close.
"""
LATE_FOR: Final = timedelta(minutes=2)
"""Market time that a poll may be late: longer than a wait that the broker has asked for."""
DAY_START: Final = time(8, 30)
MORNING: Final = time(8, 40)
"""Ten minutes after the day has begun, twenty before the first auction: time to mend something."""
START_CHECK: Final = timedelta(seconds=3)
"""By then a start's reads have arrived."""
SLOWER_MAX: Final = 3.0
"""Polls that are less frequent than requested by this factor make it a different strategy."""
DAY_END: Final = time(15, 15)
"""After the last phase of every exchange (15:00): what is not executed by then never will be."""
AFTER_CLOSE: Final = timedelta(minutes=15)
"""The same on a day that ends early."""
DAY_END_JOB: Final = "day's end"


@dataclass(frozen=True, slots=True)
class Poll:
    """One poll: `kind` is quote or depth."""

    kind: str
    symbol: str
    interval: timedelta

    @property
    def per_minute(self) -> float:
        """Its cost in requests of the quota."""
        return 60 / self.interval.total_seconds()


def at_day_end(calendar: TradingCalendar) -> OnTradingDays:
    """Return when each day is compared one last time."""
    return OnTradingDays(calendar, DAY_END, AFTER_CLOSE)


def has_day_begun(since: datetime, now: datetime) -> bool:
    """Return whether a later day than that of `since` has begun by now."""
    local = now.astimezone(EXCHANGE_TZ)
    return local_date(since) < local.date() and local.time() >= DAY_START


def room_for_polls(quota: int) -> int:
    """How many of `quota` requests a minute polls may use, at least one; the rest is for orders."""
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
    """Return the factor by which polls are slower than the files ask; 1 if all fit."""
    return max(1.0, sum(poll.per_minute for poll in polls) / room_for_polls(quota))


def slowness_of(plans: Iterable[StrategyPlan], quota: int, quote_age_max: timedelta) -> str:
    """Describe how much less often than requested symbols are polled; empty: not at all."""
    polls = polls_of(plans)
    slower = slowed_by(polls, quota)
    if slower <= 1:
        return ""
    wanted = sum(poll.per_minute for poll in polls)
    needs = f"need {wanted:.0f} a minute, the quota leaves {room_for_polls(quota)}"
    words = f"{needs}: each comes {slower:.1f} times less often"
    every, most = slowest_quote(fitted(polls, quota)), quote_age_max
    if every > most:
        words += (
            f". Quotes come every {every.total_seconds():g} s, and on one older than "
            f"{most.total_seconds():g} s (risk.max_quote_age_s) no order goes out: many will be "
            "refused (QUOTE_AGE)"
        )
    return words


def slowest_quote(polls: Iterable[Poll]) -> timedelta:
    """Return the longest interval between quotes of any symbol."""
    quotes = (poll.interval for poll in polls if poll.kind == "quote")
    return max(quotes, default=timedelta(0))


def order_reads_per_minute(
    backoff: Sequence[timedelta] = EngineSettings().poll_backoff,
) -> tuple[int, int, int]:
    """Return how many reads a minute orders and account need: always, and in addition while orders
    are open, in an order's first minute and later.
    """
    always = (1 + ACCOUNT_READS) * round(timedelta(minutes=1) / RECONCILE)
    due, reads = backoff[0], 0
    while due <= timedelta(minutes=1):
        reads += 1
        due += backoff[min(reads, len(backoff) - 1)]
    return always, reads, ceil(timedelta(minutes=1) / backoff[-1])


def fitted(polls: Sequence[Poll], quota: int) -> tuple[Poll, ...]:
    """Return the polls as slow as necessary for `quota` requests a minute, all by one factor.

    More than their share would keep the reads of phases and account waiting for ever.
    """
    slower = slowed_by(polls, quota)
    if slower <= 1:
        return tuple(polls)
    seconds = (ceil((poll.interval * slower).total_seconds()) for poll in polls)
    return tuple(
        replace(poll, interval=timedelta(seconds=each))
        for poll, each in zip(polls, seconds, strict=True)
    )


def _wanted(plan: StrategyPlan) -> list[tuple[str, timedelta]]:
    """A quote is always wanted: the checks need band and last price of every traded symbol. So is a
    depth if an order is priced by it or sweeps it, however seldom `wake` asks for one.
    """
    wake, order = plan.wake, plan.order
    quotes, depths = [QUOTES_FOR_CHECKS], list[timedelta]()
    if wake.quote is not None:
        quotes.append(wake.quote)
    if wake.bar is not None:
        quotes.append(max(wake.bar / QUOTES_PER_BAR, QUOTE_INTERVAL_MIN))
    if order.basis in {"bid", "ask", "mid"} or order.order_type is not OrderType.LO:
        depths.append(QUOTES_FOR_CHECKS)
    if wake.depth is not None:
        depths.append(wake.depth)
    return [("quote", min(quotes)), *(("depth", min(depths)) for _ in depths[:1])]


class PollWatch:
    """Notices starving polls: still unanswered, for long, when they are due again.

    A starving feed is silent: quotes grow old and orders are refused because of that. It is
    reported once on the screen, and in `bot status` for as long as it lasts. `speed` is market
    seconds per second of the clock by which requests are counted.
    """

    def __init__(self, *, quota: int, speed: float, post: Post) -> None:
        self.quota, self.room = quota, room_for_polls(quota)
        self._speed = speed
        self._post = post
        self.asked = self.needed = 0.0
        """Requests a minute, as the files ask for them and as they are made."""
        self.quote_every = timedelta(0)
        """How far apart the quotes of a symbol are at most."""
        self.slower = 1.0
        """The factor by which polls are less frequent than the files ask."""
        self._late_since: dict[str, datetime] = {}
        self.starved = ""
        """What is wrong, with its numbers; empty while polls are on time."""

    def plan(self, asked: Sequence[Poll], polls: Sequence[Poll]) -> None:
        """Record which polls were requested, and how they are made."""
        self.asked = sum(poll.per_minute for poll in asked) * self._speed
        self.needed = sum(poll.per_minute for poll in polls) * self._speed
        self.quote_every = slowest_quote(polls)
        self.slower = max(1.0, self.asked / self.needed) if polls else 1.0

    def due(self, poll: str, at: datetime, *, is_waiting: bool) -> None:
        """A poll is due; `is_waiting` if the previous one has no answer yet."""
        if is_waiting:
            self._late_since.setdefault(poll, at)
        else:
            self._late_since.pop(poll, None)
        is_starved = any(at - since >= LATE_FOR for since in self._late_since.values())
        if self.starved and not self._late_since:
            self.starved = ""
        elif is_starved and not self.starved:
            self.starved = "polls come late: the broker takes longer to answer than they are apart"
            if self.needed > self.room:
                needs = f"they need {self.needed:,.0f} requests a minute"
                self.starved = f"polls come late: {needs}, the quota leaves {self.room:,}"
        else:
            return
        numbers = {"needed": round(self.needed, 1), "room": self.room}
        text = self.starved or "polls come in time again"
        self._post(Noted(at, Note(at, "FEED", text, numbers)))

    def rest(self, poll: str) -> None:
        """A poll is due in a phase without polls: how late it was ends here, untold."""
        self._late_since.pop(poll, None)
        if not self._late_since:
            self.starved = ""


@dataclass(frozen=True, slots=True)
class Feeds:
    """Turns plans into jobs. A job only starts a read or posts an event."""

    rulebook: Rulebook
    instruments: Mapping[str, Instrument]
    reads: Reads
    day_order_book: DayBookReader
    closes: Closes
    warm_up: WarmUp
    tasks: Tasks
    post: Post
    on_day: Callable[[datetime], None]
    on_day_end: Callable[[datetime], None]
    on_morning: Fire
    on_start: Fire
    on_pulse: Callable[[datetime], None]
    pulse_every: timedelta
    quota: int
    polls: PollWatch

    def jobs(self, plans: Sequence[StrategyPlan], *, start: datetime) -> list[Job]:
        """Return the whole timetable, in the order in which jobs due at one instant fire."""
        asked = polls_of(plans)
        polls = fitted(asked, self.quota)
        self.polls.plan(asked, polls)
        return [
            Job("day", daily_at(DAY_START), self.on_day, done_by_start=True),
            Job("morning check", daily_at(MORNING), self.on_morning, done_by_start=True),
            Job("check of the start", once(start + START_CHECK), self.on_start),
            Job(DAY_END_JOB, at_day_end(self.rulebook.calendar), self.on_day_end),
            *(
                Job(
                    f"phase {exchange}",
                    PhaseTrigger(self.rulebook, exchange),
                    partial(self._ask_phase, exchange),
                    done_by_start=True,
                )
                for exchange in self._exchanges()
            ),
            Job(
                "phases again",
                every(PHASE_AGAIN, start=start + PHASE_AGAIN),
                self._ask_phases_again,
            ),
            *(
                Job(
                    f"{poll.kind} {poll.symbol}",
                    every(poll.interval, start=start + poll.interval),
                    partial(self._poll, poll),
                )
                for poll in polls
            ),
            *(
                Job(
                    f"timer {plan.name} {moment:%H:%M:%S}",
                    OnTradingDays(self.rulebook.calendar, moment),
                    partial(self._fire_timer, plan.name, moment),
                    late_max=TIMER_LATE_MAX,
                    missed=WhenMissed.LIST,
                )
                for plan in plans
                for moment in plan.wake.timers
            ),
            Job("reconcile", every(RECONCILE, start=start + RECONCILE), self._reconcile),
            Job("pulse", every(self.pulse_every, start=start + self.pulse_every), self.on_pulse),
        ]

    def _ask_phase(self, exchange: Exchange, due: datetime) -> None:
        self.tasks.spawn(self._phase(exchange, due), f"phase {exchange}")

    async def _phase(self, exchange: Exchange, due: datetime) -> None:
        """Read a phase. While that fails the timetable's holds, so that a session begins for the
        strategies too; but what was read since the last boundary is worth more. A read may take
        longer than a phase: what holds is what holds when it has failed.
        """
        failure = await self.reads.phase(exchange)
        now = max(due, self.reads.clock.now())
        if failure is not None and not self._is_read(exchange, now):
            self.post(PhaseChanged(now, exchange, self.rulebook.phase_at(exchange, now)))

    def _exchanges(self) -> Sequence[Exchange]:
        """Return where our symbols are listed today: overnight one may have moved."""
        return sorted({instrument.exchange for instrument in self.instruments.values()})

    def _ask_phases_again(self, due: datetime) -> None:
        """Read each phase again that was not read since its last boundary, or is another one than
        the timetable has: one read at a boundary may fail, or come before the broker has turned. An
        exchange to which the first symbol has moved since the start has its phases from here alone.
        """
        for exchange in self._exchanges():
            expected = self.rulebook.phase_at(exchange, due)
            if self._is_read(exchange, due) and self.reads.phases[exchange].phase is expected:
                continue
            since = self.rulebook.phase_since(exchange, expected, due)
            is_first_minute = since is not None and due - since < MINUTE
            if is_first_minute or due.timestamp() % MINUTE.seconds < PHASE_AGAIN.seconds:
                self._ask_phase(exchange, due)

    def _is_read(self, exchange: Exchange, at: datetime) -> bool:
        """Return whether a phase was read since the last boundary before `at`."""
        read = self.reads.phases.get(exchange)
        return read is not None and at < self.rulebook.next_phase_change(exchange, read.at).at

    def _poll(self, poll: Poll, due: datetime) -> None:
        exchange, name = self.instruments[poll.symbol].exchange, f"{poll.kind} {poll.symbol}"
        last_price_at = self.rulebook.last_price_at(exchange, due)
        shows_close = (
            poll.kind == "quote"
            and last_price_at is not None
            and (last_price_at <= due <= last_price_at + AFTER_LAST_PRICE + poll.interval)
        )
        if self.rulebook.phase_at(exchange, due) in SILENT_PHASES and not shows_close:
            self.polls.rest(name)
            self.reads.health.rest(f"the {poll.kind}", poll.symbol)
        else:
            self.polls.due(name, due, is_waiting=self.reads.is_under_way(name))
            read = {"quote": self.reads.quote, "depth": self.reads.depth}[poll.kind]
            self.tasks.spawn(read(poll.symbol), name)

    def _fire_timer(self, strategy: str, moment: time, due: datetime) -> None:
        self.post(TimerFired(due, strategy, moment))

    def _reconcile(self, due: datetime) -> Started:
        phases = {self.rulebook.phase_at(each, due) for each in self._exchanges()}
        is_closed = phases <= {Phase.CLOSED}
        if is_closed and due.timestamp() // 60 % RECONCILE_MINUTES_CLOSED:
            return None
        self.tasks.spawn(self.day_order_book.read(), "reconcile book")
        account = self.tasks.spawn(self.reads.account(), "reconcile account")
        if self.closes.are_missing:
            self.tasks.spawn(self.closes.read_missing(), "closes")
        if self.warm_up.is_missing:
            self.tasks.spawn(self.warm_up.read(), "earlier bars")
        return account
