"""The unified quotes of currencies, coins, commodities, their dealers, and bonds."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Final

from bot.domain.instrument import Exchange, Phase
from bot.domain.rulebook import Rulebook
from bot.protocol.quotes import CURRENCY
from bot.protocol.values.quotes import (
    AssetQuote,
    BondItem,
    BondQuote,
    CatalogueItem,
    CommodityItem,
    DealerItem,
    DealerQuote,
    ForexQuote,
    TwoWay,
)
from bot.protocol.values.series import (
    BondBar,
    BondHistory,
    DealerHistory,
    DealerPoint,
    ListedDepth,
    PriceHistory,
    PriceLevel,
)
from bot.sandbox.api.gatekeeper import no_depth, not_found
from bot.sandbox.library.asked import Answer, Asked
from bot.sandbox.library.figures import maybe, percent, scaled, share, units_of
from bot.sandbox.library.market_assets import Asset, Assets
from bot.sandbox.library.series import STEPS, closes_only, daily, intraday, price_bars
from bot.sandbox.library.tables import Row, table
from bot.sandbox.library.walk import Bar, stream

_DAILY: Final = "1D"
_DEPTH_EVERY_S: Final = 300


class OtherQuotes:
    """Answers from the walks."""

    def __init__(self, assets: Assets, rulebook: Rulebook, *, seed: int) -> None:
        self._assets = assets
        self._rulebook = rulebook
        self._seed = seed

    def answers(self) -> Mapping[str, Answer]:
        """Return what answers each call, by its name."""
        return {
            "forex_catalogue": lambda _: self._names("forex"),
            "crypto_catalogue": lambda _: self._names("crypto"),
            "commodity_catalogue": self.commodities,
            "bond_catalogue": self.bonds,
            "forex_quote": self.forex,
            "crypto_quote": lambda asked: self._quote("crypto", asked),
            "commodity_quote": lambda asked: self._quote("commodity", asked),
            "bond_quote": self.bond,
            "forex_history": lambda asked: self._history("forex", asked),
            "crypto_history": lambda asked: self._history("crypto", asked),
            "commodity_history": lambda asked: self._history("commodity", asked),
            "bond_history": self.bond_history,
            "bond_depth": self.bond_depth,
            "dealer_products": self.dealer_products,
            "dealer_product": self.dealer_product,
            "dealer_product_history": self.dealer_product_history,
        }

    def _names(self, group: str) -> tuple[CatalogueItem, ...]:
        return tuple(CatalogueItem(row["symbol"], row["name"]) for row in self._assets.rows(group))

    # ----------------------------------------------------------- currencies, coins, commodities

    def commodities(self, _: Asked) -> object:
        """Answer the commodities."""
        rows = self._assets.rows("commodity")
        return tuple(CommodityItem(row["symbol"], row["name"], row["unit"]) for row in rows)

    def forex(self, asked: Asked) -> object:
        """Answer a pair; the ask stands a fixed spread above the bid."""
        asset = self._assets.get("forex", asked.symbol)
        now, spread = asset.now(asked.at), units_of(asset.row["spread"], asset.digits)

        def both(units: int | None, spread: int = spread) -> TwoWay | None:
            if units is None:
                return None
            return TwoWay(scaled(units, asset.digits), scaled(units + spread, asset.digits))

        return ForexQuote(
            symbol=asset.symbol,
            bid=scaled(now.price, asset.digits),
            ask=scaled(now.price + spread, asset.digits),
            name=asset.row["name"],
            open=both(now.opened),
            high=both(now.high),
            low=both(now.low),
            reference=both(now.reference),
            change=both(now.change, 0),
            change_percent=TwoWay(
                percent(now.change, now.reference), percent(now.change, now.reference + spread)
            ),
            updated_at=asked.at,
        )

    def _quote(self, group: str, asked: Asked) -> AssetQuote:
        asset = self._assets.get(group, asked.symbol)
        now, digits = asset.now(asked.at), asset.digits
        return AssetQuote(
            symbol=asset.symbol,
            price=scaled(now.price, digits),
            name=asset.row["name"],
            currency=asset.row["currency"],
            open=maybe(now.opened, digits),
            high=maybe(now.high, digits),
            low=maybe(now.low, digits),
            reference=scaled(now.reference, digits),
            change=scaled(now.change, digits),
            change_percent=percent(now.change, now.reference),
            volume=Decimal(now.volume) if now.volume else None,
            updated_at=asked.at,
        )

    def _history(self, group: str, asked: Asked) -> PriceHistory:
        asset = self._assets.get(group, asked.symbol)
        bars = daily(asked, asset.bars(asked.at))
        written = closes_only if asset.has_closes_only else price_bars
        series = written(bars, asset.digits)
        return PriceHistory(asset.symbol, series, asset.row["currency"], _DAILY)

    # ---------------------------------------------------------------------------- dealers

    def dealer_products(self, asked: Asked) -> object:
        """Answer the dealers' products of a commodity; none is an empty list."""
        self._assets.get("commodity", asked.symbol)
        rows = (row for row in table("dealers") if row["symbol"] == asked.symbol)
        return tuple(DealerItem(row["code"], row["name"], row["dealer"]) for row in rows)

    def dealer_product(self, asked: Asked) -> object:
        """Answer what a dealer pays and asks."""
        return self.dealer_quote(self._product(asked), asked.at)

    def dealer_quote(self, row: Row, at: datetime) -> DealerQuote:
        """Return a product's prices: those of the table, moved with the commodity."""
        asset = self._assets.get("commodity", row["symbol"])
        price = asset.now(at).price
        return DealerQuote(
            code=row["code"],
            symbol=row["symbol"],
            name=row["name"],
            dealer=row["dealer"],
            currency=CURRENCY,
            buy=Decimal(_moved(int(row["buy"]), asset, price)),
            sell=Decimal(_moved(int(row["sell"]), asset, price)),
            updated_at=at,
        )

    def dealer_product_history(self, asked: Asked) -> object:
        """Answer what a dealer asked, day by day; the last is the quote's `sell`."""
        row = self._product(asked)
        asset = self._assets.get("commodity", row["symbol"])
        points = tuple(
            DealerPoint(bar.start, Decimal(_moved(int(row["sell"]), asset, bar.close)))
            for bar in daily(asked, asset.bars(asked.at))
        )
        return DealerHistory(row["code"], points, row["symbol"], CURRENCY)

    def _product(self, asked: Asked) -> Row:
        self._assets.get("commodity", asked.symbol)
        code = asked.path["code"].upper()
        for row in table("dealers"):
            if (row["symbol"], row["code"]) == (asked.symbol, code):
                return row
        raise not_found()

    # ------------------------------------------------------------------------------ bonds

    def bonds(self, _: Asked) -> object:
        """Answer the bonds."""
        return tuple(_bond_item(row) for row in self._assets.rows("bond"))

    def bond(self, asked: Asked) -> object:
        """Answer a bond: its price, or its yield alone."""
        asset = self._assets.get("bond", asked.symbol)
        row, now, digits = asset.row, asset.now(asked.at), asset.digits
        quote = BondQuote(
            symbol=asset.symbol,
            name=row["name"],
            exchange=row["exchange"],
            change=scaled(now.change, digits),
            change_percent=percent(now.change, now.reference),
            updated_at=asked.at,
        )
        if not row["reference"]:
            return replace(quote, yield_percent=scaled(now.price, digits))
        return replace(
            quote,
            currency=CURRENCY,
            price=scaled(now.price, digits),
            open=maybe(now.opened, digits),
            high=maybe(now.high, digits),
            low=maybe(now.low, digits),
            reference=scaled(now.reference, digits),
            yield_percent=Decimal(row["yield"]),
            volume=now.volume,
        )

    def bond_history(self, asked: Asked) -> object:
        """Answer bars, or yields alone."""
        asset, resolution = self._assets.get("bond", asked.symbol), asked.query["resolution"]
        if resolution == _DAILY:
            bars = daily(asked, asset.bars(asked.at))
        else:
            step: timedelta = STEPS[resolution]
            bars = intraday(asked, asset.days, lambda day: _slots(asset, day, asked.at), step)
        if asset.row["reference"]:
            series = tuple(
                BondBar(bar.start, bar.open, bar.high, bar.low, bar.close, bar.volume)
                for bar in price_bars(bars, asset.digits)
            )
            return BondHistory(asset.symbol, series, CURRENCY, resolution)
        yields = (BondBar(bar.start, yield_percent=scaled(bar.close, asset.digits)) for bar in bars)
        return BondHistory(asset.symbol, tuple(yields), None, resolution)

    def bond_depth(self, asked: Asked) -> object:
        """Answer three levels a side, while the bond's exchange trades."""
        asset = self._assets.get("bond", asked.symbol)
        if not asset.row["reference"]:
            raise no_depth()
        exchange, price = Exchange(asset.row["exchange"]), asset.now(asked.at).price
        phase = self._rulebook.phase_at(exchange, asked.at)
        steps = (10, 20, 30) if phase is not Phase.CLOSED else ()
        return depth_around(asset.symbol, price, steps, asked.at, seed=self._seed)


def depth_around(
    symbol: str, price: int, steps: tuple[int, ...], at: datetime, *, seed: int
) -> ListedDepth:
    """Return levels so far from a price; what waits there changes every five minutes."""
    source = stream(seed, "depth", symbol, int(at.timestamp()) // _DEPTH_EVERY_S)
    bids = tuple(PriceLevel(price - step, source.randrange(1, 40) * 100) for step in steps)
    asks = tuple(PriceLevel(price + step, source.randrange(1, 40) * 100) for step in steps)
    return ListedDepth(symbol, bids, asks, CURRENCY, at)


def _moved(amount: int, asset: Asset, price: int) -> int:
    """Return a dealer's price as far as its commodity has moved, to 1,000 VND."""
    return share(amount, price, asset.walked.reference) // 1_000 * 1_000


def _slots(asset: Asset, day: date, at: datetime) -> tuple[Bar, ...]:
    return asset.walked.slots(day, at)


def _bond_item(row: Row) -> BondItem:
    if not row["face_value"]:
        return BondItem(row["symbol"], row["name"], row["issuer"], row["type"])
    return BondItem(
        symbol=row["symbol"],
        name=row["name"],
        issuer=row["issuer"],
        type=row["type"],
        face_value=Decimal(row["face_value"]),
        coupon_rate=Decimal(row["coupon_rate"]),
        coupon_frequency=int(row["coupon_frequency"]),
        issue_date=date.fromisoformat(row["issued"]),
        maturity_date=date.fromisoformat(row["matures"]),
    )
