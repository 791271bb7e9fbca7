"""Buys when the fast average crosses above the slow one, and sells when it crosses below."""

from bot import Strategy


class SmaCross(Strategy):
    fast: int = 5
    slow: int = 20

    def check(self):
        if not 1 < self.fast < self.slow:
            raise ValueError("wanted fast above 1 and below slow")

    def on_bar(self, bar):
        fast, slow = bar.sma(self.fast), bar.sma(self.slow)
        if fast.crossed_above(slow) and not self.position:
            self.buy(why=f"SMA{self.fast} {fast:,.0f} crossed above SMA{self.slow} {slow:,.0f}")
        elif fast.crossed_below(slow):
            self.close(why=f"SMA{self.fast} {fast:,.0f} crossed below SMA{self.slow} {slow:,.0f}")
