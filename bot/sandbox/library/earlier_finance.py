"""The earlier paths about gold, silver, coins, macro figures, other markets and their news.

They use the same data as the current calls: a dealer's gold price is that of the commodity's dealer
product, a macro figure comes from the macro table.
"""

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Final

from bot.domain.instrument import EXCHANGE_TZ
from bot.protocol.fields import local_text
from bot.protocol.values import earlier as values
from bot.protocol.values.border import JsonValue, Unshaped
from bot.sandbox.library.answer import Asked, maybe, percent, scaled
from bot.sandbox.library.assets import Assets
from bot.sandbox.library.news import DIGITS, Macro, News, bank_rate, paged
from bot.sandbox.library.other_quotes import OtherQuotes
from bot.sandbox.library.walk import start_of, table

_COUNTRIES: Final = {"VN": "Vietnam", "US": "United States", "JP": "Japan", "DE": "Euro Area"}
_COUNTRY_BONDS: Final = {"VN": "VN10Y", "US": "US10Y", "JP": "JP10Y", "DE": "DE10Y"}
_YIELDS: Final = "GOVERNMENT_10Y_BOND_YIELD"
_MONTHS: Final = {"ONE_MONTH": 1, "ONE_YEAR": 12, "YTD": 12}
_DAYS_BACK: Final = (1, 7, 30)
_COINS_TIMES: Final = 19_000_000
_IMPACT: Final = 2
_METALS_OF: Final = {
    "earlier_gold": ("GOLD",),
    "earlier_gold_chart": ("GOLD",),
    "earlier_gold_providers": ("GOLD",),
    "earlier_silver": ("SILVER",),
    "earlier_silver_chart": ("SILVER",),
    "earlier_metal_providers": ("GOLD", "SILVER"),
}


@dataclass(frozen=True, slots=True)
class EarlierFinance:
    assets: Assets
    quotes: OtherQuotes
    figures: Macro
    news: News

    def _metals(self, asked: Asked, *symbols: str) -> tuple[values.MetalPrice, ...]:
        found = []
        for row in table("dealers"):
            if row["symbol"] not in symbols:
                continue
            quote = self.quotes.dealer_quote(row, asked.at)
            change = self.assets.get("commodity", row["symbol"]).now(asked.at).change_percent
            price = values.MetalPrice(
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
            found.append(price)
        return tuple(found)

    def earlier_gold(self, asked: Asked) -> object:
        """Answer the dealers' prices of one metal, or of both."""
        return self._metals(asked, *_METALS_OF[asked.call])

    earlier_silver = earlier_gold_providers = earlier_metal_providers = earlier_gold

    def earlier_gold_chart(self, asked: Asked) -> object:
        asset = self.assets.get("commodity", *_METALS_OF[asked.call])
        first = asked.today - timedelta(days=min(asked.whole("days"), 3_650))
        points: list[JsonValue] = [
            {"date": bar.day.isoformat(), "value": scaled(bar.close, asset.digits)}
            for bar in asset.bars(asked.at)
            if bar.day > first
        ]
        return Unshaped(points)

    earlier_silver_chart = earlier_gold_chart

    def earlier_financial_data(self, asked: Asked) -> object:
        gold, silver = (
            [
                values.AssetFigure(
                    each.name,
                    buy_value=each.buy_value,
                    sell_value=each.sell_value,
                    change_percent=each.change_percent,
                )
                for each in self._metals(asked, symbol)
            ]
            for symbol in ("GOLD", "SILVER")
        )
        coins = []
        for row in self.assets.rows("crypto"):
            asset = self.assets.get("crypto", row["symbol"])
            now = asset.now(asked.at)
            price = scaled(now.price, asset.digits)
            coins.append(
                values.AssetFigure(asset.symbol, usd_value=price, change_percent=now.change_percent)
            )
        rates = [
            values.AssetFigure(row["bank"], value=bank_rate(row["12 tháng"]))
            for row in table("banks")
        ]
        pair = self.assets.get("forex", "USDVND")
        now = pair.now(asked.at)
        dollar = values.AssetFigure(
            "USD",
            buy_value=Decimal(now.price),
            sell_value=Decimal(now.price + int(pair.row["spread"])),
            change_percent=now.change_percent,
        )
        groups = {
            "GOLD": ("Vàng", gold),
            "SILVER": ("Bạc", silver),
            "CRYPTO": ("Tiền mã hóa", coins),
            "BANK_INTEREST_RATE": ("Lãi suất", rates),
            "USD_EXCHANGE_RATE": ("Tỷ giá USD", [dollar]),
        }
        stamp = local_text(asked.at)
        return tuple(
            values.AssetGroup(kind, name, tuple(figures), stamp)
            for kind, (name, figures) in groups.items()
        )

    def earlier_trending_cryptos(self, asked: Asked) -> object:
        coins = []
        for row in self.assets.rows("crypto"):
            asset = self.assets.get("crypto", row["symbol"])
            now, closes = asset.now(asked.at), [bar.close for bar in asset.bars(asked.at)]
            price = scaled(now.price, asset.digits)
            day, week, month = (
                percent(now.price - closes[-1 - days], closes[-1 - days]) for days in _DAYS_BACK
            )
            coin = values.TrendingCrypto(
                symbol=asset.symbol,
                name=row["name"],
                icon_url=f"https://coin.example/{asset.symbol.lower()}.png",
                price=price,
                formatted_price=f"{price:,}",
                percent_change_1h=percent(now.price - (now.opened or now.price), now.price),
                percent_change_24h=day,
                percent_change_7d=week,
                percent_change_30d=month,
                market_cap=price * _COINS_TIMES,
            )
            coins.append(coin)
        return tuple(coins)

    def earlier_macro(self, asked: Asked) -> object:
        """Answer a figure by months, newest first; a yield is the bond's."""
        kind, country = asked.query["type"], asked.query["country"]
        months = _MONTHS.get(asked.text("period") or "ONE_YEAR", 12)
        if kind == _YIELDS:
            asset = self.assets.get("bond", _COUNTRY_BONDS[country])
            last_of_month = {bar.day.strftime("%Y-%m"): bar for bar in asset.bars(asked.at)}
            found = [
                (month, scaled(bar.close, asset.digits), bar.day)
                for month, bar in last_of_month.items()
            ]
        else:
            found = [
                (f"{each.year}-{each.month:02}", scaled(each.value, DIGITS), day)
                for releases in self.figures.releases.values()
                for each in releases
                if each.row["type"] == kind
                and each.row["country"] == _COUNTRIES[country]
                and each.at <= asked.at
                for day in [each.at.astimezone(EXCHANGE_TZ).date()]
            ]
        return tuple(
            values.MacroDatum(kind, country, month, value, day.isoformat())
            for month, value, day in found[::-1][:months]
        )

    def earlier_trading_economics(self, asked: Asked) -> object:
        """Answer the latest figure of every indicator of a country, or all of a year."""
        category, year, found = asked.text("category"), asked.text("year"), []
        for releases in self.figures.releases.values():
            out = [
                values.EconomicDatum(
                    indicator=release.row["name"],
                    country=release.row["country"],
                    category=release.row["category"],
                    last_value=scaled(release.value, DIGITS),
                    previous_value=maybe(release.before, DIGITS),
                    year=release.year,
                    month=release.month,
                    unit=release.row["unit"],
                )
                for release in releases
                if release.at <= asked.at
                and release.row["country"] == asked.query["country"]
                and category in {None, release.row["category"]}
                and year in {None, str(release.year)}
            ]
            found += out if year else out[-1:]
        return tuple(found)

    def earlier_market(self, asked: Asked) -> object:
        """Answer closes of a market, newest first."""
        row = next(row for row in table("earlier_markets") if row["type"] == asked.query["type"])
        asset = self.assets.get(row["group"], row["symbol"])
        return tuple(
            values.MarketDatum(
                row["type"],
                row["country"],
                bar.day.isoformat(),
                bar.day.year,
                bar.day.month,
                scaled(bar.close, asset.digits),
            )
            for bar in asset.bars(asked.at)[::-1][: asked.whole("limit")]
        )

    def earlier_calendar(self, asked: Asked) -> object:
        first = start_of(asked.today)
        last = first + timedelta(weeks=min(asked.whole("weeks"), 52))
        found = []
        releases = self.figures.between(first, last, asked.text("country"))
        for number, release in enumerate(releases, start=1):
            row, sign = release.row, "%" if release.row["unit"] == "Percent" else ""
            before = "" if release.before is None else f"{scaled(release.before, DIGITS)}{sign}"
            is_out = release.at <= asked.at
            event = values.EconomicEvent(
                id=number,
                date=release.at.astimezone(EXCHANGE_TZ).date().isoformat(),
                country=row["country"],
                event=row["name"],
                actual=f"{scaled(release.value, DIGITS)}{sign}" if is_out else "",
                previous=before,
                consensus=before,
                forecast=before,
                impact=_IMPACT,
                category=row["category"],
            )
            found.append(event)
        return tuple(found)

    def earlier_global_news(self, asked: Asked) -> object:
        category, stories = asked.text("category"), self.news.stories(asked.at)
        page = paged(asked, [each for each in stories if category in {None, each.category}])
        return values.GlobalNewsPage(
            results=tuple(
                values.GlobalArticle(
                    id=story.number,
                    title=story.item.title,
                    url=story.item.url,
                    description=story.item.summary,
                    provider=story.item.source,
                    published_at=local_text(story.item.published_at),
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
