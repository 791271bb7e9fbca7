"""A house with a mirrored market, for tests: observations, our orders, and their results."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from bot.config.rulebook import load_rulebook
from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.order import OrderType, Side
from bot.sandbox.house.house import House
from bot.sandbox.house.order_record import OrderRecord
from bot.sandbox.scenario import Scenario

RULEBOOK = load_rulebook()
ACCOUNT = "0009000011"
CASH = 10_000_000_000
SHARES = 100_000
Levels = list[tuple[int, int]]


def mirrored(fill: str, **keys: Any) -> Scenario:
    """HPG on HOSE at 27,000 and SHS on HNX at 18,500; 09:20 of a Thursday unless told otherwise."""
    facts = {
        "name": "mirror",
        "day": "2026-11-19",
        "start": "09:20:00",
        "fill": fill,
        "symbols": [
            {"symbol": "HPG", "exchange": "HOSE", "reference": 27_000},
            {"symbol": "SHS", "exchange": "HNX", "reference": 18_500},
        ],
        "accounts": [{"id": ACCOUNT, "cash": CASH, "holdings": {"HPG": SHARES}}],
    }
    return Scenario.model_validate(facts | keys)


@dataclass
class Mirror:
    """A house and the instant of its next input."""

    house: House
    at: datetime

    def after(self, seconds: float) -> "Mirror":
        """Let time pass."""
        self.at += timedelta(seconds=seconds)
        self.house.advance(self.at)
        return self

    def until(self, clock: str) -> "Mirror":
        """Let time pass until a time of the running local day."""
        local = self.at.astimezone(EXCHANGE_TZ)
        hour, minute, second = map(int, clock.split(":"))
        self.at = local.replace(hour=hour, minute=minute, second=second, microsecond=0)
        self.house.advance(self.at)
        return self

    def line(self, kind: str, **facts: Any) -> Any:
        """Carry out a line."""
        return self.house.carry_out({"kind": kind, "at": self.at.isoformat(), **facts})

    def depth(self, bids: Levels, asks: Levels, symbol: str = "HPG") -> "Mirror":
        """Show a depth."""
        sides = {"bids": [list(each) for each in bids], "asks": [list(each) for each in asks]}
        self.line("mirror_depth", symbol=symbol, seen=self.at.isoformat(), **sides)
        return self

    def quote(self, last: int, volume: int | None, symbol: str = "HPG", **frame: int) -> "Mirror":
        """Show a quote."""
        names = ("reference", "ceiling", "floor", "open", "high", "low")
        facts = dict.fromkeys(names) | frame
        self.line("mirror_quote", symbol=symbol, last=last, volume=volume, **facts)
        return self

    def lose(self, why: str = "test", symbol: str = "HPG") -> "Mirror":
        """Show nothing from now on."""
        self.line("mirror_lost", symbol=symbol, why=why)
        return self

    def place(
        self, side: str, quantity: int, price: int | None, symbol: str = "HPG", kind: str = "LO"
    ) -> OrderRecord:
        """Place an order."""
        body = {
            "sub_account": "120C900001.1",
            "side": Side(side),
            "symbol": symbol,
            "quantity": quantity,
            "order_type": OrderType(kind),
            "limit_price": price,
        }
        change = self.line("place", account=ACCOUNT, body=body)
        order = self.house.day_order_book.find(change.result.order_id)
        assert order is not None
        return order


def mirror(fill: str, **keys: Any) -> Mirror:
    """A mirrored house at its start."""
    scenario = mirrored(fill, **keys)
    return Mirror(House(scenario, RULEBOOK), scenario.starts_at)


def filled(order: OrderRecord) -> tuple[int, int]:
    """Executed shares and their amount."""
    return order.executed_quantity, order.executed_amount
