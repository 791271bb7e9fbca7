"""One symbol's market as a plain list of orders: slow, and written straight from the rules.

It shares nothing with the venue but the rulebook's numbers. Auction: HOSE Decision 352/QĐ-SGDHCM,
art. 6 and 14.3. Everything is recomputed from the whole list, every time.
"""

from dataclasses import dataclass


@dataclass
class Order:
    name: str
    side: str
    kind: str
    price: int | None
    left: int
    time: int

    def rank(self) -> tuple[int, int]:
        assert self.price is not None
        return (-self.price if self.side == "BUY" else self.price, self.time)


class SlowMarket:
    """`ticks`: every price from floor to ceiling. Trades are `(buy, sell, price, quantity)`."""

    def __init__(self, ticks: list[int], reference: int) -> None:
        self.ticks = ticks
        self.anchor = reference
        self.orders: list[Order] = []
        self.clock = 0

    def new(self, name: str, side: str, kind: str, price: int | None, quantity: int) -> Order:
        self.clock += 1
        return Order(name, side, kind, price, quantity, self.clock)

    def find(self, name: str) -> Order:
        return next(order for order in self.orders if order.name == name)

    # ------------------------------------------------------------------ continuous

    def arrive(self, order: Order) -> list[tuple[str, str, int, int]]:
        limit = order.price or (self.ticks[-1] if order.side == "BUY" else self.ticks[0])
        wanted = sum(rival.left for rival in self._rivals(order, limit))
        if order.kind == "MOK" and wanted < order.left:
            return []
        trades = []
        while order.left and self._rivals(order, limit):
            rival = self._rivals(order, limit)[0]
            trades.append(self._meet(order, rival))
        if order.left and order.kind == "LO":
            self.orders.append(order)
        elif order.left and order.kind == "MTL" and trades:
            order.kind, order.price = "LO", self._beyond(order.side, trades[-1][2])
            self.orders.append(order)
        return trades

    def _rivals(self, order: Order, limit: int) -> list[Order]:
        found = [rival for rival in self.orders if rival.side != order.side]
        if order.side == "BUY":
            found = [rival for rival in found if (rival.price or 0) <= limit]
        else:
            found = [rival for rival in found if (rival.price or 0) >= limit]
        return sorted(found, key=Order.rank)

    def _meet(self, order: Order, rival: Order) -> tuple[str, str, int, int]:
        quantity = min(order.left, rival.left)
        order.left -= quantity
        rival.left -= quantity
        if not rival.left:
            self.orders.remove(rival)
        assert rival.price is not None
        self.anchor = rival.price
        buy, sell = (order, rival) if order.side == "BUY" else (rival, order)
        return buy.name, sell.name, rival.price, quantity

    def _beyond(self, side: str, price: int) -> int:
        step = 1 if side == "BUY" else -1
        where = self.ticks.index(price) + step
        return self.ticks[min(max(where, 0), len(self.ticks) - 1)]

    def amend(self, name: str, price: int, quantity_left: int) -> list[tuple[str, str, int, int]]:
        order = self.find(name)
        if price == order.price and quantity_left < order.left:
            order.left = quantity_left
            return []
        self.orders.remove(order)
        self.clock += 1
        order.price, order.left, order.time = price, quantity_left, self.clock
        return self.arrive(order)

    def cancel(self, name: str) -> None:
        self.orders.remove(self.find(name))

    # --------------------------------------------------------------------- auction

    def uncross(self) -> tuple[int | None, int, dict[str, int]]:
        """Return price, volume and fills; auction orders are gone afterwards."""
        self._reprice()
        price, volume = self._auction_price()
        fills: dict[str, int] = {}
        if price is not None:
            for side in ("BUY", "SELL"):
                left = volume
                for order in sorted((o for o in self.orders if o.side == side), key=Order.rank):
                    share = min(left, order.left)
                    left -= share
                    order.left -= share
                    fills |= {order.name: share} if share else {}
            self.anchor = price
        self.orders = [order for order in self.orders if order.left and order.kind == "LO"]
        return price, volume, fills

    def _reprice(self) -> None:
        priced = [order for order in self.orders if order.kind == "LO"]
        bids = [order.price or 0 for order in priced if order.side == "BUY"]
        asks = [order.price or 0 for order in priced if order.side == "SELL"]
        buys = sum(o.left for o in self.orders if o.kind != "LO" and o.side == "BUY")
        sells = sum(o.left for o in self.orders if o.kind != "LO" and o.side == "SELL")
        if not priced:
            buy = self.anchor
            if buys and sells and buys != sells:
                buy = self._beyond("BUY" if buys > sells else "SELL", self.anchor)
            sell = buy
        else:
            over = [self._beyond("BUY", max(bids))] if bids else []
            under = [self._beyond("SELL", min(asks))] if asks else []
            buy = max([self.anchor, *over, *asks])
            sell = min([self.anchor, *under, *bids])
        for order in self.orders:
            if order.kind != "LO":
                order.price = buy if order.side == "BUY" else sell

    def _auction_price(self) -> tuple[int | None, int]:
        most = max(self._volume(price) for price in self.ticks)
        if not most:
            return None, 0
        first = [p for p in self.ticks if self._volume(p) == most and self._fills_better(p, most)]
        second = [p for p in first if self._fills_some_at(p, most)]
        choice = sorted(second or first, key=lambda p: (abs(p - self.anchor), -p))
        return choice[0], most

    def _sum(self, side: str, low: int, high: int) -> int:
        return sum(o.left for o in self.orders if o.side == side and low <= (o.price or 0) <= high)

    def _volume(self, price: int) -> int:
        return min(self._sum("BUY", price, 10**9), self._sum("SELL", 0, price))

    def _fills_better(self, price: int, volume: int) -> bool:
        above, below = self._sum("BUY", price + 1, 10**9), self._sum("SELL", 0, price - 1)
        return above <= volume and below <= volume

    def _fills_some_at(self, price: int, volume: int) -> bool:
        buys, sells = self._sum("BUY", price, price), self._sum("SELL", price, price)
        bought = volume - self._sum("BUY", price + 1, 10**9)
        sold = volume - self._sum("SELL", 0, price - 1)
        one_side_whole = bought == buys or sold == sells
        return one_side_whole and (not buys or bought > 0) and (not sells or sold > 0)
