# mypy: ignore-errors
# What it imports is installed in other environments, each in its own.
"""The same SMA cross in other backtesters: run by `bench.backtest` in their own environments.

It imports nothing of ours; it draws the same walk again.
"""

import json
import sys
from random import Random
from time import process_time
from typing import Any

TICK, SHARES, CASH, SEED = 50, 100, 10_000_000_000, 20_260_101


def walk(bars: int) -> list[tuple[int, int, int, int, int]]:
    """Draw the same walk as `bench.backtest.walk`."""
    draw, price, rows = Random(SEED).getrandbits, 25_000, []
    for _ in range(bars):
        bits = draw(16)
        after = price + TICK * ((bits & 3) - (bits >> 2 & 3))
        after = 10_050 if after < 10_000 else 59_950 if after > 60_000 else after
        high, low = max(price, after) + TICK * (bits >> 4 & 1), min(price, after)
        volume = SHARES * (1 + (bits >> 6))
        rows.append((price, high, low - TICK * (bits >> 5 & 1), after, volume))
        price = after
    return rows


def backtesting(bars: int, fast: int, slow: int) -> tuple[float, int]:
    import pandas as pd
    from backtesting import Backtest
    from backtesting import Strategy as Base

    orders = [0]

    def average(closes: Any, length: int) -> Any:
        return pd.Series(closes).rolling(length).mean()

    class Cross(Base):
        def init(self) -> None:
            self.fast = self.I(average, self.data.Close, fast)
            self.slow = self.I(average, self.data.Close, slow)

        def next(self) -> None:
            if self.fast[-1] > self.slow[-1] and not self.position:
                orders[0] += 1
                self.buy(size=SHARES)
            elif self.fast[-1] < self.slow[-1] and self.position:
                orders[0] += 1
                self.position.close()

    index = pd.date_range("2020-01-01", periods=bars, freq="min")
    names = ["Open", "High", "Low", "Close", "Volume"]
    frame = pd.DataFrame(walk(bars), columns=names, index=index, dtype="float64")
    test = Backtest(frame, Cross, cash=CASH, finalize_trades=True)
    started = process_time()
    test.run()
    return process_time() - started, orders[0]


def nautilus(bars: int, fast: int, slow: int) -> tuple[float, int]:
    from nautilus_trader.backtest.engine import BacktestEngine, BacktestEngineConfig
    from nautilus_trader.config import LoggingConfig, RiskEngineConfig
    from nautilus_trader.indicators import SimpleMovingAverage
    from nautilus_trader.model.currencies import USD
    from nautilus_trader.model.data import Bar, BarType
    from nautilus_trader.model.enums import AccountType, OmsType, OrderSide
    from nautilus_trader.model.identifiers import InstrumentId, Symbol, TraderId, Venue
    from nautilus_trader.model.instruments import Equity
    from nautilus_trader.model.objects import Money, Price, Quantity
    from nautilus_trader.trading.strategy import Strategy as Base

    venue = Venue("HOSE")
    name = InstrumentId(Symbol("S00"), venue)
    bar_type = BarType.from_str(f"{name}-1-MINUTE-LAST-EXTERNAL")

    class Cross(Base):
        def on_start(self) -> None:
            self.orders, self.long = 0, False
            self.fast, self.slow = SimpleMovingAverage(fast), SimpleMovingAverage(slow)
            self.register_indicator_for_bars(bar_type, self.fast)
            self.register_indicator_for_bars(bar_type, self.slow)
            self.subscribe_bars(bar_type)

        def on_bar(self, _bar: Bar) -> None:
            if not self.slow.initialized:
                return
            if self.fast.value > self.slow.value and not self.long:
                self.go(OrderSide.BUY)
            elif self.fast.value < self.slow.value and self.long:
                self.go(OrderSide.SELL)

        def go(self, side: OrderSide) -> None:
            self.orders, self.long = self.orders + 1, not self.long
            self.submit_order(self.order_factory.market(name, side, Quantity.from_int(SHARES)))

    engine = BacktestEngine(
        BacktestEngineConfig(
            trader_id=TraderId("B-1"),
            logging=LoggingConfig(bypass_logging=True),
            run_analysis=False,
            risk_engine=RiskEngineConfig(max_order_submit_rate="1000000/00:00:01"),
        )
    )
    money = [Money(CASH, USD)]
    kinds = {"oms_type": OmsType.NETTING, "account_type": AccountType.CASH}
    engine.add_venue(venue=venue, base_currency=USD, starting_balances=money, **kinds)
    engine.add_instrument(
        Equity(
            instrument_id=name,
            raw_symbol=Symbol("S00"),
            currency=USD,
            price_precision=2,
            price_increment=Price.from_str("50.00"),
            lot_size=Quantity.from_int(SHARES),
            ts_event=0,
            ts_init=0,
        )
    )
    begin, minute = 1_577_836_800_000_000_000, 60_000_000_000
    made = []
    for number, (*prices, volume) in enumerate(walk(bars)):
        at = begin + (number + 1) * minute
        shown = [Price(price, 2) for price in prices]
        made.append(Bar(bar_type, *shown, Quantity.from_int(volume), at, at))
    engine.add_data(made)
    strategy = Cross()
    engine.add_strategy(strategy)
    started = process_time()
    engine.run()
    return process_time() - started, strategy.orders


if __name__ == "__main__":
    peer = {"backtesting": backtesting, "nautilus": nautilus}[sys.argv[1]]
    seconds, count = peer(*map(int, sys.argv[2:5]))
    sys.stdout.write(json.dumps({"seconds": seconds, "orders": count}) + "\n")
