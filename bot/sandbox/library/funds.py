"""Open-end funds: their value a unit, their months, what they hold.

A fund is valued once a trading day, for the day before. Its history ends at the value that the
quote shows; its assets are that value times its units; what it holds is a hundred percent; and how
many funds hold a stock is counted from what they hold.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Final

from bot.protocol.quotes import CURRENCY
from bot.protocol.values import funds as values
from bot.protocol.values.border import JsonValue, Unshaped
from bot.protocol.values.quotes import FundItem, FundQuote
from bot.protocol.values.series import FundHistory, NavPoint
from bot.sandbox.api.gatekeeper import not_found
from bot.sandbox.library.asked import Answer, Asked
from bot.sandbox.library.assets import Walked
from bot.sandbox.library.days import months_before, start_of
from bot.sandbox.library.figures import percent, scaled, units_of
from bot.sandbox.library.indices import DIGITS as POINT_DIGITS
from bot.sandbox.library.indices import Indices
from bot.sandbox.library.series import in_span
from bot.sandbox.library.stocks import Stocks
from bot.sandbox.library.tables import Row, table
from bot.sandbox.library.walk import EXCHANGE_HOURS, Nature, stream

DIGITS: Final = 2
BENCHMARK: Final = "VNINDEX"
_HOLDINGS_MAX: Final = 5
_MONTHS_BACK: Final[Mapping[str, int]] = {
    "ONE_MONTH": 1,
    "THREE_MONTHS": 3,
    "SIX_MONTHS": 6,
    "ONE_YEAR": 12,
    "THREE_YEARS": 36,
    "FIVE_YEARS": 60,
    "SEVEN_YEARS": 84,
    "TEN_YEARS": 120,
}
_HUNDRED: Final = Decimal(100)
_FLOW_SIZE: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Nav:
    """The value of one unit on a day, in hundredths of a VND."""

    day: date
    value: int


@dataclass(frozen=True, slots=True)
class Holding:
    """A stock in a fund, and its part of the fund in percent."""

    symbol: str
    pct: Decimal


class Funds:
    """Answers about funds."""

    def __init__(self, stocks: Stocks, indices: Indices) -> None:
        self._stocks = stocks
        self._indices = indices
        self._made: dict[str, Walked] = {}

    def answers(self) -> Mapping[str, Answer]:
        """Return what answers each call, by its name."""
        return {
            "fund_catalogue": self.catalogue,
            "fund_quote": self.quote,
            "fund_history": self.history,
            "fund_certificates": self.certificates,
            "fund_companies": self.companies,
            "fund_nav_histories": self.nav_histories,
            "fund_suggestions": self.suggestions,
            "fund_portfolio": self.portfolio,
            "fund_asset_allocation": self.asset_allocation,
            "fund_sector_allocation": self.sector_allocation,
            "fund_top_aum": self.top_assets,
            "fund_top_investor": self.top_investors,
            "fund_top_flow": self.top_flow,
            "fund_top_holdings": self.top_holdings,
            "fund_benchmark_growth": self.growth,
            "fund_benchmark_nav": self.navs_compared,
            "fund_benchmark_operation": self.operation,
        }

    # ----------------------------------------------------------------------------- values

    def _walked(self, row: Row) -> Walked:
        if (found := self._made.get(row["symbol"])) is not None:
            return found
        made = self._made[row["symbol"]] = Walked(
            symbol=f"fund {row['symbol']}",
            reference=units_of(row["nav"], DIGITS),
            nature=Nature(float(row["daily"]), 0),
            hours=EXCHANGE_HOURS,
            seed=self._stocks.seed,
            first_day=self._stocks.first_day,
            days_between=self._stocks.days.between,
        )
        return made

    def navs(self, row: Row, asked: Asked) -> list[Nav]:
        """Return the values that are out: up to the trading day before."""
        latest = self._stocks.days.before(asked.today)
        bars = self._walked(row).bars(asked.at)
        return [Nav(bar.day, bar.close) for bar in bars if bar.day <= latest]

    def _total(self, row: Row, nav: Nav) -> int:
        return int(row["units"]) * nav.value // 10**DIGITS

    def _row(self, name: str) -> Row:
        for row in table("funds"):
            if row["symbol"] == name.upper():
                return row
        raise not_found()

    # ------------------------------------------------------------------------------ quotes

    def catalogue(self, _: Asked) -> object:
        """Answer the funds."""
        companies = {row["id"]: row["name"] for row in table("fund_companies")}
        return tuple(
            FundItem(row["symbol"], row["name"], companies[row["company_id"]], row["type"], "DAILY")
            for row in table("funds")
        )

    def quote(self, asked: Asked) -> object:
        """Answer the latest value."""
        row = self._row(asked.symbol)
        *_, before, now = self.navs(row, asked)
        change = now.value - before.value
        return FundQuote(
            symbol=row["symbol"],
            nav=scaled(now.value, DIGITS),
            nav_date=now.day,
            name=row["name"],
            currency=CURRENCY,
            reference=scaled(before.value, DIGITS),
            change=scaled(change, DIGITS),
            change_percent=percent(change, before.value),
            total_nav=Decimal(self._total(row, now)),
            updated_at=asked.at,
        )

    def history(self, asked: Asked) -> object:
        """Answer the values of a span."""
        row = self._row(asked.symbol)
        found = in_span(asked, self.navs(row, asked), _day)
        points = (NavPoint(start_of(nav.day), scaled(nav.value, DIGITS)) for nav in found)
        return FundHistory(row["symbol"], tuple(points), CURRENCY)

    # ------------------------------------------------------------------------------- shelf

    def certificates(self, asked: Asked) -> object:
        """Answer the funds of a type, the best year first."""
        company = asked.text("fund-company-id")
        rows = [row for row in self._of_type(asked) if company in {None, row["company_id"]}]
        rows.sort(key=lambda row: -self._profit(row, asked, "ONE_YEAR"))
        return tuple(
            values.FundCertificate(
                int(row["id"]),
                row["symbol"],
                row["type"],
                self._total(row, self.navs(row, asked)[-1]),
                Decimal(row["rating"]),
            )
            for row in rows
        )

    def companies(self, _: Asked) -> object:
        """Answer who runs them."""
        return tuple(
            values.FundCompany(
                int(row["id"]), row["name"], row["short_name"], f"https://fund.example/{row['id']}"
            )
            for row in table("fund_companies")
        )

    def _of_type(self, asked: Asked) -> list[Row]:
        return [row for row in table("funds") if row["type"] == asked.query["fund-type"]]

    def nav_histories(self, asked: Asked) -> object:
        """Answer values beside the index of HOSE."""
        row = self._row(asked.path["fund_name"])
        closes = self._benchmark()
        records = (
            values.NavRecord(nav.day, scaled(nav.value, DIGITS), closes.get(nav.day))
            for nav in self._since(row, asked, asked.query["period"])
        )
        return values.NavHistories(tuple(records), BENCHMARK if closes else "")

    def _benchmark(self) -> Mapping[date, Decimal]:
        index = self._indices.all.get(BENCHMARK)
        bars = self._indices.bars(index) if index else []
        return {bar.day: scaled(bar.close, POINT_DIGITS) for bar in bars}

    def _since(self, row: Row, asked: Asked, period: str) -> list[Nav]:
        navs = self.navs(row, asked)
        if period == "BEGIN_THE_YEAR":
            first = navs[-1].day.replace(month=1, day=1)
        elif period in _MONTHS_BACK:
            first = months_before(navs[-1].day, _MONTHS_BACK[period])
        else:
            first = navs[0].day
        return [nav for nav in navs if nav.day >= first]

    def _profit(self, row: Row, asked: Asked, period: str) -> Decimal:
        navs = self._since(row, asked, period)
        return percent(navs[-1].value - navs[0].value, navs[0].value) or Decimal(0)

    def suggestions(self, asked: Asked) -> object:
        """Answer the other funds of its type."""
        row = self._row(asked.path["fund_name"])
        criteria = ("NET_ASSET_EQUIVALENT", "GROWTH_EQUIVALENT")
        others = (
            each for each in table("funds") if each["type"] == row["type"] and each is not row
        )
        return tuple(
            values.FundSuggestion(each["symbol"], criteria[number % 2])
            for number, each in enumerate(others)
        )

    # ---------------------------------------------------------------------------- holdings

    def holdings(self, row: Row) -> list[Holding]:
        """Return the stocks of a fund; their parts add up to its part in stocks."""
        source = stream(self._stocks.seed, "holdings", row["symbol"])
        listed = self._stocks.shares_only
        chosen = sorted(source.sample(listed, min(_HOLDINGS_MAX, len(listed))))
        whole = Decimal(row["stock_pct"])
        if not whole or not chosen:
            return []
        weights = [source.randrange(1, 10) for _ in chosen]
        parts = [
            (whole * weight / sum(weights)).quantize(Decimal("0.01")) for weight in weights[:-1]
        ]
        return list(map(Holding, chosen, [*parts, whole - sum(parts)]))

    def portfolio(self, asked: Asked) -> object:
        """Answer what a fund holds; with cash and bonds it is a hundred percent."""
        row = self._row(asked.path["fund_name"])
        return Unshaped(
            [{"symbol": each.symbol, "percent": each.pct} for each in self.holdings(row)]
        )

    def asset_allocation(self, asked: Asked) -> object:
        """Answer stocks, bonds and cash."""
        row = self._row(asked.path["fund_name"])
        stock = sum((each.pct for each in self.holdings(row)), Decimal(0))
        bond = Decimal(row["bond_pct"])
        parts = {"STOCK": stock, "BOND": bond, "CASH": _HUNDRED - stock - bond}
        return Unshaped([{"type": kind, "percent": part} for kind, part in parts.items()])

    def sector_allocation(self, asked: Asked) -> object:
        """Answer the stocks by sector."""
        row, found = self._row(asked.path["fund_name"]), dict[str, Decimal]()
        for each in self.holdings(row):
            sector = self._stocks.facts[each.symbol].sector
            found[sector] = found.get(sector, Decimal(0)) + each.pct
        return Unshaped([{"sector": slug, "percent": part} for slug, part in found.items()])

    def top_holdings(self, _: Asked) -> object:
        """Answer how many funds hold each stock, the most first."""
        held = [each.symbol for row in table("funds") for each in self.holdings(row)]
        symbols = sorted(set(held), key=lambda symbol: (-held.count(symbol), symbol))
        return tuple(values.HeldSymbol(symbol, held.count(symbol)) for symbol in symbols)

    # ------------------------------------------------------------------------------ months

    def top_assets(self, asked: Asked) -> object:
        """Answer the assets of the funds of a type, the greatest first."""
        found = [
            values.FundAssets(row["symbol"], _month(nav), self._total(row, nav))
            for row in self._of_type(asked)
            for nav in self.navs(row, asked)[-1:]
        ]
        return tuple(sorted(found, key=lambda each: -(each.aum or 0)))

    def top_investors(self, asked: Asked) -> object:
        """Answer how many hold each fund of a type, the most first."""
        rows = sorted(self._of_type(asked), key=lambda row: -int(row["investors"]))
        return tuple(
            values.FundInvestors(row["symbol"], _month(nav), int(row["investors"]))
            for row in rows
            for nav in self.navs(row, asked)[-1:]
        )

    def top_flow(self, asked: Asked) -> object:
        """Answer the month's money: what came in less what went out."""
        found = [
            self._flow(row, _month(nav))
            for row in self._of_type(asked)
            for nav in self.navs(row, asked)[-1:]
        ]
        return tuple(sorted(found, key=lambda each: -(each.fund_flow or 0)))

    def _flow(self, row: Row, month: str) -> values.FundFlow:
        source = stream(self._stocks.seed, "flow", row["symbol"], month)
        came, went = (source.randrange(1, 90) * _FLOW_SIZE for _ in range(2))
        return values.FundFlow(row["symbol"], month, came - went, came, went)

    # --------------------------------------------------------------------------- comparing

    def _compared(self, asked: Asked) -> Iterable[Row]:
        return [self._row(name) for name in dict.fromkeys(asked.items("fund-names"))]

    def growth(self, asked: Asked) -> object:
        """Answer what an amount would have become."""
        amount, period = asked.whole("amount"), asked.query["period"]
        profits = {row["symbol"]: self._profit(row, asked, period) for row in self._compared(asked)}
        return tuple(
            values.FundGrowth(name, profit, int(amount * (_HUNDRED + profit) / _HUNDRED))
            for name, profit in profits.items()
        )

    def navs_compared(self, asked: Asked) -> object:
        """Answer values of a period or of whole months, with the change since the first."""
        return tuple(
            values.FundNavs(row["symbol"], tuple(_changes(self._asked_for(row, asked))))
            for row in self._compared(asked)
        )

    def _asked_for(self, row: Row, asked: Asked) -> Sequence[Nav]:
        if (period := asked.text("period")) is not None:
            return self._since(row, asked, period)
        first, last = asked.query["from-month"], asked.query["to-month"]
        if last < first:
            raise asked.bad("to-month: before from-month")
        return [nav for nav in self.navs(row, asked) if first <= _month(nav) <= last]

    def operation(self, asked: Asked) -> object:
        """Answer assets and investors beside each other."""
        rows: list[JsonValue] = [
            {
                "fund_name": row["symbol"],
                "aum": self._total(row, self.navs(row, asked)[-1]),
                "investors": int(row["investors"]),
            }
            for row in self._compared(asked)
        ]
        return Unshaped(rows)


def _changes(navs: Sequence[Nav]) -> Iterable[values.NavChange]:
    for nav in navs:
        change = percent(nav.value - navs[0].value, navs[0].value)
        yield values.NavChange(nav.day, scaled(nav.value, DIGITS), change)


def _day(nav: Nav) -> date:
    return nav.day


def _month(nav: Nav) -> str:
    return nav.day.strftime("%Y-%m")
