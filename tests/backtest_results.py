"""Hand-made backtest results, and bars for them, for tests of figures and reports."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta

import numpy as np

from bot.domain.entry import CheckResult, Decision, Fill, OrderUpdated, Verdict
from bot.domain.instrument import EXCHANGE_TZ, Exchange
from bot.domain.order import OrderState, OrderType, Side
from bot.domain.plan import Limits, OrderPlan, StrategyMode, StrategyPlan, Wake, When
from bot.runtime.history.backtest.result import BacktestResult, EquityPoint
from bot.runtime.history.bars import BarColumns, DayFrame, Gap

FIRST = date(2026, 3, 2)
"""A Monday."""
ACCOUNT = "120C900001.1"
PLAN = StrategyPlan(
    name="sma-fpt",
    use="sma_cross",
    symbols=("FPT",),
    account=ACCOUNT,
    mode=StrategyMode.TRADE,
    parameters={"fast": 5, "slow": 20},
    wake=Wake(bar=timedelta(minutes=1)),
    when=When(),
    order=OrderPlan(),
    limits=Limits(),
)
RESULT = BacktestResult(
    plans=(PLAN,),
    first=FIRST,
    last=FIRST,
    bars=0,
    bar_seconds=60,
    capital=100_000,
    assumptions=("fills: queue",),
    gaps=(),
    orders=(),
    fills=(),
    decisions=(),
    counts={},
    equity=(),
    closes={},
    why_slow="",
)
"""An empty result; tests vary it with `dataclasses.replace`."""


def trading_days(count: int) -> list[date]:
    """Return the first days from Monday to Friday, from `FIRST` on."""
    days = (FIRST + timedelta(days=number) for number in range(2 * count + 7))
    return [day for day in days if day.weekday() < 5][:count]


def at(day: date, clock: str = "14:45") -> datetime:
    """Return a local time of a day, in UTC."""
    return datetime.combine(day, time.fromisoformat(clock), EXCHANGE_TZ).astimezone(UTC)


def equity(values: Sequence[int], shares: Sequence[int] | None = None) -> tuple[EquityPoint, ...]:
    """Return an account with these values at the closes of days from `FIRST` on."""
    held = shares or [0] * len(values)
    days = trading_days(len(values))
    return tuple(
        EquityPoint(at(day), value - part, part)
        for day, value, part in zip(days, values, held, strict=True)
    )


def fill(number: int, side: Side, quantity: int, price: int, **changes: object) -> Fill:
    """Return the only fill of order `number`, a day later for each number; no fee, no tax."""
    made = Fill(
        at=at(trading_days(number)[-1], "09:30"),
        fill_id=f"F-{number:04}",
        order_id=f"O-{number:04}",
        intent_id=f"L-{number:04}",
        strategy=PLAN.name,
        account=ACCOUNT,
        symbol="FPT",
        side=side,
        quantity=quantity,
        price=price,
        amount=quantity * price,
        fee=0,
        tax=0,
        order_quantity=quantity,
        order_executed=quantity,
        broker_status="MATCHED_ALL",
        position=0,
        realised=0,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def decision(number: int, side: Side, last: int, **changes: object) -> Decision:
    """Return the decision behind order `number`, which saw `last`."""
    made = Decision(
        at=at(trading_days(number)[-1], "09:29"),
        strategy=PLAN.name,
        symbol="FPT",
        verdict=Verdict.PASSED,
        code="OK",
        why=f"reason {number}",
        saw={"last": last},
        request_id=f"L-{number:04}",
        side=side,
        quantity=100,
        order_type=OrderType.LO,
        price=last,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def blocked(number: int, code: str, text: str) -> Decision:
    """Return a request that a check refused, on the day of `number`."""
    checks = (CheckResult(code, passed=False, numbers={}, text=text),)
    refused = Verdict.BLOCKED
    return decision(number, Side.BUY, 100, verdict=refused, code=code, checks=checks)


def order(number: int, side: Side, state: OrderState, **changes: object) -> OrderUpdated:
    """Return the row of order `number`: 100 shares at 100."""
    made = OrderUpdated(
        at=at(trading_days(number)[-1], "09:30"),
        order_id=f"O-{number:04}",
        account=ACCOUNT,
        trading_date=trading_days(number)[-1],
        intent_id=f"L-{number:04}",
        strategy=PLAN.name,
        symbol="FPT",
        exchange=Exchange.HOSE,
        side=side,
        quantity=100,
        order_type=OrderType.LO,
        price=100,
        state=state,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


@dataclass(frozen=True)
class WavyBars:
    """A BarSource of one-minute bars, `minutes` of each day from 09:15 on, in a slow wave."""

    names: tuple[str, ...] = ("FPT",)
    minutes: int = 60
    width: timedelta = timedelta(minutes=1)

    def symbols(self) -> tuple[str, ...]:
        return self.names

    def span(self, symbol: str) -> tuple[date, date] | None:
        return (FIRST, FIRST) if symbol in self.names else None

    def chunks(self, symbol: str, first: date, last: date) -> Iterator[BarColumns]:
        for number in range((last - first).days + 1):
            day = first + timedelta(days=number)
            if day.weekday() >= 5 or symbol not in self.names:
                continue
            minute = np.arange(self.minutes, dtype=np.int64)
            start = int(at(day, "09:15").timestamp()) + 60 * minute
            wave = 100_000 + (5_000 * np.sin((number * self.minutes + minute) / 200)).astype(int)
            yield BarColumns(
                symbol, 60, start, wave, wave + 300, wave - 200, wave + 100, minute + 100
            )

    def frames(self, *_span: object) -> Mapping[date, DayFrame]:
        return {}

    def gaps(self, *_span: object) -> tuple[Gap, ...]:
        return ()


def busy_result(days: int = 60) -> BacktestResult:
    """Return a result with everything that a report shows."""
    whys = {
        2: "SMA5 100,300 crossed above SMA20 100,100",
        4: "<script>alert('why')</script> & \u202eback",
    }
    fills, decisions, orders = [], [], []
    for number in range(2, min(days, 50), 4):
        bought = fill(number, Side.BUY, 100, 100_200, fee=15_030)
        price = 102_000 if number % 8 == 2 else 99_000
        sold = fill(number + 2, Side.SELL, 100, price, fee=15_300, tax=price // 10)
        fills += [bought, sold]
        for each, side in ((number, Side.BUY), (number + 2, Side.SELL)):
            why = whys.get(each, f"reason {each}")
            decisions.append(decision(each, side, 100_100, why=why))
            orders.append(order(each, side, OrderState.FILLED, executed_quantity=100))
    orders.append(order(5, Side.BUY, OrderState.REJECTED, code="-900017", reason="Giá ngoài biên"))
    orders.append(order(7, Side.BUY, OrderState.EXPIRED))
    decisions += [blocked(3, "CASH", "needs 11M VND"), blocked(6, "CASH", "needs 12M VND")]
    values = [100_000_000 + 40_000 * n - 700_000 * (15 < n < 25) for n in range(days)]
    account = equity(values, [10_000_000 * (n % 3 > 0) for n in range(days)])
    last = trading_days(days)[-1]
    return replace(
        RESULT,
        last=last,
        bars=days * 60,
        capital=100_000_000,
        orders=tuple(orders),
        fills=tuple(fills),
        decisions=tuple(sorted(decisions, key=lambda each: each.at)),
        counts={"OK": len(fills), "CASH": 2, "NOT_SETTLED": 3, "SKIP": 900},
        equity=account,
        closes={"FPT": (100_000, 104_000)},
        gaps=(Gap("FPT", FIRST, FIRST, "the day ends at 10:15"),),
    )
