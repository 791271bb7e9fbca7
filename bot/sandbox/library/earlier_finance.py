"""The earlier paths about gold, silver, coins, macro figures, other markets and their news.

They answer from the same data as the present ones: a dealer's price of gold is the dealer product's
of the commodity, a macro figure the one of the macro table.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Final

from bot.domain.instrument import EXCHANGE_TZ
from bot.protocol.fields import local_text
from bot.protocol.values import earlier as values
from bot.protocol.values.border import JsonValue, Unshaped
from bot.sandbox.library.asked import Answer, Asked
from bot.sandbox.library.days import start_of
from bot.sandbox.library.figures import percent, scaled
from bot.sandbox.library.market_assets import Asset, Assets
from bot.sandbox.library.news import Macro, News, Release, paged
from bot.sandbox.library.other_quotes import OtherQuotes
from bot.sandbox.library.tables import Row, table
from bot.sandbox.library.walk import DayBar

_COUNTRIES: Final = {"VN": "Vietnam", "US": "United States", "JP": "Japan", "DE": "Euro Area"}
_COUNTRY_BONDS: Final = {"VN": "VN10Y", "US": "US10Y", "JP": "JP10Y", "DE": "DE10Y"}
_YIELDS: Final = "GOVERNMENT_10Y_BOND_YIELD"
_MONTHS: Final = {"ONE_MONTH": 1, "ONE_YEAR": 12, "YTD": 12}
_DAYS_BACK: Final = (1, 7, 30)
_COINS_TIMES: Final = 19_000_000
_IMPACT: Final = 2
_DIGITS: Final = 2
_METALS: Final = ("GOLD", "SILVER")


class EarlierFinance:
    """Answers from the walks, the dealers and the macro figures."""

    def __init__(self, assets: Assets, quotes: OtherQuotes, macro: Macro, news: News) -> None:
        self._assets = assets
        self._quotes = quotes
        self._macro = macro
        self._news = news

    def answers(self) -> Mapping[str, Answer]:
        """Return what answers each call, by its name."""
        return {
            "earlier_financial_data": self.overview,
            "earlier_gold": lambda asked: self._metals(asked, "GOLD"),
            "earlier_silver": lambda asked: self._metals(asked, "SILVER"),
            "earlier_gold_chart": lambda asked: self._chart(asked, "GOLD"),
            "earlier_silver_chart": lambda asked: self._chart(asked, "SILVER"),
            "earlier_gold_providers": lambda asked: self._metals(asked, "GOLD"),
            "earlier_metal_providers": lambda asked: self._metals(asked, *_METALS),
            "earlier_trending_cryptos": self.coins,
            "earlier_macro": self.macro,
            "earlier_trading_economics": self.economics,
            "earlier_market": self.market,
            "earlier_calendar": self.calendar,
            "earlier_global_news": self.news,
        }

    # ------------------------------------------------------------------------------- metals

    def _metals(self, asked: Asked, *symbols: str) -> tuple[values.MetalPrice, ...]:
        rows = (row for row in table("dealers") if row["symbol"] in symbols)
        return tuple(self._metal(row, asked) for row in rows)

    def _metal(self, row: Row, asked: Asked) -> values.MetalPrice:
        quote, asset = self._quotes.dealer_quote(row, asked.at), self._asset(row)
        now = asset.now(asked.at)
        change = percent(now.change, now.reference)
        return values.MetalPrice(
            index=row["code"],
            name=row["name"],
            short_name=row["group"],
            buy_value=quote.buy,
            sell_value=quote.sell,
            vnd_value=quote.sell,
            date=asked.today.isoformat(),
            provider=row["dealer"],
            updated_at=local_text(asked.at),
            change_percent=change,
            buy_value_change_percent=change,
            sell_value_change_percent=change,
        )

    def _asset(self, row: Row) -> Asset:
        return self._assets.get("commodity", row["symbol"])

    def _chart(self, asked: Asked, symbol: str) -> Unshaped:
        asset = self._assets.get("commodity", symbol)
        points: list[JsonValue] = [
            {"date": bar.day.isoformat(), "value": scaled(bar.close, asset.digits)}
            for bar in _newest(asset.bars(asked.at), asked.today, asked.whole("days"))
        ]
        return Unshaped(points)

    # -------------------------------------------------------------------------------- money

    def overview(self, asked: Asked) -> object:
        """Answer a group of figures for each kind of asset."""
        stamp = local_text(asked.at)
        groups = {
            "GOLD": ("Vàng", self._metal_figures(asked, "GOLD")),
            "SILVER": ("Bạc", self._metal_figures(asked, "SILVER")),
            "CRYPTO": ("Tiền mã hóa", tuple(self._coin_figures(asked))),
            "BANK_INTEREST_RATE": ("Lãi suất", tuple(_rate_figures())),
            "USD_EXCHANGE_RATE": ("Tỷ giá USD", (self._dollar(asked),)),
        }
        return tuple(
            values.AssetGroup(kind, name, figures, stamp)
            for kind, (name, figures) in groups.items()
        )

    def _metal_figures(self, asked: Asked, symbol: str) -> tuple[values.AssetFigure, ...]:
        return tuple(
            values.AssetFigure(
                each.name,
                buy_value=each.buy_value,
                sell_value=each.sell_value,
                change_percent=each.change_percent,
            )
            for each in self._metals(asked, symbol)
        )

    def _coin_figures(self, asked: Asked) -> Iterable[values.AssetFigure]:
        for row in self._assets.rows("crypto"):
            asset = self._assets.get("crypto", row["symbol"])
            now = asset.now(asked.at)
            change = percent(now.change, now.reference)
            price = scaled(now.price, asset.digits)
            yield values.AssetFigure(row["symbol"], usd_value=price, change_percent=change)

    def _dollar(self, asked: Asked) -> values.AssetFigure:
        asset = self._assets.get("forex", "USDVND")
        now, spread = asset.now(asked.at), int(asset.row["spread"])
        return values.AssetFigure(
            "USD",
            buy_value=Decimal(now.price),
            sell_value=Decimal(now.price + spread),
            change_percent=percent(now.change, now.reference),
        )

    def coins(self, asked: Asked) -> object:
        """Answer the coins with how they moved."""
        return tuple(self._coin(row["symbol"], asked) for row in self._assets.rows("crypto"))

    def _coin(self, symbol: str, asked: Asked) -> values.TrendingCrypto:
        asset = self._assets.get("crypto", symbol)
        now, closes = asset.now(asked.at), [bar.close for bar in asset.bars(asked.at)]
        price = scaled(now.price, asset.digits)
        day, week, month = (
            percent(now.price - closes[-1 - days], closes[-1 - days]) for days in _DAYS_BACK
        )
        return values.TrendingCrypto(
            symbol=symbol,
            name=asset.row["name"],
            icon_url=f"https://coin.example/{symbol.lower()}.png",
            price=price,
            formatted_price=f"{price:,}",
            percent_change_1h=percent(now.price - (now.opened or now.price), now.price),
            percent_change_24h=day,
            percent_change_7d=week,
            percent_change_30d=month,
            market_cap=price * _COINS_TIMES,
        )

    # -------------------------------------------------------------------------------- macro

    def macro(self, asked: Asked) -> object:
        """Answer a figure by months, newest first; a yield is the bond's."""
        kind, country = asked.query["type"], asked.query["country"]
        months = _MONTHS.get(asked.text("period") or "ONE_YEAR", 12)
        if kind == _YIELDS:
            return tuple(self._yields(country, asked, months))
        found = [
            release
            for releases in self._macro.releases.values()
            for release in releases
            if release.row["type"] == kind
            and release.row["country"] == _COUNTRIES[country]
            and release.at <= asked.at
        ]
        return tuple(
            values.MacroDatum(
                kind,
                country,
                f"{each.year}-{each.month:02}",
                scaled(each.value, _DIGITS),
                each.at.astimezone(EXCHANGE_TZ).date().isoformat(),
            )
            for each in found[::-1][:months]
        )

    def _yields(self, country: str, asked: Asked, months: int) -> Iterable[values.MacroDatum]:
        asset = self._assets.get("bond", _COUNTRY_BONDS[country])
        last_of_month = {bar.day.strftime("%Y-%m"): bar for bar in asset.bars(asked.at)}
        for month, bar in list(last_of_month.items())[::-1][:months]:
            value = scaled(bar.close, asset.digits)
            yield values.MacroDatum(_YIELDS, country, month, value, bar.day.isoformat())

    def economics(self, asked: Asked) -> object:
        """Answer the latest figure of every indicator of a country, or all of a year."""
        category, year = asked.text("category"), asked.text("year")
        found: list[Release] = []
        for releases in self._macro.releases.values():
            out = [
                release
                for release in releases
                if release.at <= asked.at
                and release.row["country"] == asked.query["country"]
                and category in {None, release.row["category"]}
                and year in {None, str(release.year)}
            ]
            found += out if year else out[-1:]
        return tuple(map(_datum, found))

    def market(self, asked: Asked) -> object:
        """Answer closes of a market, newest first."""
        row = next(row for row in table("earlier_markets") if row["type"] == asked.query["type"])
        closes = self._closes(row, asked)[: asked.whole("limit")]
        return tuple(
            values.MarketDatum(
                row["type"], row["country"], day.isoformat(), day.year, day.month, value
            )
            for day, value in closes
        )

    def _closes(self, row: Row, asked: Asked) -> Sequence[tuple[date, Decimal]]:
        asset = self._assets.get(row["group"], row["symbol"])
        bars = reversed(asset.bars(asked.at))
        return [(bar.day, scaled(bar.close, asset.digits)) for bar in bars]

    def calendar(self, asked: Asked) -> object:
        """Answer the releases of the next weeks."""
        first = start_of(asked.today)
        last = first + timedelta(weeks=min(asked.whole("weeks"), 52))
        found = self._macro.between(first, last, asked.text("country"))
        return tuple(_event(number, each, asked.at) for number, each in enumerate(found, start=1))

    # --------------------------------------------------------------------------------- news

    def news(self, asked: Asked) -> object:
        """Answer a page of news."""
        category = asked.text("category")
        stories = self._news.stories(asked.at)
        page = paged(asked, [each for each in stories if category in {None, each.category}])
        return values.GlobalNewsPage(
            results=tuple(
                values.GlobalArticle(
                    id=story.number,
                    title=story.title,
                    url=f"https://news.example/{story.number}",
                    description=f"{story.title}.",
                    provider="sandbox",
                    published_at=local_text(story.at),
                    category=story.category,
                )
                for story in page.items
            ),
            page_total=page.page_total,
            total=page.total,
            current_page=page.current_page,
            next_page=page.next_page,
            previous_page=page.previous_page,
        )


def _newest(bars: Sequence[DayBar], today: date, days: int) -> list[DayBar]:
    first = today - timedelta(days=min(days, 3_650))
    return [bar for bar in bars if bar.day > first]


def _rate_figures() -> Iterable[values.AssetFigure]:
    for row in table("banks"):
        text = row["12 tháng"].removesuffix("%").replace(",", ".")
        yield values.AssetFigure(row["bank"], value=Decimal(text))


def _datum(release: Release) -> values.EconomicDatum:
    row = release.row
    return values.EconomicDatum(
        indicator=row["name"],
        country=row["country"],
        category=row["category"],
        last_value=scaled(release.value, _DIGITS),
        previous_value=None if release.before is None else scaled(release.before, _DIGITS),
        year=release.year,
        month=release.month,
        unit=row["unit"],
    )


def _event(number: int, release: Release, at: datetime) -> values.EconomicEvent:
    row, sign = release.row, "%" if release.row["unit"] == "Percent" else ""
    before = "" if release.before is None else f"{scaled(release.before, _DIGITS)}{sign}"
    return values.EconomicEvent(
        id=number,
        date=release.at.astimezone(EXCHANGE_TZ).date().isoformat(),
        country=row["country"],
        event=row["name"],
        actual=f"{scaled(release.value, _DIGITS)}{sign}" if release.at <= at else "",
        previous=before,
        consensus=before,
        forecast=before,
        impact=_IMPACT,
        category=row["category"],
    )
