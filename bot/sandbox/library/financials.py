"""Company reports, invented but consistent.

net profit of a year = eps x shares              four quarters = their year
revenue - cost = gross profit                    assets = liabilities + equity
operating + investing + financing = change of cash
"""

from dataclasses import dataclass, fields
from datetime import date
from decimal import Decimal
from functools import lru_cache
from typing import Final

from bot.protocol.values import financials as values
from bot.sandbox.exchange.accounts import share
from bot.sandbox.library.answer import Asked, ratio, rounded
from bot.sandbox.library.stocks import Facts, Stocks
from bot.sandbox.library.walk import start_of, stream

YEARS: Final = 5
QUARTERS: Final = 4
_CACHED_MAX: Final = 64
_BANKS: Final = "financials"
_LINK: Final = "https://reports.example/"
_BOOK_GROWTH: Final = 1.07
_REPORTED: Final = ((4, 30), (7, 30), (10, 30))
"""Month and day by which the current year's quarters are reported, thirty days after each."""


@dataclass(frozen=True, slots=True)
class FiscalPeriod:
    """A year or a quarter; amounts in VND."""

    year: int
    quarter: int | None
    revenue: int
    cost: int
    profit: int
    equity: int
    liabilities: int
    operating_cash: int
    investing_cash: int
    financing_cash: int


_FLOWS: Final = tuple(
    field.name
    for field in fields(FiscalPeriod)
    if field.name not in {"year", "quarter", "equity", "liabilities"}
)
"""The fields that add up over a year; the others are as of its end."""


class Financials:
    """Answers about companies; raise HttpRefusal 404 for an unknown one."""

    def __init__(self, stocks: Stocks) -> None:
        self._stocks = stocks
        self._cached = lru_cache(_CACHED_MAX)(self._reported)

    def _periods(self, asked: Asked) -> tuple[FiscalPeriod, ...]:
        """The reports of a company by year or quarter, newest first."""
        years, quarters = self._cached(self._stocks.known(asked.symbol))
        return years if asked.query["period"] == "annual" else quarters

    def _reported(self, symbol: str) -> tuple[tuple[FiscalPeriod, ...], tuple[FiscalPeriod, ...]]:
        facts, today = self._stocks.fact(symbol), self._stocks.first_day
        now = self._quarters(symbol, self._year(symbol, facts, today.year, -1))
        last = today.year - 1
        years = tuple(self._year(symbol, facts, last - back, back) for back in range(YEARS))
        quarters = (self._quarters(symbol, year) for year in years)
        over = now[: sum(today >= date(today.year, *day) for day in _REPORTED)]
        known = (quarter for four in (over, *quarters) for quarter in reversed(four))
        return years, tuple(known)

    def _year(self, symbol: str, facts: Facts, year: int, back: int) -> FiscalPeriod:
        """Invent a year, this many before the last finished one."""
        source = stream(self._stocks.seed, "report", symbol, year)
        profit = facts.eps * facts.shares
        if back:
            profit = round(profit / source.uniform(1.03, 1.12) ** back)
        revenue = round(profit / source.uniform(0.08, 0.25))
        equity = round(facts.book_value * facts.shares / _BOOK_GROWTH**back)
        operating = round(profit * source.uniform(0.8, 1.4))
        investing = -round(operating * source.uniform(0.3, 0.8))
        return FiscalPeriod(
            year,
            None,
            revenue,
            round(revenue * source.uniform(0.6, 0.8)),
            profit,
            equity,
            round(equity * source.uniform(0.4, 1.5)),
            operating,
            investing,
            round(investing * source.uniform(-0.3, 0.3)),
        )

    def _quarters(self, symbol: str, year: FiscalPeriod) -> tuple[FiscalPeriod, ...]:
        """Split a year into four quarters that add up to it; year-end figures grow
        towards theirs.
        """
        source = stream(self._stocks.seed, "quarters", symbol, year.year)
        cut: dict[str, list[int]] = {}
        for name in _FLOWS:
            total, part = getattr(year, name), source.uniform(0.2, 0.3)
            parts = [round(total * part * weight) for weight in (0.95, 1.0, 1.05)]
            cut[name] = [*parts, total - sum(parts)]
        return tuple(
            FiscalPeriod(
                year.year,
                number,
                equity=share(year.equity, 92 + 2 * number, 100),
                liabilities=share(year.liabilities, 92 + 2 * number, 100),
                **{name: parts[number - 1] for name, parts in cut.items()},
            )
            for number in range(1, QUARTERS + 1)
        )

    def financial_analysis(self, asked: Asked) -> object:
        facts = self._stocks.fact(asked.symbol)
        periods = self._periods(asked)
        return tuple(
            values.MetricsRow(each.year, each.quarter, _ratios(each, facts)) for each in periods
        )

    def financial_statement(self, asked: Asked) -> object:
        rows = []
        for period in self._periods(asked)[: asked.whole("limit")]:
            lines = _statement(period, asked.query["type"])
            figures = {name: Decimal(value) for name, value in lines.items()}
            rows.append(values.MetricsRow(period.year, period.quarter, figures))
        return tuple(rows)

    def financial_overview(self, asked: Asked) -> object:
        """Answer today's ratios: last year's figures at the present price."""
        symbol = asked.symbol
        facts, price = self._stocks.fact(symbol), self._stocks.price(symbol)
        year = self._cached(symbol)[0][0]
        own = _ratios(year, facts)
        is_bank = facts.sector == _BANKS
        return values.FinancialOverview(
            pe=ratio(price, facts.eps),
            pb=ratio(price, facts.book_value),
            ev_ebitda=None if is_bank else ratio(facts.shares * price, year.profit * 1.5),
            industry=self._industry(facts.sector),
            gross_margin=own["gross_margin"],
            roe=own["roe"],
            roa=own["roa"],
            eps=Decimal(facts.eps),
            dividend_yield=rounded(0.02, 4),
            nim=rounded(0.045, 4) if is_bank else None,
        )

    def _industry(self, sector: str) -> values.IndustryRatios:
        facts = self._stocks.facts
        peers = [each for each in self._stocks.shares_only if facts[each].sector == sector]
        prices = sum(self._stocks.price(each) / facts[each].eps for each in peers)
        books = sum(self._stocks.price(each) / facts[each].book_value for each in peers)
        return values.IndustryRatios(
            ratio(prices, len(peers)), ratio(books, len(peers)), rounded(9, 2)
        )

    def recommendation_reports(self, asked: Asked) -> object:
        """Answer a report for every second stock, and nothing for the rest."""
        script = self._stocks.scripts[self._stocks.known(asked.symbol)]
        if list(self._stocks.scripts).index(script.symbol) % 2:
            return values.Recommendations()
        written = start_of(self._stocks.days.before(self._stocks.first_day, 12))
        report = values.RecommendationReport(
            stock=script.symbol,
            title=f"{script.symbol}: made-up report",
            source="sandbox",
            recommendation_price=Decimal(script.reference),
            target_price=Decimal(script.reference * 115 // 100 // 100 * 100),
            publish_date=written,
            description="Made up.",
            download_url=f"{_LINK}{script.symbol}.pdf",
            created_at=written,
            updated_at=written,
        )
        return values.Recommendations("Mua", (report,))


def _ratios(period: FiscalPeriod, facts: Facts) -> dict[str, Decimal]:
    assets = period.equity + period.liabilities
    found = {
        "eps": rounded(period.profit / facts.shares, 2),
        "bvps": rounded(period.equity / facts.shares, 2),
        "roe": ratio(period.profit, period.equity, 4),
        "roa": ratio(period.profit, assets, 4),
        "gross_margin": ratio(period.revenue - period.cost, period.revenue, 4),
        "net_margin": ratio(period.profit, period.revenue, 4),
        "debt_to_equity": ratio(period.liabilities, period.equity, 4),
    }
    return {name: value for name, value in found.items() if value is not None}


def _statement(period: FiscalPeriod, kind: str) -> dict[str, int]:
    if kind == "income-statement":
        gross = period.revenue - period.cost
        return {
            "revenue": period.revenue,
            "cost_of_goods_sold": period.cost,
            "gross_profit": gross,
            "other_expenses": gross - period.profit,
            "net_profit": period.profit,
        }
    if kind == "balance-sheet":
        return {
            "total_assets": period.equity + period.liabilities,
            "total_liabilities": period.liabilities,
            "equity": period.equity,
        }
    parts = (period.operating_cash, period.investing_cash, period.financing_cash)
    return {
        "operating_cash_flow": parts[0],
        "investing_cash_flow": parts[1],
        "financing_cash_flow": parts[2],
        "net_change_in_cash": sum(parts),
    }
