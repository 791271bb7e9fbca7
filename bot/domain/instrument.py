"""What is traded, on which exchange and since when, and the phases of its trading day.

The names are the broker's and the exchanges' own, so that wire, journal and screen use the same
words.
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
"""What traders call each phase; every screen uses these words."""


BOARD_LOT: Final = 100
"""Shares of a round lot on HOSE, HNX and UPCOM (Vietnam Exchange Decision 17/QĐ-HĐTV; HOSE 352).
Fewer are an odd lot, traded in a separate book.
"""


class Lot(StrEnum):
    """EVEN is a multiple of the board lot; ODD is 1 to 99 shares, LIMIT only, in a
    separate book.
    """

    EVEN = "EVEN"
    ODD = "ODD"


@dataclass(frozen=True, slots=True)
class Instrument:
    """A symbol, the exchange where it trades today, and its status there; all dated data."""

    symbol: str
    exchange: Exchange
    kind: InstrumentKind = InstrumentKind.STOCK
    status: SymbolStatus = NORMAL


_SUPPOSED = SymbolStatus(is_known=False)


@dataclass(frozen=True, slots=True)
class Listing:
    """A symbol on one exchange, `since` and `until` inclusive; `until` None: still listed.

    `source` says how this is known; `since` is the first day known, not always the listing day.
    """

    instrument: Instrument
    since: date
    until: date | None
    source: str

    def holds(self, day: date) -> bool:
        return self.since <= day and (self.until is None or day <= self.until)


@dataclass(frozen=True, slots=True)
class SymbolTable:
    """Listings by symbol, oldest first. What the broker says in the morning takes precedence."""

    listings: Mapping[str, tuple[Listing, ...]]

    @classmethod
    def from_rows(cls, rows: Iterable[Mapping[str, str]]) -> "SymbolTable":
        """Read rows of `symbol, exchange, kind, from, to, source` and optionally `status`.

        An empty `to` means still listed; `status` holds codes like `RES/SUS`, empty is normal.
        Without that column the status is unknown and assumed to be normal. Raises RuleDataError
        with the row's line number (below a one-line header), also when two rows cover the same day.
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
        """Return the symbol as it trades on a day; None if the table does not list it."""
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
