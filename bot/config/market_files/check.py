"""Checks that a recorded row is plausible: on a trading day, on the tick, within the band.

The limits are those of the rulebook for the day's reference. A check that fails raises WrongCell
with what was wanted, what was found and what to do.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

from bot.config.market_files.table import Row, WrongCell, shown
from bot.domain.instrument import BOARD_LOT, Instrument, Phase
from bot.domain.order import Side
from bot.domain.rulebook import Rulebook
from bot.domain.venue import Band
from bot.sandbox.markets.flow.day import FlowSpan
from bot.sandbox.markets.replay.data import Print, RecordedBar, place_of

_THOUSAND: Final = 1_000
_AGGRESSORS: Final = {"buy": Side.BUY, "sell": Side.SELL, "": None}
_CLOCK: Final = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?")
VOLUME_MAX: Final = 1_000_000_000
"""Shares in one row: about ten times the most that any share has traded in a day."""
_PRICES: Final = ("open", "high", "low", "close")
_AUCTIONS: Final = frozenset({Phase.OPEN, Phase.PRE_CLOSED})
DAY: Final = slice(0, 10)
CLOCK: Final = slice(11, None)
"""The two parts of a written time, like `2026-11-19 09:15`."""


@dataclass(frozen=True, slots=True)
class DayLimits:
    """What a symbol may trade at on one day; `spans` in seconds of the local day."""

    rulebook: Rulebook
    instrument: Instrument
    reference: int
    band: Band
    spans: Sequence[FlowSpan]

    def price(self, row: Row, column: str) -> int:
        """Return a price that the exchange could have quoted. Raises WrongCell."""
        price = row.whole(column)
        if not self.band.holds(price):
            low, high = f"{self.band.floor:,}", f"{self.band.ceiling:,}"
            around = f"{low} to {high} VND around the reference {self.reference:,}"
            if self.band.holds(price * _THOUSAND):
                fault = f"1,000 times too small: multiply by 1,000; wanted {around}"
            elif self.band.holds(price // _THOUSAND):
                fault = f"1,000 times too large: divide by 1,000; wanted {around}"
            else:
                hint = "if it went ex, put the day's reference into a daily file"
                message = f"{price:,} is outside the band {around}; {hint}"
                raise WrongCell(column, "E-MKT-007", message)
            raise WrongCell(column, "E-MKT-006", f"{price:,} is {fault}")
        ticks = self.rulebook.ticks_of(self.instrument)
        if not ticks.is_on_grid(price):
            tick = ticks.tick_at(price)
            message = f"{price:,} is off the tick of {tick:,} VND on {self.instrument.exchange}"
            raise WrongCell(column, "E-MKT-007", f"{message}; adjusted prices can't be replayed")
        return price

    def bar(self, row: Row, second: int) -> RecordedBar:
        """Return a bar whose prices and volume agree. Raises WrongCell."""
        opened, high, low, closed = (self.price(row, column) for column in _PRICES)
        if not low <= min(opened, closed) <= max(opened, closed) <= high:
            message = (
                f"high {high:,} and low {low:,} do not enclose open {opened:,} and close {closed:,}"
            )
            raise WrongCell("high", "E-MKT-008", message)
        return RecordedBar(second, opened, high, low, closed, volume_of(row))

    def minute(self, row: Row) -> RecordedBar:
        """Return a bar of a minute in which the exchange trades. Raises WrongCell."""
        text, second = _second_of(row)
        bar, span = self.bar(row, second), place_of(second, self.spans)
        if span is None:
            raise WrongCell("time", "E-MKT-005", self._closed(text))
        if span.phase is Phase.PRE_CLOSED and bar.high != bar.low:
            message = f"the closing auction has one price, found {bar.low:,} to {bar.high:,}"
            raise WrongCell("high", "E-MKT-008", message)
        return bar

    def trade(self, row: Row) -> Print:
        """Return a trade of a second in which the exchange trades. Raises WrongCell."""
        (text, second), price = _second_of(row), self.price(row, "price")
        aggressor = row.cells["aggressor"]
        if aggressor not in _AGGRESSORS:
            message = f"aggressor is buy, sell, or empty in an auction, found {shown(aggressor)}"
            raise WrongCell("aggressor", "E-MKT-003", message)
        side = _AGGRESSORS[aggressor]
        if not any(
            s.phase in _AUCTIONS and second == s.end
            if side is None
            else s.phase is Phase.PROGRESS and s.start <= second < s.end
            for s in self.spans
        ):
            raise WrongCell("time", "E-MKT-005", self._closed(text))
        return Print(second, price, volume_of(row), side)

    def _closed(self, text: str) -> str:
        trading = [
            f"{_clock(span.start)} to {_clock(span.end)}"
            if span.phase is Phase.PROGRESS
            else f"an auction at {_clock(span.end)}"
            for span in self.spans
            if span.phase in {Phase.PROGRESS, *_AUCTIONS}
        ]
        return f"{self.instrument.exchange} does not trade at {text}; it does: {', '.join(trading)}"


def _second_of(row: Row) -> tuple[str, int]:
    """Return the time of a row, as it is written and as a second of the day. Raises WrongCell."""
    text = row.cells["time"][CLOCK]
    found = _CLOCK.fullmatch(text)
    if found is None:
        raise WrongCell("time", "E-MKT-003", f"a time is HH:MM or HH:MM:SS, found {shown(text)}")
    hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return text, hours * 3_600 + minutes * 60 + seconds


def day_of(text: str, column: str) -> date:
    """Return a day written YYYY-MM-DD. Raises WrongCell."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        message = f"a day is YYYY-MM-DD, found {shown(text)}"
        raise WrongCell(column, "E-MKT-003", message) from None


def require_trading_day(rulebook: Rulebook, day: date, column: str) -> None:
    """Raise WrongCell when the calendar knows the day and the exchanges are closed on it."""
    if rulebook.calendar.covers(day) and not rulebook.calendar.is_trading_day(day):
        message = f"{day} ({day:%A}) is not a trading day; was the time converted to another zone?"
        raise WrongCell(column, "E-MKT-005", message)


def volume_of(row: Row) -> int:
    """Return a volume in whole lots. Raises WrongCell."""
    text = row.cells["volume"]
    if text.startswith("-"):
        wanted, found = f"at least {BOARD_LOT} shares", shown(text)
    else:
        volume = row.whole("volume")
        found = f"{volume:,}"
        if not volume or volume % BOARD_LOT:
            wanted = f"a multiple of {BOARD_LOT} shares, above 0"
        elif volume > VOLUME_MAX:
            wanted = f"at most {VOLUME_MAX:,} shares in a row"
            found += "; is it the value in VND?"
        else:
            return volume
    raise WrongCell("volume", "E-MKT-008", f"a volume is {wanted}, found {found}")


def _clock(second: int) -> str:
    return f"{second // 3_600:02}:{second // 60 % 60:02}"
