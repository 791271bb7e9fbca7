"""Buys when far more shares wait to be bought than sold; sells when it is the other way round."""

from bot import Strategy


class DepthImbalance(Strategy):
    ratio: float = 3.0
    levels: int = 3

    def check(self):
        if self.ratio <= 1 or not 1 <= self.levels <= 3:
            raise ValueError("wanted ratio above 1 and levels from 1 to 3")

    def on_depth(self, book):
        r = book.bid_volume(self.levels) / max(1, book.ask_volume(self.levels))
        if r > self.ratio and not self.position:
            return self.buy(limit=book.ask, why=f"bids {r:.1f}x asks")
        if r < 1 / self.ratio and self.position:
            return self.close(limit=book.bid, why=f"bids only {r:.2f}x asks")
        return self.skip("holding" if self.position else f"bids {r:.1f}x asks, needs {self.ratio}x")
