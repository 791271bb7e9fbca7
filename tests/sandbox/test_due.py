"""The cached next due instant is the one that asking everything again would give."""

from collections.abc import Callable
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest

from bot.domain.instrument import Exchange
from bot.domain.quote import Quote
from bot.sandbox.house.house import House
from tests.sandbox.client import RULEBOOK, scenario
from tests.sandbox.markets.mirror.mirrored import Mirror, mirror

DEEDS = 60
DROP = {"do": "drop_2fa", "code": "OTP_SESSION_REVOKED"}
MOVING: dict[str, Any] = {
    "start": "14:20:00",
    "symbols": [
        {"symbol": "HPG", "exchange": "HOSE", "reference": 27_000},
        {"symbol": "SHS", "exchange": "HNX", "reference": 18_500},
    ],
    "accounts": [{"id": "0009000011", "cash": 10**12, "holdings": {"HPG": 90_000}}],
    "faults": [{"match": {"at": "14:21:30"}, "action": DROP}],
    "corporate_actions": [
        {
            "do": "cash_dividend",
            "vnd_per_share": 500,
            "symbol": "HPG",
            "ex_date": "2026-11-20",
            "pays_on": "2026-11-23",
        }
    ],
}


class Life:
    """Random things that happen to a house, seeded."""

    def __init__(self, told: Mirror, seed: int) -> None:
        self.told = told
        self.random = Random(seed)

    def place(self) -> None:
        price = 27_000 + 50 * self.random.randrange(-20, 20)
        self.told.place(self.random.choice(("BUY", "SELL")), 300, price)

    def cancel(self) -> None:
        orders = self.told.house.day_order_book.every()
        if orders:
            self.told.line("cancel", order=self.random.choice(orders).order_id)

    def amend(self) -> None:
        orders = self.told.house.day_order_book.every()
        if orders:
            body = {"quantity": 500, "limit_price": None}
            self.told.line("amend", order=self.random.choice(orders).order_id, body=body)

    def pass_time(self) -> None:
        self.told.after(self.random.choice((0, 0, 0.3, 1, 5, 61)))

    def pass_the_night(self) -> None:
        """Shares go ex at eight in the morning."""
        self.told.until("23:59:59").after(1).until("08:58:00")

    def drop_at_a_time(self) -> None:
        at = (self.told.at + timedelta(minutes=self.random.randrange(-2, 9))).time()
        local = (datetime.combine(self.told.at, at) + timedelta(hours=7)).time()
        match = {"at": local.isoformat(timespec="seconds")}
        self.told.line("add_fault", script={"match": match, "action": DROP})

    def end_faults(self) -> None:
        self.told.line("end_faults")


class MirroredLife(Life):
    """What is seen of another market, besides."""

    def see_depth(self) -> None:
        bid = 26_500 + 50 * self.random.randrange(15)
        self.told.depth([(bid, 1_000), (bid - 50, 900)], [(bid + 50, 700)])

    def see_quote(self) -> None:
        self.told.quote(27_000, self.random.randrange(10_000, 90_000))

    def see_nothing(self) -> None:
        self.told.lose()

    def be_shown(self) -> None:
        if not any(order.remaining for order in self.told.house.day_order_book.every()):
            self.told.house.show(quote(reference=27_000 + 50 * self.random.randrange(5)))


def quote(reference: int) -> Quote:
    return Quote(
        symbol="HPG",
        exchange=Exchange.HOSE,
        last=27_000,
        reference=reference,
        ceiling=28_850,
        floor=25_150,
        open=27_000,
        high=27_000,
        low=27_000,
        volume=9_000,
        updated_at=None,
    )


def lively(seed: int) -> Life:
    told = scenario(**MOVING, seed=seed)
    return Life(Mirror(House(told, RULEBOOK), told.starts_at), seed)


def lively_mirror(seed: int) -> Life:
    life = MirroredLife(mirror("queue", start="14:20:00", faults=MOVING["faults"]), seed)
    life.see_quote()
    life.see_depth()
    life.place()
    return life


@pytest.mark.parametrize("make", [lively, lively_mirror])
def test_whatever_happens_the_kept_instant_is_the_one_reckoned_anew(
    make: Callable[[int], Life],
) -> None:
    life = make(7)
    house, deeds = life.told.house, deeds_of(life)

    for let_time_pass in (life.pass_time, life.pass_the_night):
        let_time_pass()
        for _ in range(DEEDS):
            assert house.next_due() == house.earliest_due()
            life.random.choice(deeds)()
    assert any(order.executed_quantity for order in house.day_order_book.every())


def deeds_of(life: Life) -> list[Callable[[], None]]:
    names = [name for kind in type(life).__mro__ for name in vars(kind) if name[0] != "_"]
    names.remove("pass_the_night")
    often = ["pass_time"] * 4 + ["place"] * 2
    return [getattr(life, name) for name in (*names, *often)]
