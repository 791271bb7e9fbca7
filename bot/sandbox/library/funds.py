"""Open-end funds: their value a unit, their months, what they hold.

A fund is valued once a trading day, for the day before. Its history ends at the quote's value; its
assets are that value times its units; its holdings add up to 100 %; and the number of funds that
hold a stock is counted from these holdings.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import Final

from bot.protocol.quotes import CURRENCY
from bot.protocol.values import funds as values
from bot.protocol.values.border import JsonValue, Unshaped
from bot.protocol.values.quotes import FundItem, FundQuote
from bot.protocol.values.series import FundHistory, NavPoint
from bot.sandbox.api.gatekeeper import not_found
from bot.sandbox.library.answer import Asked, in_span, percent, scaled, units_of
from bot.sandbox.library.assets import Asset
from bot.sandbox.library.indices import DIGITS as POINT_DIGITS
from bot.sandbox.library.indices import Indices
from bot.sandbox.library.stocks import Stocks
from bot.sandbox.library.walk import (
    EXCHANGE_HOURS,
    Nature,
    Row,
    months_before,
    start_of,
    stream,
    table,
)

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
_CRITERIA: Final = ("NET_ASSET_EQUIVALENT", "GROWTH_EQUIVALENT")


@dataclass(frozen=True, slots=True)
class Nav:
    """The value of one unit on a day, in hundredths of a VND."""

    day: date
    value: int

    @property
    def month(self) -> str:
        return self.day.strftime("%Y-%m")


@dataclass(frozen=True, slots=True)
class Funds:
    stocks: Stocks
    indices: Indices
    _walks: dict[str, Asset] = field(default_factory=dict)

    def _navs(self, row: Row, asked: Asked) -> list[Nav]:
        """The published values: up to the previous trading day."""
        symbol, latest = row["symbol"], self.stocks.days.before(asked.today)
        if symbol not in self._walks:
            self._walks[symbol] = Asset(
                row,
                stream_name=f"fund {symbol}",
                digits=DIGITS,
                reference=units_of(row["nav"], DIGITS),
                nature=Nature(float(row["daily"]), 0),
                hours=EXCHANGE_HOURS,
                seed=self.stocks.seed,
                first_day=self.stocks.first_day,
                days_between=self.stocks.days.between,
            )
        bars = self._walks[symbol].bars(asked.at)
        return [Nav(bar.day, bar.close) for bar in bars if bar.day <= latest]

    def _since(self, row: Row, asked: Asked, period: str) -> list[Nav]:
        navs = self._navs(row, asked)
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

    def _latest(self, asked: Asked) -> list[tuple[Row, Nav]]:
        """The funds of the requested type, each with its latest value."""
        rows = (row for row in table("funds") if row["type"] == asked.query["fund-type"])
        return [(row, nav) for row in rows for nav in self._navs(row, asked)[-1:]]

    def fund_catalogue(self, _: Asked) -> object:
        companies = {row["id"]: row["name"] for row in table("fund_companies")}
        return tuple(
            FundItem(row["symbol"], row["name"], companies[row["company_id"]], row["type"], "DAILY")
            for row in table("funds")
        )

    def fund_quote(self, asked: Asked) -> object:
        row = _row(asked.symbol)
        *_, before, now = self._navs(row, asked)
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
            total_nav=Decimal(_total(row, now)),
            updated_at=asked.at,
        )

    def fund_history(self, asked: Asked) -> object:
        row = _row(asked.symbol)
        found = in_span(asked, self._navs(row, asked), lambda nav: nav.day)
        points = (NavPoint(start_of(nav.day), scaled(nav.value, DIGITS)) for nav in found)
        return FundHistory(row["symbol"], tuple(points), CURRENCY)

    def fund_certificates(self, asked: Asked) -> object:
        """Answer the funds of a type, the best year first."""
        company = asked.text("fund-company-id")
        found = [(row, n) for row, n in self._latest(asked) if company in {None, row["company_id"]}]
        found.sort(key=lambda each: -self._profit(each[0], asked, "ONE_YEAR"))
        return tuple(
            values.FundCertificate(
                int(row["id"]), row["symbol"], row["type"], _total(row, nav), Decimal(row["rating"])
            )
            for row, nav in found
        )

    def fund_companies(self, _: Asked) -> object:
        return tuple(
            values.FundCompany(
                int(row["id"]), row["name"], row["short_name"], f"https://fund.example/{row['id']}"
            )
            for row in table("fund_companies")
        )

    def fund_nav_histories(self, asked: Asked) -> object:
        """Answer values beside the index of HOSE."""
        row, index = _row(asked.path["fund_name"]), self.indices.all.get(BENCHMARK)
        bars = self.indices.bars(index) if index else []
        closes = {bar.day: scaled(bar.close, POINT_DIGITS) for bar in bars}
        records = (
            values.NavRecord(nav.day, scaled(nav.value, DIGITS), closes.get(nav.day))
            for nav in self._since(row, asked, asked.query["period"])
        )
        return values.NavHistories(tuple(records), BENCHMARK if closes else "")

    def fund_suggestions(self, asked: Asked) -> object:
        row = _row(asked.path["fund_name"])
        others = [one for one in table("funds") if one["type"] == row["type"] and one is not row]
        return tuple(
            values.FundSuggestion(each["symbol"], _CRITERIA[number % 2])
            for number, each in enumerate(others)
        )

    def _holdings(self, row: Row) -> list[tuple[str, Decimal]]:
        """The stocks of a fund with their percentages, which add up to its share in stocks."""
        source = stream(self.stocks.seed, "holdings", row["symbol"])
        listed = self.stocks.shares_only
        chosen = sorted(source.sample(listed, min(_HOLDINGS_MAX, len(listed))))
        whole = Decimal(row["stock_pct"])
        if not whole or not chosen:
            return []
        weights = [source.randrange(1, 10) for _ in chosen]
        parts = [
            (whole * weight / sum(weights)).quantize(Decimal("0.01")) for weight in weights[:-1]
        ]
        return list(zip(chosen, [*parts, whole - sum(parts)], strict=True))

    def fund_portfolio(self, asked: Asked) -> object:
        """Answer what a fund holds; with cash and bonds it is a hundred percent."""
        holdings = self._holdings(_row(asked.path["fund_name"]))
        return Unshaped([{"symbol": symbol, "percent": part} for symbol, part in holdings])

    def fund_asset_allocation(self, asked: Asked) -> object:
        row = _row(asked.path["fund_name"])
        stock = sum((part for _, part in self._holdings(row)), Decimal(0))
        bond = Decimal(row["bond_pct"])
        parts = {"STOCK": stock, "BOND": bond, "CASH": _HUNDRED - stock - bond}
        return Unshaped([{"type": kind, "percent": part} for kind, part in parts.items()])

    def fund_sector_allocation(self, asked: Asked) -> object:
        row, found = _row(asked.path["fund_name"]), dict[str, Decimal]()
        for symbol, part in self._holdings(row):
            sector = self.stocks.facts[symbol].sector
            found[sector] = found.get(sector, Decimal(0)) + part
        return Unshaped([{"sector": slug, "percent": part} for slug, part in found.items()])

    def fund_top_holdings(self, _: Asked) -> object:
        """Answer how many funds hold each stock, the most first."""
        held = [symbol for row in table("funds") for symbol, _ in self._holdings(row)]
        symbols = sorted(set(held), key=lambda symbol: (-held.count(symbol), symbol))
        return tuple(values.HeldSymbol(symbol, held.count(symbol)) for symbol in symbols)

    def fund_top_aum(self, asked: Asked) -> object:
        """Answer the assets of the funds of a type, the greatest first."""
        found = [
            values.FundAssets(row["symbol"], nav.month, _total(row, nav))
            for row, nav in self._latest(asked)
        ]
        return tuple(sorted(found, key=lambda each: -(each.aum or 0)))

    def fund_top_investor(self, asked: Asked) -> object:
        """Answer how many hold each fund of a type, the most first."""
        found = [
            values.FundInvestors(row["symbol"], nav.month, int(row["investors"]))
            for row, nav in self._latest(asked)
        ]
        return tuple(sorted(found, key=lambda each: -(each.investors or 0)))

    def fund_top_flow(self, asked: Asked) -> object:
        """Answer the month's money: inflow less outflow."""
        found = []
        for row, nav in self._latest(asked):
            source = stream(self.stocks.seed, "flow", row["symbol"], nav.month)
            came, went = (source.randrange(1, 90) * _FLOW_SIZE for _ in range(2))
            found.append(values.FundFlow(row["symbol"], nav.month, came - went, came, went))
        return tuple(sorted(found, key=lambda each: -(each.fund_flow or 0)))

    def fund_benchmark_growth(self, asked: Asked) -> object:
        amount, period = asked.whole("amount"), asked.query["period"]
        profits = {row["symbol"]: self._profit(row, asked, period) for row in _compared(asked)}
        return tuple(
            values.FundGrowth(name, profit, int(amount * (_HUNDRED + profit) / _HUNDRED))
            for name, profit in profits.items()
        )

    def fund_benchmark_nav(self, asked: Asked) -> object:
        """Answer values of a period or of whole months, with the change since the first."""
        found = []
        for row in _compared(asked):
            navs = self._compared_navs(row, asked)
            changes = (
                values.NavChange(
                    nav.day,
                    scaled(nav.value, DIGITS),
                    percent(nav.value - navs[0].value, navs[0].value),
                )
                for nav in navs
            )
            found.append(values.FundNavs(row["symbol"], tuple(changes)))
        return tuple(found)

    def _compared_navs(self, row: Row, asked: Asked) -> Sequence[Nav]:
        if (period := asked.text("period")) is not None:
            return self._since(row, asked, period)
        first, last = asked.query["from-month"], asked.query["to-month"]
        if last < first:
            raise asked.bad("to-month: before from-month")
        return [nav for nav in self._navs(row, asked) if first <= nav.month <= last]

    def fund_benchmark_operation(self, asked: Asked) -> object:
        rows: list[JsonValue] = [
            {
                "fund_name": row["symbol"],
                "aum": _total(row, self._navs(row, asked)[-1]),
                "investors": int(row["investors"]),
            }
            for row in _compared(asked)
        ]
        return Unshaped(rows)


def _row(name: str) -> Row:
    for row in table("funds"):
        if row["symbol"] == name.upper():
            return row
    raise not_found()


def _compared(asked: Asked) -> list[Row]:
    return [_row(name) for name in dict.fromkeys(asked.items("fund-names"))]


def _total(row: Row, nav: Nav) -> int:
    return int(row["units"]) * nav.value // 10**DIGITS
