"""What companies decide, as events, news and rights tell it: one list for all three.

The scenario's corporate actions are in it, and made-up ones of the years before: a cash dividend
every autumn or spring, between them a meeting or a stock dividend. Those of the past went ex before
the scenario began, so its references and holdings know them already.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import Final

from bot.sandbox.house.corporate_actions import CashDividend, CorporateAction, RightsIssue
from bot.sandbox.library.days import months_before, start_of
from bot.sandbox.library.stocks import Stocks
from bot.sandbox.library.walk import stream

DIVIDEND: Final = 500
NEW_FOR_HELD: Final = (1, 10)
MEETING: Final = "SHAREHOLDER_MEETING"
_PAST: Final = 4
_HALF_YEAR: Final = 6
_PAID_AFTER: Final = 15
_TOLD_BEFORE: Final = timedelta(days=14)
_TOLD_AT: Final = timedelta(hours=9)
_CACHED_MAX: Final = 512
_BETWEEN: Final = (MEETING, "STOCK_DIVIDEND")
_KINDS: Final = {
    "cash_dividend": "CASH_DIVIDEND",
    "stock_dividend": "STOCK_DIVIDEND",
    "bonus_shares": "BONUS_SHARES",
    "rights_issue": "STOCK_RIGHT",
}


@dataclass(frozen=True, slots=True)
class CompanyEvent:
    """One decision. `kind` is the broker's word, `ratio` shares held to VND or new shares."""

    symbol: str
    kind: str
    ratio: str
    ex_date: date
    paid_on: date

    @property
    def title(self) -> str:
        """What a headline says of it."""
        said = f"{self.symbol}: {self.kind.replace('_', ' ').lower()} {self.ratio}".rstrip()
        return f"{said}, ex-date {self.ex_date.isoformat()} (made up)"

    @property
    def told_at(self) -> datetime:
        """When the news has it."""
        return start_of(self.ex_date - _TOLD_BEFORE) + _TOLD_AT


class CompanyEvents:
    """The events of every share."""

    def __init__(self, stocks: Stocks, actions: Sequence[CorporateAction]) -> None:
        self._stocks = stocks
        self._actions = actions
        self._past = lru_cache(_CACHED_MAX)(self._past_of)

    def of(self, symbol: str) -> list[CompanyEvent]:
        """Return the events of a share, newest first."""
        coming = [_event(action) for action in self._actions if action.symbol == symbol]
        return sorted((*coming, *self._past(symbol)), key=_ex_date, reverse=True)

    def past(self, symbol: str) -> tuple[CompanyEvent, ...]:
        """Return those of the years before the scenario's day, newest first."""
        return self._past(symbol)

    def every(self) -> list[CompanyEvent]:
        """Return the events of all shares."""
        return [event for symbol in self._stocks.shares_only for event in self.of(symbol)]

    def _past_of(self, symbol: str) -> tuple[CompanyEvent, ...]:
        source, days = stream(self._stocks.seed, "events", symbol), self._stocks.days
        latest = source.randrange(2, _HALF_YEAR + 2)
        found = []
        for number in range(_PAST):
            kind = source.choice(_BETWEEN) if number % 2 else "CASH_DIVIDEND"
            day = days.last(months_before(self._stocks.first_day, latest + _HALF_YEAR * number))
            ratio = {"CASH_DIVIDEND": f"1:{DIVIDEND}", MEETING: ""}.get(
                kind, f"{NEW_FOR_HELD[1]}:{NEW_FOR_HELD[0]}"
            )
            found.append(CompanyEvent(symbol, kind, ratio, day, days.before(day, -_PAID_AFTER)))
        return tuple(found)


def _event(action: CorporateAction) -> CompanyEvent:
    if isinstance(action, CashDividend):
        ratio = f"1:{action.vnd_per_share}"
    else:
        ratio = f"{action.held}:{action.new}"
        ratio += f" at {action.price}" if isinstance(action, RightsIssue) else ""
    kind = _KINDS[action.do]
    return CompanyEvent(action.symbol, kind, ratio, action.ex_date, action.pays_on)


def _ex_date(event: CompanyEvent) -> date:
    return event.ex_date
