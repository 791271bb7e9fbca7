"""The library put together: what answers every read that is neither an order nor the exchange's."""

from collections.abc import Mapping
from datetime import datetime

from bot.protocol.values.quotes import ListedQuote
from bot.sandbox.api.gatekeeper import Gatekeeper
from bot.sandbox.house.house import House
from bot.sandbox.library.account import AccountAnswers
from bot.sandbox.library.asked import Answer
from bot.sandbox.library.corporate import CompanyEvents
from bot.sandbox.library.days import Days
from bot.sandbox.library.earlier_finance import EarlierFinance
from bot.sandbox.library.earlier_stocks import EarlierStocks
from bot.sandbox.library.etfs import Etfs
from bot.sandbox.library.financials import Financials
from bot.sandbox.library.flows import Flows
from bot.sandbox.library.funds import Funds
from bot.sandbox.library.index_answers import IndexAnswers
from bot.sandbox.library.indices import Indices
from bot.sandbox.library.market_assets import Assets
from bot.sandbox.library.news import Macro, News
from bot.sandbox.library.other_quotes import OtherQuotes
from bot.sandbox.library.screener import Screener
from bot.sandbox.library.statistics import Statistics
from bot.sandbox.library.stock_quotes import FOREIGN, StockQuotes, foreign_quote
from bot.sandbox.library.stocks import Stocks
from bot.sandbox.library.technicals import TechnicalAnswers

_DIGITS_OF_SCALE: Mapping[str, int] = {"vnd": 0, "thousand": 3}


class Library:
    """One library over one house. Nothing is made before it is asked for."""

    def __init__(self, house: House, gate: Gatekeeper) -> None:
        scenario = house.scenario
        days = Days(house.rulebook.calendar)
        self.assets = Assets(days, seed=scenario.seed, first_day=scenario.trading_day)
        self.stocks = Stocks(house, days)
        self.indices = Indices(self.stocks)
        self.flows = Flows(self.stocks)
        self.events = CompanyEvents(self.stocks, scenario.corporate_actions)
        self._house = house
        self._gate = gate

    def foreign_quote(self, symbol: str, at: datetime) -> ListedQuote | None:
        """Return the quote of a foreign share, None for what is none."""
        found = self.assets.find(FOREIGN, symbol)
        return None if found is None else foreign_quote(found, at)

    def answers(self) -> Mapping[str, Answer]:
        """Return what answers each call, by its name."""
        parts = (*self._of_quotes(), *self._of_stocks(), *self._of_others())
        return {name: answer for part in parts for name, answer in part.items()}

    def _of_quotes(self) -> tuple[Mapping[str, Answer], ...]:
        digits = _DIGITS_OF_SCALE[self._house.scenario.switches.history_scale]
        return (
            StockQuotes(self.stocks, self.assets, history_digits=digits).answers(),
            Etfs(self._house, self.stocks).answers(),
            IndexAnswers(self.stocks, self.indices, self.assets, self.flows).answers(),
        )

    def _of_stocks(self) -> tuple[Mapping[str, Answer], ...]:
        return (
            Statistics(self.stocks, self.flows, self.events).answers(),
            Screener(self.stocks, self.indices, self.flows).answers(),
            TechnicalAnswers(self.stocks).answers(),
            Financials(self.stocks).answers(),
            EarlierStocks(self._house, self.stocks, self.flows, self.events).answers(),
        )

    def _of_others(self) -> tuple[Mapping[str, Answer], ...]:
        scenario = self._house.scenario
        news = News(self.stocks.shares_only, self.events.every(), seed=scenario.seed)
        macro = Macro(seed=scenario.seed, first_day=scenario.trading_day)
        quotes = OtherQuotes(self.assets, self._house.rulebook, seed=scenario.seed)
        earlier = EarlierFinance(self.assets, quotes, macro, news)
        return (
            news.answers(),
            macro.answers(),
            quotes.answers(),
            earlier.answers(),
            Funds(self.stocks, self.indices).answers(),
            AccountAnswers(self._house, self._gate, self.stocks, self.events).answers(),
        )
