"""The unified quotes of currencies, coins, commodities, their dealers, and bonds."""

from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Final

from bot.domain.instrument import Exchange, Phase
from bot.domain.rulebook import Rulebook
from bot.protocol.quotes import CURRENCY
from bot.protocol.values import quotes, series
from bot.sandbox.api.gatekeeper import no_depth, not_found
from bot.sandbox.exchange.accounts import share
from bot.sandbox.library.answer import (
    DAILY,
    Asked,
    closes_only,
    daily,
    in_resolution,
    percent,
    price_bars,
    scaled,
    units_of,
)
from bot.sandbox.library.assets import Asset, Assets
from bot.sandbox.library.walk import Row, stream, table

_DEPTH_EVERY_S: Final = 300
_DEPTH_STEPS: Final = (10, 20, 30)


@dataclass(frozen=True, slots=True)
class OtherQuotes:
    """Answers from the walks; the group of a call is the first word of its name."""

    assets: Assets
    rulebook: Rulebook
    seed: int

    def forex_catalogue(self, asked: Asked) -> object:
        rows = self.assets.rows(asked.kind)
        return tuple(quotes.CatalogueItem(row["symbol"], row["name"]) for row in rows)

    crypto_catalogue = forex_catalogue

    def commodity_catalogue(self, _: Asked) -> object:
        rows = self.assets.rows("commodity")
        return tuple(quotes.CommodityItem(row["symbol"], row["name"], row["unit"]) for row in rows)

    def forex_quote(self, asked: Asked) -> object:
        """Answer a pair; the ask is a fixed spread above the bid."""
        asset = self.assets.get("forex", asked.symbol)
        now, spread = asset.now(asked.at), units_of(asset.row["spread"], asset.digits)

        def both(bid: int | None, spread: int = spread) -> quotes.TwoWay | None:
            if bid is None:
                return None
            return quotes.TwoWay(scaled(bid, asset.digits), scaled(bid + spread, asset.digits))

        return quotes.ForexQuote(
            symbol=asset.symbol,
            bid=scaled(now.price, asset.digits),
            ask=scaled(now.price + spread, asset.digits),
            name=asset.row["name"],
            open=both(now.opened),
            high=both(now.high),
            low=both(now.low),
            reference=both(now.reference),
            change=both(now.change, 0),
            change_percent=quotes.TwoWay(
                now.change_percent, percent(now.change, now.reference + spread)
            ),
            updated_at=asked.at,
        )

    def crypto_quote(self, asked: Asked) -> object:
        asset = self.assets.get(asked.kind, asked.symbol)
        now = asset.now(asked.at)
        return quotes.AssetQuote(
            symbol=asset.symbol,
            price=scaled(now.price, asset.digits),
            name=asset.row["name"],
            currency=asset.row["currency"],
            volume=Decimal(now.volume) if now.volume else None,
            updated_at=asked.at,
            **now.figures(asset.digits),
        )

    commodity_quote = crypto_quote

    def crypto_history(self, asked: Asked) -> object:
        asset = self.assets.get(asked.kind, asked.symbol)
        written = closes_only if asset.row["closes"] else price_bars
        bars = written(daily(asked, asset.bars(asked.at)), asset.digits)
        return series.PriceHistory(asset.symbol, bars, asset.row["currency"], DAILY)

    forex_history = commodity_history = crypto_history

    def dealer_products(self, asked: Asked) -> object:
        """Answer the dealers' products of a commodity; it may have none."""
        self.assets.get("commodity", asked.symbol)
        rows = (row for row in table("dealers") if row["symbol"] == asked.symbol)
        return tuple(quotes.DealerItem(row["code"], row["name"], row["dealer"]) for row in rows)

    def dealer_product(self, asked: Asked) -> object:
        return self.dealer_quote(self._product(asked), asked.at)

    def dealer_quote(self, row: Row, at: datetime) -> quotes.DealerQuote:
        """Return what a dealer pays and asks: the table's prices, moved with the commodity."""
        asset = self.assets.get("commodity", row["symbol"])
        price = asset.now(at).price
        return quotes.DealerQuote(
            code=row["code"],
            symbol=row["symbol"],
            name=row["name"],
            dealer=row["dealer"],
            currency=CURRENCY,
            buy=_moved(row["buy"], asset, price),
            sell=_moved(row["sell"], asset, price),
            updated_at=at,
        )

    def dealer_product_history(self, asked: Asked) -> object:
        """Answer a dealer's asking prices by day; the last is the quote's `sell`."""
        row = self._product(asked)
        asset = self.assets.get("commodity", row["symbol"])
        points = tuple(
            series.DealerPoint(bar.start, _moved(row["sell"], asset, bar.close))
            for bar in daily(asked, asset.bars(asked.at))
        )
        return series.DealerHistory(row["code"], points, row["symbol"], CURRENCY)

    def _product(self, asked: Asked) -> Row:
        self.assets.get("commodity", asked.symbol)
        code = asked.path["code"].upper()
        for row in table("dealers"):
            if (row["symbol"], row["code"]) == (asked.symbol, code):
                return row
        raise not_found()

    def bond_catalogue(self, _: Asked) -> object:
        items = []
        for row in self.assets.rows("bond"):
            item = quotes.BondItem(row["symbol"], row["name"], row["issuer"], row["type"])
            if row["face_value"]:
                item = replace(
                    item,
                    face_value=Decimal(row["face_value"]),
                    coupon_rate=Decimal(row["coupon_rate"]),
                    coupon_frequency=int(row["coupon_frequency"]),
                    issue_date=date.fromisoformat(row["issued"]),
                    maturity_date=date.fromisoformat(row["matures"]),
                )
            items.append(item)
        return tuple(items)

    def bond_quote(self, asked: Asked) -> object:
        """Answer a bond: its price, or only its yield."""
        asset = self.assets.get("bond", asked.symbol)
        row, now, digits = asset.row, asset.now(asked.at), asset.digits
        quote = quotes.BondQuote(
            symbol=asset.symbol,
            name=row["name"],
            exchange=row["exchange"],
            change=scaled(now.change, digits),
            change_percent=now.change_percent,
            yield_percent=scaled(now.price, digits),
            updated_at=asked.at,
        )
        if not row["reference"]:
            return quote
        return replace(
            quote,
            currency=CURRENCY,
            price=scaled(now.price, digits),
            yield_percent=Decimal(row["yield"]),
            volume=now.volume,
            **now.figures(digits),
        )

    def bond_history(self, asked: Asked) -> object:
        """Answer bars, or only yields."""
        asset, resolution = self.assets.get("bond", asked.symbol), asked.query["resolution"]
        bars = in_resolution(
            asked,
            asset.bars(asked.at),
            self.assets.days,
            lambda day: asset.slots(day, asked.at),
        )
        if asset.row["reference"]:
            points = [
                series.BondBar(bar.start, bar.open, bar.high, bar.low, bar.close, bar.volume)
                for bar in price_bars(bars, asset.digits)
            ]
            return series.BondHistory(asset.symbol, tuple(points), CURRENCY, resolution)
        points = [
            series.BondBar(bar.start, yield_percent=scaled(bar.close, asset.digits)) for bar in bars
        ]
        return series.BondHistory(asset.symbol, tuple(points), None, resolution)

    def bond_depth(self, asked: Asked) -> object:
        """Answer three levels a side, while the bond's exchange trades; volumes change every five
        minutes.
        """
        asset = self.assets.get("bond", asked.symbol)
        if not asset.row["reference"]:
            raise no_depth()
        price, symbol = asset.now(asked.at).price, asset.symbol
        phase = self.rulebook.phase_at(Exchange(asset.row["exchange"]), asked.at)
        steps = _DEPTH_STEPS if phase is not Phase.CLOSED else ()
        source = stream(self.seed, "depth", symbol, int(asked.at.timestamp()) // _DEPTH_EVERY_S)
        bids, asks = (
            tuple(
                series.PriceLevel(price + sign * step, source.randrange(1, 40) * 100)
                for step in steps
            )
            for sign in (-1, 1)
        )
        return series.ListedDepth(symbol, bids, asks, CURRENCY, asked.at)


def _moved(amount: str, asset: Asset, price: int) -> Decimal:
    """Return a dealer's price moved with its commodity, to 1,000 VND."""
    return Decimal(share(int(amount), price, asset.reference) // 1_000 * 1_000)
