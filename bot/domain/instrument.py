"""What is traded, where, and in which phase of its trading day.

The names are the broker's and the exchanges' own, so that a value read from the wire, a row of the
journal and a line on the screen say the same word.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from zoneinfo import ZoneInfo

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
