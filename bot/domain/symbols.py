"""Which symbol trades where, and since when. The exchange of a symbol is data with dates."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date

from bot.domain.errors import RuleDataError
from bot.domain.instrument import Exchange, Instrument, InstrumentKind
from bot.domain.rule_data import RuleData
from bot.domain.status import SymbolStatus

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
        """Return whether the listing covers `day`."""
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
            if earlier and not _follows(listing, earlier[-1]):
                wanted = f"dates of {symbol} after those of the row before"
                raise RuleDataError(f"line {line}", wanted, str(listing.since))
            found[symbol] = (*earlier, listing)
        return cls(found)

    def instrument(self, symbol: str, on: date) -> Instrument | None:
        """Return the symbol as it trades on a day; None when the table does not know."""
        listings = self.listings.get(symbol, ())
        return next((each.instrument for each in listings if each.holds(on)), None)

    def symbols(self, on: date) -> tuple[str, ...]:
        """Return all symbols known on a day, sorted."""
        return tuple(sorted(s for s in self.listings if self.instrument(s, on) is not None))


def _listing(row: RuleData) -> Listing:
    status = row.get("status")
    instrument = Instrument(
        _symbol(row["symbol"]),
        row["exchange"].member(Exchange),
        row["kind"].member(InstrumentKind),
        SymbolStatus.from_data(status) if status and status.value is not None else _SUPPOSED,
    )
    until = row["to"].day() if row["to"].text() else None
    listing = Listing(instrument, row["from"].day(), until, row["source"].text())
    if until is not None and until < listing.since:
        raise RuleDataError(row.place, "`to` not before `from`", str(until))
    return listing


def _symbol(entry: RuleData) -> str:
    text = entry.text()
    if not (text.isascii() and text.isalnum() and text == text.upper()):
        raise RuleDataError(entry.place, "a symbol in capitals, like FPT", text)
    return text


def _follows(listing: Listing, earlier: Listing) -> bool:
    return earlier.until is not None and earlier.until < listing.since
