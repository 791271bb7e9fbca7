"""What companies decide: one list for their events, the news and the rights of shareholders.

The scenario's corporate actions are in it, and made-up ones of the years before: a cash dividend
every autumn or spring, between them a meeting or a stock dividend. Those of the past went ex before
the scenario began, so its references and holdings know them already.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import Final

from bot.sandbox.house.corporate_actions import KINDS, CorporateAction, RightsIssue
from bot.sandbox.library.days import months_before, start_of
from bot.sandbox.library.stocks import Stocks
from bot.sandbox.library.walk import stream

DIVIDEND: Final = 500
MEETING: Final = "SHAREHOLDER_MEETING"
_PAST: Final = 4
_HALF_YEAR: Final = 6
_PAID_AFTER: Final = 15
_NEWS_BEFORE: Final = timedelta(days=14)
_NEWS_AT: Final = timedelta(hours=9)
_CACHED_MAX: Final = 512
_RATIOS: Final = {"CASH_DIVIDEND": f"1:{DIVIDEND}", MEETING: "", "STOCK_DIVIDEND": "10:1"}
_BETWEEN: Final = (MEETING, "STOCK_DIVIDEND")


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
        event = f"{self.symbol}: {self.kind.replace('_', ' ').lower()} {self.ratio}".rstrip()
        return f"{event}, ex-date {self.ex_date.isoformat()} (made up)"

    @property
    def announced_at(self) -> datetime:
        return start_of(self.ex_date - _NEWS_BEFORE) + _NEWS_AT


class CompanyEvents:
    def __init__(self, stocks: Stocks, actions: Sequence[CorporateAction]) -> None:
        self._stocks = stocks
        self._actions = actions
        self.past = lru_cache(_CACHED_MAX)(self._past)

    def of(self, symbol: str) -> list[CompanyEvent]:
        """Return the events of a share, newest first."""
        coming = [_event(action) for action in self._actions if action.symbol == symbol]
        every = (*coming, *self.past(symbol))
        return sorted(every, key=lambda event: event.ex_date, reverse=True)

    def every(self) -> list[CompanyEvent]:
        return [event for symbol in self._stocks.shares_only for event in self.of(symbol)]

    def _past(self, symbol: str) -> tuple[CompanyEvent, ...]:
        """Those of the years before the scenario's day, newest first."""
        source, days = stream(self._stocks.seed, "events", symbol), self._stocks.days
        latest = source.randrange(2, _HALF_YEAR + 2)
        found = []
        for number in range(_PAST):
            kind = source.choice(_BETWEEN) if number % 2 else "CASH_DIVIDEND"
            day = days.last(months_before(self._stocks.first_day, latest + _HALF_YEAR * number))
            paid_on = days.before(day, -_PAID_AFTER)
            found.append(CompanyEvent(symbol, kind, _RATIOS[kind], day, paid_on))
        return tuple(found)


def _event(action: CorporateAction) -> CompanyEvent:
    price = f" at {action.price}" if isinstance(action, RightsIssue) else ""
    kind, ratio = KINDS[action.do].value, f"{action.ratio}{price}"
    return CompanyEvent(action.symbol, kind, ratio, action.ex_date, action.pays_on)
