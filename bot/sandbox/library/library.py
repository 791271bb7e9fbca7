"""Assembles the library: answers every read that concerns neither orders nor the exchanges."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from bot.protocol.values.quotes import ListedQuote
from bot.sandbox.api.call import by_endpoint
from bot.sandbox.api.gatekeeper import Gatekeeper
from bot.sandbox.house.house import House
from bot.sandbox.library.account import AccountAnswers
from bot.sandbox.library.answer import Answer
from bot.sandbox.library.assets import Assets
from bot.sandbox.library.earlier_finance import EarlierFinance
from bot.sandbox.library.financials import Financials
from bot.sandbox.library.flows import Flows
from bot.sandbox.library.funds import Funds
from bot.sandbox.library.index_answers import IndexAnswers
from bot.sandbox.library.indices import Indices
from bot.sandbox.library.news import Macro, News
from bot.sandbox.library.other_quotes import OtherQuotes
from bot.sandbox.library.screener import Screener
from bot.sandbox.library.statistics import Statistics
from bot.sandbox.library.stock_quotes import (
    FOREIGN,
    EarlierStocks,
    Etfs,
    StockQuotes,
    foreign_quote,
)
from bot.sandbox.library.stocks import CompanyEvents, Stocks
from bot.sandbox.library.technicals import TechnicalAnswers
from bot.sandbox.library.walk import Days

_DIGITS_OF_SCALE: Final[Mapping[str, int]] = {"vnd": 0, "thousand": 3}


class Library:
    """The library of one house. Everything is created on first use."""

    def __init__(self, house: House, gate: Gatekeeper) -> None:
        scenario = house.scenario
        days = Days(house.rulebook.calendar)
        self.assets = Assets(days, seed=scenario.seed, first_day=scenario.trading_day)
        self.stocks = Stocks(house, days)
        self.indices = Indices(self.stocks)
        self._gate = gate

    def foreign_quote(self, symbol: str, at: datetime) -> ListedQuote | None:
        found = self.assets.find(FOREIGN, symbol)
        return None if found is None else foreign_quote(found, at)

    def answers(self) -> Mapping[str, Answer]:
        house, stocks, indices, assets = self.stocks.house, self.stocks, self.indices, self.assets
        scenario, rulebook = house.scenario, house.rulebook
        flows = Flows(stocks)
        events = CompanyEvents(stocks, scenario.corporate_actions)
        news = News(stocks.shares_only, events.every(), seed=scenario.seed)
        macro = Macro(seed=scenario.seed, first_day=scenario.trading_day)
        quotes = OtherQuotes(assets, rulebook, scenario.seed)
        return by_endpoint(
            StockQuotes(stocks, assets, _DIGITS_OF_SCALE[scenario.switches.history_scale]),
            Etfs(stocks),
            IndexAnswers(stocks, indices, assets, flows),
            Statistics(stocks, flows, events),
            Screener(stocks, indices, flows),
            TechnicalAnswers(stocks),
            Financials(stocks),
            EarlierStocks(stocks, flows, events),
            news,
            macro,
            quotes,
            EarlierFinance(assets, quotes, macro, news),
            Funds(stocks, indices),
            AccountAnswers(house, self._gate, stocks, events),
        )
