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
