"""Gets the bars from before a run: requested when it begins, and until they are complete.

    broker's history ─► what earlier runs have kept ─► BarsRead: indicators begin with all of it

Sources are asked in the order of trust, each for what the previous ones lack. What cannot be had
now is requested again every minute; what is missing is named. Orders and the reads of a start go
first: nothing waits for a history, and it uses a small part of the quota.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Final, Protocol

from bot.broker.errors import BrokerError
from bot.clock import Clock
from bot.domain.entry import Note, Numbers
from bot.domain.instrument import EXCHANGE_TZ, Instrument
from bot.domain.local_time import local_date
from bot.domain.message import Noted
from bot.domain.quote import Bar, BarsRead, WentEx, width_name
from bot.runtime.activity import Post

FIRST_ASK: Final = 300
"""Bars asked for at first: enough for sma(300), ema(36), rsi(17). A strategy that reads further
back causes another call.
"""
QUOTA_PERCENT: Final = 20
"""At most this percentage of a minute's requests look for bars."""
PAUSE_MAX: Final = timedelta(days=14)
"""Longer than any closure of the exchanges."""
FAILURES_MAX: Final = 2
"""After this many failed reads in a row the broker is not asked again before the next minute."""
UNTRUE_TRIES: Final = 8
"""An implausible history is requested again after 1, 2, 4 … minutes: over four hours."""
FIRST_PAUSE: Final = timedelta(minutes=1)
GAPS_TOLD: Final = 3
"""Gaps named for one source."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """What a source has: closed bars, oldest first, the part of the unfinished bar, and in words
    what it lacks.
    """

    bars: tuple[Bar, ...]
    forming: Bar | None = None
    gaps: tuple[str, ...] = ()


class UnusableHistory(Exception):
    """A source's answer is implausible; none of it is used. The text says why."""


class Source(Protocol):
    """A source of earlier bars: a history call, a recording, files."""

    @property
    def name(self) -> str:
        """Its name in a sentence: `the broker's history`."""
        ...

    def asks(self, width: timedelta, /) -> bool:
        """Whether a read costs a request of the quota."""
        ...

    def give_again(self, symbols: Collection[str], /) -> None:
        """Let the next read return the same again: the bars of these symbols start over."""
        ...

    async def read(
        self, instrument: Instrument, width: timedelta, count: int, now: datetime
    ) -> Earlier | None:
        """Return at least `count` bars if there are so many; None: it has none of this width.

        Raises BrokerError, UnusableHistory.
        """
        ...


class ExDates(Protocol):
    """A source of how ex-dates have changed closes."""

    async def went_ex(self, symbol: str, days: Sequence[date], /) -> Sequence[WentEx]:
        """Return what is known of these days. Raises OSError, TimeoutError, UnusableHistory."""
        ...


Key = tuple[str, timedelta]


@dataclass(eq=False, slots=True)
class WarmUp:
    """Looks for the bars of every series that strategies want, and posts them."""

    sources: Sequence[Source]
    market: Clock
    post: Post
    quota: int
    instruments: Mapping[str, Instrument]
    ex_dates: Mapping[str, Collection[date]]
    past: Sequence[ExDates] = ()
    seen: Callable[[str], Awaitable[Collection[date]]] | None = None
    """The ex-dates of a symbol seen by earlier runs: the broker may no longer list them."""
    wanted: dict[Key, int] = field(default_factory=dict)
    """How many bars of each series are needed, as far as known."""
    _missing: dict[Key, str] = field(default_factory=dict, init=False)
    """In the order of looking; why the last look at a source failed."""
    _untrue: dict[Key, tuple[int, datetime]] = field(default_factory=dict, init=False)
    """How often a history was refused as implausible, and when it is requested again."""
    _is_reading: bool = field(default=False, init=False)

    def want(self, symbol: str, width: timedelta, needed: int) -> None:
        """Have bars looked for at the next turn: `needed` ones, and as many as come at no extra
        cost.
        """
        key = symbol, width
        if needed > max(self.wanted.get(key, 0), FIRST_ASK):
            self._untrue.pop(key, None)  # a new question, which need not wait for the old one
        self.wanted[key] = max(needed, self.wanted.get(key, 0))
        self._missing.setdefault(key, "")

    def look_again(self, symbols: Collection[str]) -> None:
        """Have all series of symbols looked for again, as their ex-dates have only now become
        known.

        The result is reported even if a source fails as before, as the price level has changed.
        """
        for source in self.sources:
            source.give_again(symbols)
        for key in self.wanted:
            if key[0] in symbols:
                self._missing[key] = ""
                self._untrue.pop(key, None)

    @property
    def is_missing(self) -> bool:
        """Whether there is something to look for."""
        return bool(self._missing)

    async def read(self) -> None:
        """Look for what is missing, within a minute's quota; one look at a time.

        While the broker does not answer, only sources without requests are used.
        """
        if self._is_reading:
            return
        left, failures, trouble = max(1, self.quota * QUOTA_PERCENT // 100), 0, ""
        now = self.market.now()
        tried = {key for key, (_, again_at) in self._untrue.items() if now < again_at}
        self._is_reading = True
        try:
            while key := next((each for each in self._missing if each not in tried), None):
                tried.add(key)
                free = [each for each in self.sources if not each.asks(key[1])]
                if len(free) == len(self.sources):
                    await self._read(key, free, "")
                elif failures >= FAILURES_MAX:
                    await self._read(key, free, trouble)
                elif left:
                    left -= 1
                    trouble = await self._read(key, self.sources, "")
                    failures = failures + 1 if trouble else 0
                    if key in self._missing:  # those not asked yet go first
                        self._missing[key] = self._missing.pop(key)
        finally:
            self._is_reading = False

    async def _levelled(
        self, symbol: str, bars: Sequence[Bar], now: datetime
    ) -> tuple[tuple[Bar, ...], tuple[tuple[date, float], ...], list[str]]:
        """Return the bars that can be put on today's level, the factors for those before each
        ex-date, and what is left out. Today's ex-date is up to the engine, which knows the
        reference.
        """
        first, today = local_date(bars[0].start) if bars else date.max, local_date(now)
        seen = await self.seen(symbol) if self.seen is not None else ()
        every = {*self.ex_dates.get(symbol, ()), *seen}
        days = sorted(each for each in every if first < each < today)
        known, ratios, gaps = dict[date, WentEx](), list[tuple[date, float]](), list[str]()
        for source in self.past if days else ():
            try:
                found = await source.went_ex(symbol, days)
            except (OSError, TimeoutError, UnusableHistory) as error:
                gaps.append(f"what its ex-dates were is not all known: {error}")
            else:
                known = {**{each.day: each for each in found}, **known}
        for day in reversed(days):
            before = [bar for bar in bars if local_date(bar.start) < day]
            then = known.get(day)
            # Closes that are already adjusted end at the reference, and count unchanged.
            if not (then and before and before[-1].close in (then.close, then.reference)):
                bars = bars[len(before) :]
                gaps.append(f"bars before its ex-date {day} are left out, its ratio is not known")
                break
            ratios.append((day, then.reference / before[-1].close))
        return tuple(bars), tuple(reversed(ratios)), gaps

    def _again_as(self, key: Key, untrue: str, now: datetime) -> str:
        """Record that a history was refused as implausible, if it was; return why it is requested
        again, empty if not.
        """
        tries, _ = self._untrue.pop(key, (0, now))
        if not untrue or tries + 1 >= UNTRUE_TRIES:
            return ""
        self._untrue[key] = tries + 1, now + FIRST_PAUSE * 2**tries
        return untrue

    async def _read(self, key: Key, sources: Sequence[Source], trouble: str) -> str:
        """Look for one series in some sources; return why it has to be requested again, if it has
        to.

        `trouble`: why the others are not asked now.
        """
        (symbol, width), now = key, self.market.now()
        needed, count = self.wanted[key], max(self.wanted[key], FIRST_ASK)
        found: dict[datetime, Bar] = {}
        forming, origins, gaps, untrue = None, list[str](), list[str](), ""
        for source in sources:
            try:
                earlier = await source.read(self.instruments[symbol], width, count, now)
            except BrokerError as error:
                trouble = f"{source.name} can't be read ({error.reason}): asked again every minute"
                continue
            except UnusableHistory as error:
                gaps.append(f"{source.name} is not used: {error}")
                untrue = gaps[-1] if source.asks(width) else untrue
                continue
            if earlier is None:
                continue
            more = [bar for bar in earlier.bars if bar.start not in found]
            found.update((bar.start, bar) for bar in more)
            if more:
                origins.append(source.name)
            gaps += _few_of(earlier.gaps, found)
            forming = forming or earlier.forming
            if len(found) >= count:
                break
        again = trouble or self._again_as(key, untrue, now)
        if again and self._missing[key] == again:
            return trouble
        self._missing[key] = again
        if not again and self.wanted[key] <= count:  # more may have been requested meanwhile
            del self._missing[key]
        bars = _since_pause([found[start] for start in sorted(found)][-count:], now)
        if len(bars) < min(len(found), count):
            gaps.append(f"older bars are left out: more than {PAUSE_MAX.days} days lie between")
        bars, ratios, unknown = await self._levelled(symbol, bars, now)
        gaps += unknown
        origin = _origin(bars, needed, origins, ratios)
        gaps += ["it is asked again"] if again and not trouble else []
        lacks = "; ".join([trouble, *gaps] if trouble else gaps)
        now = self.market.now()
        self.post(
            BarsRead(
                *(now, symbol, width, bars, count, origin, lacks, forming),
                is_asked_again=bool(again),
                ex_ratios=ratios,
            )
        )
        if text := "; ".join(filter(None, (origin, lacks))):
            numbers: Numbers = {"bars": len(bars), "needed": needed, "from": ", ".join(origins)}
            note = Note(now, "HISTORY", f"{symbol} {width_name(width)}: {text}", numbers, symbol)
            self.post(Noted(now, note))
        return trouble


def _few_of(gaps: Iterable[str], found: Iterable[datetime]) -> list[str]:
    """Name a few of the gaps that are no days with bars; count the others."""
    covered = {f"gap {local_date(start)}" for start in found}
    still_open = [each for each in gaps if each not in covered]
    others = len(still_open) - GAPS_TOLD
    return still_open[:GAPS_TOLD] + ([f"{others:,} more gaps"] if others > 0 else [])


def _since_pause(bars: Sequence[Bar], now: datetime) -> tuple[Bar, ...]:
    """Return the bars after the last long pause: those before it say nothing about today."""
    later = now
    for number, bar in reversed(list(enumerate(bars))):
        if later - bar.start > PAUSE_MAX:
            return tuple(bars[number + 1 :])
        later = bar.start
    return tuple(bars)


def _origin(
    bars: Sequence[Bar],
    needed: int,
    origins: Iterable[str],
    ratios: Iterable[tuple[date, float]],
) -> str:
    if not bars:
        return ""
    since = f"{bars[0].start.astimezone(EXCHANGE_TZ):%Y-%m-%d %H:%M}"
    number = f"{len(bars):,}" if len(bars) >= needed else f"{len(bars):,} of {needed:,}"
    word = "bar" if number == "1" else "bars"
    gone = "".join(
        f"; closes before its ex-date {day} count times {ratio:.4f} in indicators"
        for day, ratio in ratios
        if ratio != 1
    )
    return f"{number} {word} since {since} from {' and '.join(origins)}{gone}"
