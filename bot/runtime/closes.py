"""The last closes known independently of today's market data, and the ex-dates since then.

    journal (what this bot saw at the end of the day before) ─► else the history call ─► ClosesRead

A price is trusted only if one of these confirms it. A history that cannot be read is requested
again every minute; meanwhile the engine reports the symbol and takes no entries in it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from bot.broker.client import BrokerClient
from bot.broker.errors import BrokerError
from bot.clock import Clock
from bot.domain.entry import Note
from bot.domain.instrument import EXCHANGE_TZ, Instrument
from bot.domain.local_time import local_date
from bot.domain.message import Noted, ReadHealthChanged
from bot.domain.quote import ClosesRead, LastClose
from bot.domain.rulebook import Rulebook
from bot.protocol.calls import CODECS
from bot.runtime.activity import Post

if TYPE_CHECKING:  # slow to import, and not needed before the first read
    from bot.protocol.values.earlier import StockEvent
    from bot.protocol.values.series import PriceHistory

LOOK_BACK: Final = timedelta(days=60)
"""Longer than Tet, and than most suspensions."""
EX_LOOK_BACK: Final = timedelta(days=500)
"""As far back as daily bars are looked for."""
EX_TRIES: Final = 60
"""How often the ex-dates of a day are requested every minute; after that every hour."""
EX_PAUSE: Final = timedelta(hours=1)
FAILURES_MAX: Final = 2
"""After this many failed reads in a row the rest waits for the next minute."""
FIGURE_MAX: Final = 10**12
"""More than any price or volume, and few enough digits to be read from a file again."""
_THOUSAND: Final = 1_000
_NONE: Final = date.min
_HISTORY: Final = "the history"
_EX_DATES: Final = "the ex-dates"


@dataclass(eq=False, slots=True)
class Closes:
    """Finds the closes of the traded symbols, and posts them."""

    client: BrokerClient
    market: Clock
    rulebook: Rulebook
    post: Post
    known: dict[str, LastClose]
    """By symbol, the newest: from the journal, then from this run."""
    noted: Callable[[], Iterable[LastClose]] = tuple
    """Returns what this run has journalled: a start would find the same."""
    ex_dates: dict[str, frozenset[date]] = field(default_factory=dict, init=False)
    """By symbol, those known for the last `EX_LOOK_BACK`."""
    on_ex_dates: Callable[[Collection[str]], None] = field(default=lambda _: None, init=False)
    """Called with the symbols whose ex-dates were found later: their bars are on another level."""
    _missing: dict[str, Instrument] = field(default_factory=dict, init=False)
    _unread_histories: set[str] = field(default_factory=set, init=False)
    """The symbols whose history was told to fail."""
    _unread: tuple[str, ...] = field(default=(), init=False)
    """The symbols whose ex-dates could not be read yet."""
    _ex_tries: int = field(default=0, init=False)
    _ex_due: datetime | None = field(default=None, init=False)
    """Do not read before then."""

    @property
    def are_missing(self) -> bool:
        """Whether a history has to be requested again."""
        return bool(self._missing or self._unread)

    async def read(self, instruments: Mapping[str, Instrument]) -> None:
        """Find all of them for a beginning day."""
        now = self.market.now()
        before = self._last_trading_day(now.astimezone(EXCHANGE_TZ).date())
        for close in self.noted():
            if close.day == before:
                self.known[close.symbol] = close
        self._missing = {
            symbol: each
            for symbol, each in sorted(instruments.items())
            if symbol not in self.known or self.known[symbol].day < before
        }
        self._ex_tries, self._ex_due, known = 0, None, dict(self.ex_dates)
        ex_dates = await self._read_ex_dates(sorted(instruments), now)
        await self._read_histories(now)
        self.post(
            ClosesRead(
                now,
                tuple(
                    self._close_of(symbol, ex_dates.get(symbol, frozenset()))
                    for symbol in sorted(instruments)
                ),
            )
        )
        today, none = now.astimezone(EXCHANGE_TZ).date(), frozenset[date]()
        new = ((symbol, days - known.get(symbol, none)) for symbol, days in ex_dates.items())
        if late := {symbol for symbol, days in new if days and min(days) < today}:
            self.on_ex_dates(late)

    async def read_missing(self) -> None:
        """Request again those whose history could not be read."""
        wanted, now = sorted(self._missing), self.market.now()
        is_due = self._ex_due is None or now >= self._ex_due
        unread = self._unread if is_due else ()
        await self._read_histories(now)
        ex_dates = await self._read_ex_dates(unread, now) if unread else {}
        found = {symbol for symbol in wanted if symbol not in self._missing} | ex_dates.keys()
        found |= {symbol for symbol in unread if symbol not in self._unread}
        if found:
            none = frozenset[date]()
            closes = [self._close_of(each, ex_dates.get(each, none)) for each in sorted(found)]
            self.post(ClosesRead(now, tuple(closes)))
        if ex_dates:
            self.on_ex_dates(ex_dates.keys())

    def _close_of(self, symbol: str, ex_dates: frozenset[date]) -> LastClose:
        found = self.known.get(symbol, LastClose(symbol, None, _NONE))
        is_unread = symbol in self._unread
        return LastClose(symbol, found.price, found.day, found.average_volume, ex_dates, is_unread)

    async def _read_histories(self, now: datetime) -> None:
        failures = 0
        self._tell_of_read(now)  # of yesterday
        for symbol, instrument in tuple(self._missing.items()):
            if symbol not in self._missing:
                continue  # another read in the same minute has found it
            try:
                found = await self._history(instrument, now)
            except BrokerError as error:
                if symbol in self._missing:  # those not asked go first in the next minute
                    self._missing[symbol] = self._missing.pop(symbol)
                self._unread_histories.add(symbol)
                self.post(ReadHealthChanged(now, False, error.reason, _HISTORY, symbol))
                failures += 1
                if failures >= FAILURES_MAX:
                    return
                continue
            failures = 0
            self._missing.pop(symbol, None)
            self._tell_of_read(now)
            if found is not None and found.day >= self.known.get(symbol, found).day:
                self.known[symbol] = found

    def _tell_of_read(self, now: datetime) -> None:
        """Take back what was said of the histories that are not missing any more."""
        for symbol in sorted(self._unread_histories - self._missing.keys()):
            self._unread_histories.discard(symbol)
            self.post(ReadHealthChanged(now, True, "it works again", _HISTORY, symbol))

    async def _history(self, instrument: Instrument, now: datetime) -> LastClose | None:
        symbol, today = instrument.symbol, now.astimezone(EXCHANGE_TZ).date()
        query = (
            ("from", str(int((now - LOOK_BACK).timestamp()))),
            ("to", str(int(now.timestamp()))),
            ("resolution", "1D"),
        )
        history: PriceHistory = await self.client.read(
            CODECS["stock_history"], {"symbol": symbol}, query
        )
        earlier = [bar for bar in history.bars if local_date(bar.start) < today and bar.close]
        if not earlier:
            return None
        unit = price_unit(self.rulebook, instrument, [bar.close for bar in earlier if bar.close])
        close, volumes = earlier[-1].close, [int(bar.volume or 0) for bar in earlier]
        assert close is not None, "bars without a close were left out"
        price = round(close * unit)
        return LastClose(symbol, price, local_date(earlier[-1].start), sum(volumes) // len(volumes))

    async def _read_ex_dates(
        self, symbols: Sequence[str], now: datetime
    ) -> Mapping[str, frozenset[date]]:
        """Return the ex-dates of the days since the closes; empty if they cannot be read, and then
        they are requested again.
        """
        today = now.astimezone(EXCHANGE_TZ).date()
        query = (
            ("stocks", ",".join(symbols)),
            ("from_date", f"{today - EX_LOOK_BACK:%d/%m/%Y}"),
            ("to_date", f"{today:%d/%m/%Y}"),
        )
        self._ex_tries += 1
        try:
            events: Sequence[StockEvent] = await self.client.read(CODECS["earlier_news"], {}, query)
        except BrokerError as error:
            is_rare = self._ex_tries >= EX_TRIES
            self._unread, self._ex_due = tuple(symbols), now + EX_PAUSE if is_rare else None
            if self._ex_tries in {1, EX_TRIES}:
                does = "again every hour" if is_rare else "again every minute"
                text = f"the ex-dates can't be read ({error.reason}), asked {does}. Until they are "
                text += (
                    "known, a fall on one is not believed, and earlier bars stay as they are but "
                )
                text += "for ex-dates that this bot has seen itself"
                self.post(Noted(now, Note(now, "HISTORY", text)))
            self.post(ReadHealthChanged(now, False, error.reason, _EX_DATES, ""))
            return {}
        was_unread, self._unread = bool(self._unread), ()
        if was_unread:
            self.post(ReadHealthChanged(now, True, "it works again", _EX_DATES, ""))
            self.post(Noted(now, Note(now, "HISTORY", "the ex-dates are known now")))
        found: dict[str, set[date]] = {}
        for event in events:
            day = _day_or_none(event.ex_date or "")
            if day is not None:
                found.setdefault(event.stock, set()).add(day)
        known = {symbol: frozenset(days) for symbol, days in found.items()}
        self.ex_dates.update(known)
        return known

    def _last_trading_day(self, today: date) -> date:
        """Return the trading day before a day; the far past if the calendar begins after it."""
        days = (today - timedelta(days=back) for back in range(1, LOOK_BACK.days))
        return next((day for day in days if self.rulebook.calendar.is_trading_day(day)), _NONE)


def price_unit(rulebook: Rulebook, instrument: Instrument, closes: Sequence[Decimal]) -> int:
    """Return 1_000 for a history in thousands of VND, as some brokers and nodes have it.

    Whole VND are on the grid; thousands have decimals or are off it.
    """
    grid = rulebook.ticks_of(instrument)
    is_whole = all(each == int(each) and grid.is_on_grid(int(each)) for each in closes)
    return _THOUSAND if max(closes) < _THOUSAND and not is_whole else 1


def _day_or_none(text: str) -> date | None:
    """Parse `2026-11-19` or `19/11/2026`: the broker's format is not documented."""
    for form in ("%Y-%m-%d", "%d/%m/%Y"):
        try:
            return datetime.strptime(text[:10], form).date()  # noqa: DTZ007
        except ValueError:
            continue
    return None
