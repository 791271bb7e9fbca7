"""Orders on a beat, as long as it runs: what `bot drill` has at hand to break."""

from bot import Strategy


class DrillTrader(Strategy):
    beat_s: int = 10

    def on_start(self):
        self.beats, self.due_s = 0, 0.0

    def on_quote(self, quote):
        now_s = self.now.timestamp() if self.now else 0.0
        if now_s < self.due_s:
            return
        self.beats, self.due_s = self.beats + 1, now_s + self.beat_s
        shares = 100 * (1 + self.beats % 7)  # an identical order would be refused as a duplicate
        if self.beats % 4 == 0:
            self.cancel(why="the drill takes its orders back")
        elif self.beats % 4 == 2:
            self.buy(shares, limit=quote.last * 98 // 10_000 * 100, why="the drill rests an order")
        else:
            self.buy(shares, why="the drill buys")
