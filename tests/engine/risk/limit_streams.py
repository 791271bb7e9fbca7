"""Streams of orders against limits, judged by a plain reading of what a limit is.

`python -m tests.engine.risk.limit_streams [STREAMS] [FIRST]` plays more of them than the test does.
The judge knows what left the engine and what was filled, and nothing of how the engine counts.
"""

import random
import sys
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import pairwise

from bot.domain.limits import AccountLimits
from bot.domain.message import AccountRead, PlaceOrder
from bot.domain.order import Intent, OrderState, Side
from bot.engine.engine import EngineSettings
from tests.engine.stage import Stage, report_of

STEPS = 60
CASH = 200_000_000


@dataclass
class Judge:
    """Every order that left, what of it is open, and what was filled."""

    limits: AccountLimits
    sent: list[tuple[datetime, Intent]] = field(default_factory=list)
    open: dict[str, Intent] = field(default_factory=dict)
    sides: list[Side] = field(default_factory=list)
    shares: int = 10_000
    spent: int = 0

    def wrong(self, at: datetime, intent: Intent, last: int) -> list[str]:
        """Return the limits that an order which has left is beyond."""
        limits, price = self.limits, intent.limit_price or 0
        buys = [one for one in self.open.values() if one.side is Side.BUY]
        pending = sum(one.quantity * (one.limit_price or 0) for one in buys)
        value, is_buy = intent.quantity * price, intent.side is Side.BUY
        minute = [t for t, _ in self.sent if t > at - timedelta(minutes=1)]
        second = [t for t, _ in self.sent if t > at - timedelta(seconds=1)]
        turns = [*self.sides, intent.side]
        flips = sum(one is not other for one, other in pairwise(turns))
        held = self.shares * last + pending + value
        nav = CASH + self.shares * last - self.spent
        beyond = {
            "R01": value > (limits.max_order_value or 0),
            "R02": intent.quantity > (limits.max_order_quantity or 0),
            "R03": abs(price - last) * 100 > 2 * last,
            "R06": len(self.open) >= (limits.max_open_orders or 0),
            "R07": len(minute) >= (limits.max_orders_per_minute or 0) or bool(second),
            "R08": len(self.sent) >= (limits.max_orders_per_day or 0),
            "R10": is_buy and held > (limits.max_position_value or 0),
            "R13": is_buy and CASH - self.spent - pending - value < (limits.min_cash or 0),
            "R16": is_buy and flips > (limits.max_flips_per_symbol or 0),
        }
        assert nav > 0
        return [code for code, is_beyond in beyond.items() if is_beyond]


def play(seed: int) -> tuple[int, list[str]]:
    """Play one stream; return how many orders left, and what should not have."""
    dice = random.Random(seed)
    limits = AccountLimits(
        max_order_value=dice.choice((5_000_000, 20_000_000)),
        max_order_quantity=dice.choice((300, 5_000)),
        max_price_gap_ppm=20_000,
        max_open_orders=dice.choice((1, 2, 10)),
        max_orders_per_second=1,
        max_orders_per_minute=dice.choice((2, 6)),
        max_orders_per_day=dice.choice((5, 60)),
        max_position_value=dice.choice((280_000_000, 300_000_000, 10**12)),
        min_cash=dice.choice((5_000_000, 190_000_000)),
        max_flips_per_symbol=dice.choice((0, 1, 3)),
    )
    settings = EngineSettings(account_limits=limits, duplicate_window=timedelta(0))
    stage = Stage(settings=settings, cash=CASH, sellable=10_000)
    stage.after(1)  # the account read of an instant holds the fills of that instant
    judge, found, number = Judge(limits), list[str](), 0
    for _ in range(STEPS):
        stage.after(dice.choice((0, 0.3, 1, 5, 20, 70)))
        last = dice.choice((26_500, 26_900, 27_000, 27_100))
        stage.quote(last)
        side, lots = dice.choice(tuple(Side)), dice.choice((1, 2, 3, 4, 8, 60))
        price = last + 50 * dice.randint(-14, 14)

        def ask(one, side=side, quantity=100 * lots, price=price):
            (one.buy if side is Side.BUY else one.sell)(quantity, limit=price, why="dice")

        stage.request(ask)
        for placed in stage.new(PlaceOrder):
            number += 1
            intent, order_id = placed.intent, f"ORD{number}"
            found += [f"{code} {intent}" for code in judge.wrong(stage.now, intent, last)]
            judge.sent.append((stage.now, intent))
            stage.accept(intent, order_id)
            judge.open[order_id] = intent
        if judge.open and dice.random() < 0.6:
            _end(stage, judge, dice.choice(sorted(judge.open)), is_fill=dice.random() < 0.7)
    return len(judge.sent), found


def _end(stage: Stage, judge: Judge, order_id: str, *, is_fill: bool) -> None:
    intent = judge.open.pop(order_id)
    quantity, is_buy = intent.quantity, intent.side is Side.BUY
    row = report_of(intent, order_id, cancelled=quantity, state=OrderState.CANCELLED)
    if is_fill:
        row = report_of(intent, order_id, executed=quantity, state=OrderState.FILLED)
        judge.sides.append(intent.side)
        judge.shares += quantity if is_buy else -quantity
        judge.spent += quantity * (intent.limit_price or 0) if is_buy else 0
    stage.book(replace(row, status="ENDED"))
    assert not stage.new(AccountRead)


def main(streams: int, first: int) -> int:
    played = [play(seed) for seed in range(first, first + streams)]
    wrong = [each for _, found in played for each in found]
    left = sum(sent for sent, _ in played)
    sys.stdout.write(f"{streams} streams, {left:,} orders left, {len(wrong)} wrongly\n")
    sys.stdout.write("".join(f"{each}\n" for each in wrong[:20]))
    return bool(wrong)


if __name__ == "__main__":
    numbers = [int(each) for each in sys.argv[1:]]
    sys.exit(main(*(numbers + [2_000, 1][len(numbers) :])))
