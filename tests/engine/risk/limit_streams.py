"""Streams of orders against limits, judged by a plain reading of what a limit is.

A stream is one bot with random limits: what an earlier run has left it (orders of the day, requests
of the last minute, its usual buys, its shares), then some requests to buy, sell or close with
quotes, fills and cancels between them, in the morning or in the minutes before the closing auction.
The judge knows what left the engine and what was filled, and nothing of how it counts.

`nice python -m tests.engine.risk.limit_streams [STREAMS] [FIRST]` plays many short ones.
"""

import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median_low
from typing import Final

from bot.domain.entry import Decision, Verdict
from bot.domain.instrument import Exchange, Phase
from bot.domain.message import AccountRead, PlaceOrder, Record
from bot.domain.order import Intent, OrderState, OrderType, SendState, Side
from bot.domain.plan import AccountLimits, Limits
from bot.domain.recovery import RecoveredStrategy, Recovery, StoredIntent
from bot.engine.settings import EngineSettings
from tests.engine.stage import ACCOUNT, DAY, PLAN, START, Stage, report_of
from tests.proofs import undone

STEPS = 3
"""How often a stream asks, for one order or two."""
CASH, HELD, REFERENCE, CEILING = 200_000_000, 10_000, 27_000, 28_850
BEFORE_AUCTION = datetime.fromisoformat("2026-11-19T14:28:30+07:00")
AUCTION = datetime.fromisoformat("2026-11-19T14:30:00+07:00")
MINUTE, SECOND = timedelta(minutes=1), timedelta(seconds=1)
LETS_A_SALE_OUT: Final = {
    *("ORDER_RATE", "MAX_ORDERS", "FAT_FINGER", "CAPITAL"),
    *("POSITION_VALUE", "MIN_CASH", "FLIPS", "DAY_LOSS"),
}
"""Limits that keep no sale back."""


@dataclass
class Judge:
    """Every order sent, its open part, and its fills."""

    limits: AccountLimits
    own: Limits
    sent: list[tuple[datetime, Side]]
    buys: list[int]
    of_day: int
    shares: int
    open: dict[str, Intent] = field(default_factory=dict)
    sides: list[Side] = field(default_factory=list)
    bought: int = 0
    sold: int = 0

    def __post_init__(self) -> None:
        self.held_at_start = self.shares

    def wrong(self, at: datetime, intent: Intent, last: int) -> list[str]:
        """Return the limits that a sent order exceeds."""
        limits, own, price = self.limits, self.own, intent.limit_price or CEILING
        value, is_buy, quantity = intent.quantity * price, intent.side is Side.BUY, intent.quantity
        is_lot = not is_buy and quantity <= 100
        working = self.open.values()
        buys = [one for one in working if one.side is Side.BUY]
        pending = sum(one.quantity * (one.limit_price or CEILING) for one in buys)
        selling = sum(one.quantity for one in working if one.side is Side.SELL)
        counted = [t for t, side in self.sent if is_buy or side is Side.SELL]
        turns = [*self.sides, intent.side]
        flips = sum(one is not other for one, other in pairwise(turns))
        others = HELD - self.held_at_start
        result = self.shares * last - self.held_at_start * REFERENCE + self.sold - self.bought
        met = price if intent.limit_price else 27_000 if is_buy else 26_950
        opposite = [one.limit_price for one in working if one.side is not intent.side]
        prices = [one or CEILING for one in opposite]
        crosses = [one for one in prices if (price >= one if is_buy else price <= one)]
        is_at_market = intent.limit_price is None or None in opposite
        is_near = at >= AUCTION - MINUTE
        usual = median_low(self.buys[-20:]) if len(self.buys) >= 5 else value
        beyond = {
            "R01": value > (limits.max_order_value or 0) and not is_lot,
            "R01 of its own": value > (own.max_order_value or 0) and not is_lot,
            "R02": quantity > (limits.max_order_quantity or 0) and not is_lot,
            "R03": abs(met - last) * 100 > 2 * last,
            "R03 from the reference": abs(met - REFERENCE) * 100 > 3 * REFERENCE,
            "R04": is_buy and value > 5 * usual,
            "R04 unit": price > 5 * last or last > 5 * price,
            "R06": len(working) >= (limits.max_open_orders or 0) and not intent.closes_position,
            "R07 minute": sum(at - t < MINUTE for t in counted)
            >= (limits.max_orders_per_minute or 0),
            "R07 second": any(at - t < SECOND for t in counted),
            "R08": is_buy and self.of_day >= (limits.max_orders_per_day or 0),
            "R08 of its own": is_buy and self.of_day >= (own.max_orders_per_day or 0),
            "R10": is_buy
            and (self.shares + others) * last + pending + value > (limits.max_position_value or 0),
            "R12": is_buy and -result >= (limits.max_loss_per_day or 0),
            "R13": is_buy and CASH - self.bought - pending - value < (limits.min_cash or 0),
            "R15": bool(opposite) and (bool(crosses) or is_at_market or is_near),
            "R16": is_buy and flips > (limits.max_flips_per_symbol or 0),
            "R21": not is_buy and selling + quantity > self.shares,
            "R28": is_buy and self.shares * last + pending + value > (own.capital or 0),
        }
        return [code for code, is_beyond in beyond.items() if is_beyond]

    def send(self, at: datetime, intent: Intent, order_id: str) -> None:
        """Count a sent order."""
        self.sent.append((at, intent.side))
        self.of_day += 1
        self.open[order_id] = intent
        if intent.side is Side.BUY:
            self.buys.append(intent.quantity * (intent.limit_price or CEILING))


@dataclass
class Played:
    """The result of a stream: orders sent, those that should not have been, all decisions."""

    left: int = 0
    wrong: list[str] = field(default_factory=list)
    codes: Counter[str] = field(default_factory=Counter)


def play(seed: int) -> Played:
    """Play one stream."""
    dice = random.Random(seed)
    limits = AccountLimits(
        max_order_value=dice.choice((2_000_000, 9_000_000, 20_000_000, 20_000_000)),
        max_order_quantity=dice.choice((50, 300, 5_000, 5_000, 5_000)),
        max_price_gap_ppm=20_000,
        max_reference_gap_ppm=30_000,
        max_open_orders=dice.choice((1, 2, 10)),
        max_orders_per_second=1,
        max_orders_per_minute=dice.choice((2, 6, 6)),
        max_orders_per_day=dice.choice((0, 5, 8, 60, 60)),
        max_position_value=dice.choice((275_000_000, 300_000_000, 10**12)),
        max_loss_per_day=dice.choice((300_000, 2_000_000)),
        min_cash=dice.choice((5_000_000, 190_000_000)),
        max_flips_per_symbol=dice.choice((0, 1, 3)),
    )
    own = Limits(
        max_order_value=dice.choice((6_000_000, 20_000_000)),
        max_orders_per_day=dice.choice((4, 7, 30)),
        max_times_median=5,
        capital=dice.choice((16_000_000, 30_000_000, 10**12)),
    )
    judge, recovery = _begun(dice, limits, own)
    settings = EngineSettings(account_limits=limits, duplicate_window=timedelta(0))
    stage = Stage(
        replace(PLAN, limits=own), settings=settings, cash=CASH, sellable=HELD, recovery=recovery
    )
    stage.after(1)  # the account read of an instant holds the fills of that instant
    is_late = dice.random() < 0.4
    if is_late:
        stage.now = max(stage.now, BEFORE_AUCTION)
        stage.phase(Phase.PROGRESS)
    played, heard = Played(), len(stage.commands)
    for _ in range(STEPS):
        stage.after(dice.choice((0, 0.3, 1, 3, 20) if is_late else (0, 0.3, 1, 3, 20, 70)))
        if is_late and stage.now >= AUCTION:
            break
        last = dice.choice((26_000, 26_850, 26_900, 27_000, 27_000, 27_050, 27_600))
        stage.quote(last)
        if dice.random() < 0.3:
            stage.depth()
        _ask(stage, dice, last)
        for command in stage.commands[heard:]:
            if isinstance(command, PlaceOrder):
                intent, order_id = command.intent, f"ORD{played.left}"
                played.left += 1
                found = judge.wrong(stage.now, intent, last)
                played.wrong += [f"{code} seed {seed} {intent}" for code in found]
                judge.send(stage.now, intent, order_id)
                stage.accept(intent, order_id)
            elif isinstance(command, Record) and isinstance(command.entry, Decision):
                decision = command.entry
                played.codes[decision.code] += 1
                if decision.verdict is Verdict.BLOCKED and decision.side is Side.SELL:
                    is_wrong = decision.code in LETS_A_SALE_OUT
                    played.wrong += [f"keeps a sale: {decision}"] * is_wrong
        heard = len(stage.commands)
        if judge.open and dice.random() < 0.6:
            _end(stage, judge, dice.choice(sorted(judge.open)), is_fill=dice.random() < 0.7)
    return played


def _begun(dice: random.Random, limits: AccountLimits, own: Limits) -> tuple[Judge, Recovery]:
    """Return what an earlier run of the day has used, for the judge and for the engine."""
    buys = [dice.choice((1, 5, 5, 10)) * 540_000 for _ in range(dice.choice((0, 4, 5, 20)))][-20:]
    of_day, shares = dice.choice((0, 3, 4, 5)), dice.choice((0, 500, 1_000))
    ago = [dice.choice((0.5, 2, 30, 58.9)) for _ in range(of_day)]
    sides = [dice.choice(tuple(Side)) for _ in range(of_day)]
    sent = sorted((START - SECOND * each, side) for each, side in zip(ago, sides, strict=True))
    intents = tuple(
        StoredIntent(
            Intent(
                intent_id=f"L-{number:04}",
                signal_id=f"test:HPG:{number}",
                strategy="test",
                account=ACCOUNT,
                trading_date=DAY,
                symbol="HPG",
                exchange=Exchange.HOSE,
                side=side,
                quantity=100,
                order_type=OrderType.LO,
                limit_price=25_500,
                why="of before",
                created_at=at,
                ttl_at=at,
            ),
            SendState.REFUSED,
            None,
            None,
        )
        for number, (at, side) in enumerate(sent, 1)
    )
    kept = RecoveredStrategy(
        {"HPG": (shares, shares * 26_000)}, of_day, 0, 0, "on", recent_buys=tuple(buys)
    )
    recovery = Recovery(
        DAY,
        next_intent_number=of_day + 1,
        intents=intents,
        strategies={"test": kept},
        recent_requests=tuple((ACCOUNT, at) for at, _ in sent),
        recent_sales=tuple((ACCOUNT, at) for at, side in sent if side is Side.SELL),
    )
    return Judge(limits, own, list(sent), buys, of_day, shares), recovery


def _ask(stage: Stage, dice: random.Random, last: int) -> None:
    """Make the strategy request one or two orders at once."""
    for _ in range(dice.choice((1, 1, 2))):
        quantity = 100 * dice.choice((1, 1, 1, 2, 3, 6, 60))
        price = last + 50 * dice.randint(*dice.choice(((-2, 2), (-2, 2), (-14, 14))))
        price *= dice.choice((10, 1_000)) if dice.random() < 0.05 else 1
        kind = dice.choice(("buy", "buy", "buy", "sell", "sell", "close", "market"))

        def ask(one, kind=kind, quantity=quantity, price=price):
            if kind == "close":
                one.close(limit=price, why="dice")
            elif kind == "market":
                one.buy(quantity, market=OrderType.MTL, why="dice")
            else:
                (one.buy if kind == "buy" else one.sell)(quantity, limit=price, why="dice")

        stage.request(ask)


def _end(stage: Stage, judge: Judge, order_id: str, *, is_fill: bool) -> None:
    intent = judge.open.pop(order_id)
    quantity, is_buy = intent.quantity, intent.side is Side.BUY
    price = intent.limit_price or REFERENCE
    row = report_of(intent, order_id, cancelled=quantity, state=OrderState.CANCELLED)
    if is_fill:
        row = report_of(
            intent,
            order_id,
            executed=quantity,
            executed_amount=quantity * price,
            state=OrderState.FILLED,
        )
        judge.sides.append(intent.side)
        judge.shares += quantity if is_buy else -quantity
        judge.bought += quantity * price if is_buy else 0
        judge.sold += 0 if is_buy else quantity * price
    stage.book(replace(row, status="ENDED"))
    assert not stage.new(AccountRead)


def main(streams: int = 2_000, first: int = 1) -> int:
    """Play so many; 0 when no order left that should not have."""
    began, left, wrong, codes = time.monotonic(), 0, list[str](), Counter[str]()
    for seed in range(first, first + streams):
        played = play(seed)
        left += played.left
        wrong += played.wrong[: 20 - len(wrong)]
        codes += played.codes
    took = time.monotonic() - began
    met = ", ".join(f"{code} {count:,}" for code, count in codes.most_common())
    sys.stdout.write(f"{streams:,} streams of {STEPS} asks in {took:,.0f} s: {left:,} orders left,")
    sys.stdout.write(f" {len(wrong)} wrongly. Decisions: {met}\n")
    wrong += undone(orders=left, decisions=codes.total())
    sys.stdout.write("".join(f"{each}\n" for each in wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
