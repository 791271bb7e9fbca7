"""What is traded, where and since when, and in which phase of its trading day.

The names are the broker's and the exchanges' own, so that a value read from the wire, a row of the
journal and a line on the screen say the same word.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Final
from zoneinfo import ZoneInfo

from bot.domain.errors import RuleDataError
from bot.domain.rule_data import RuleData
from bot.domain.status import NORMAL, SymbolStatus

EXCHANGE_TZ: Final = ZoneInfo("Asia/Ho_Chi_Minh")
"""UTC+7 all year. Local time appears only in the calendar and on screens."""


class Exchange(StrEnum):
    """A trading venue. HCX is the corporate-bond venue of HNX, not commodities."""

    HOSE = "HOSE"
    HNX = "HNX"
    UPCOM = "UPCOM"
    HCX = "HCX"


class InstrumentKind(StrEnum):
    """The group that decides tick size and band."""

    STOCK = "STOCK"
    CLOSED_END_FUND = "CLOSED_END_FUND"
    ETF = "ETF"
    CW = "CW"
    BOND = "BOND"


class Phase(StrEnum):
    """The phase of an exchange's trading day (the broker's `exchange_session`)."""

    OPEN = "OPEN"
    PROGRESS = "PROGRESS"
    BREAK = "BREAK"
    PRE_CLOSED = "PRE_CLOSED"
    POST_SESSION = "POST_SESSION"
    PUT_THROUGH = "PUT_THROUGH"
    CA = "CA"
    CLOSED = "CLOSED"


PHASE_WORDS: Final = {
    Phase.OPEN: "opening auction (ATO)",
    Phase.PROGRESS: "continuous",
    Phase.BREAK: "lunch break",
    Phase.PRE_CLOSED: "closing auction (ATC)",
    Phase.POST_SESSION: "post-close (PLO)",
    Phase.PUT_THROUGH: "negotiated only",
    Phase.CA: "periodic auction",
    Phase.CLOSED: "closed",
}
"""What a trader calls each phase: the one word for it on every screen."""


BOARD_LOT: Final = 100
"""Shares of a round lot on all three exchanges. Fewer are an odd lot, in a book of its own."""


class Lot(StrEnum):
    """EVEN is a multiple of the board lot; ODD is 1 to 99 shares, LIMIT only, in its own book."""

    EVEN = "EVEN"
    ODD = "ODD"


@dataclass(frozen=True, slots=True)
class Instrument:
    """A symbol, the exchange where it trades today, and its status there: data with dates."""

    symbol: str
    exchange: Exchange
    kind: InstrumentKind = InstrumentKind.STOCK
    status: SymbolStatus = NORMAL


_SUPPOSED = SymbolStatus(is_known=False)


@dataclass(frozen=True, slots=True)
class Listing:
    """A symbol on one exchange, `since` and `until` inclusive; `until` None: still there.

    `source` says how that is known; `since` is where it begins, not always the listing day.
    """

    instrument: Instrument
    since: date
    until: date | None
    source: str

    def holds(self, day: date) -> bool:
        return self.since <= day and (self.until is None or day <= self.until)


@dataclass(frozen=True, slots=True)
class SymbolTable:
    """Listings by symbol, in order of time. The broker's word of the morning outranks it."""

    listings: Mapping[str, tuple[Listing, ...]]

    @classmethod
    def from_rows(cls, rows: Iterable[Mapping[str, str]]) -> "SymbolTable":
        """Read rows of `symbol, exchange, kind, from, to, source` and perhaps `status`.

        An empty `to` means still there; `status` holds codes like `RES/SUS`, empty is normal. A
        table without that column knows no status, and normal is supposed.
        Raises RuleDataError, which names the line of the row under a header of one line, also when
        two rows claim one day.
        """
        found: dict[str, tuple[Listing, ...]] = {}
        for line, row in enumerate(rows, start=2):
            listing = _listing(RuleData(row, f"line {line}"))
            symbol = listing.instrument.symbol
            earlier = found.get(symbol, ())
            ended = earlier[-1].until if earlier else date.min
            if ended is None or listing.since <= ended:
                wanted = f"dates of {symbol} after those of the row before"
                raise RuleDataError(f"line {line}", wanted, str(listing.since))
            found[symbol] = (*earlier, listing)
        return cls(found)

    def instrument(self, symbol: str, on: date) -> Instrument | None:
        """Return the symbol as it trades on a day; None when the table does not know."""
        listings = self.listings.get(symbol, ())
        return next((each.instrument for each in listings if each.holds(on)), None)

    def symbols(self, on: date) -> tuple[str, ...]:
        return tuple(sorted(s for s in self.listings if self.instrument(s, on) is not None))


def _listing(row: RuleData) -> Listing:
    symbol, status = row["symbol"].text(), row.get("status")
    if not (symbol.isascii() and symbol.isalnum() and symbol == symbol.upper()):
        raise RuleDataError(row["symbol"].place, "a symbol in capitals, like FPT", symbol)
    instrument = Instrument(
        symbol,
        row["exchange"].member(Exchange),
        row["kind"].member(InstrumentKind),
        SymbolStatus.from_data(status) if status and status.value is not None else _SUPPOSED,
    )
    since, until = row["from"].day(), row["to"].day() if row["to"].text() else None
    if until is not None and until < since:
        raise RuleDataError(row.place, "`to` not before `from`", str(until))
    return Listing(instrument, since, until, row["source"].text())
