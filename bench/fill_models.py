"""The fill models of paper mode side by side: the same orders, the same displayed market.

    python -m bench.fill_models [--orders 24] [--poll 5] [--seed 7]

A simulated market plays the real one. Every few seconds its quotes and depth are shown to three
paper houses, one for each model, as polls would. Each order goes to all three, and to the real
market played once more up to that moment, where it is matched among the others: what it would have
got. Fills are counted after 15 minutes, when the order is taken back.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from itertools import cycle
from pathlib import Path

import click
from pydantic import JsonValue

from bot.config.rulebook import load_rulebook
from bot.config.scenario_file import load_scenario
from bot.domain.order import OrderType, Side
from bot.domain.quote import Quote
from bot.sandbox.house.house import House
from bot.sandbox.house.ledger import Line
from bot.sandbox.house.order_record import OrderRecord
from bot.sandbox.markets.mirror.market import depth_facts, quote_facts
from bot.sandbox.markets.mirror.model import MODELS
from bot.sandbox.scenario import Scenario

RULEBOOK = load_rulebook()
SYMBOLS = ("HPG", "PNJ", "VNM", "SHS", "ACV")
LIFE = timedelta(minutes=15)
BETWEEN = timedelta(minutes=5)
LARGEST = 500_000
START = time(9, 20)
REAL = "real"
WISHES = (
    ("sweep", Side.BUY, "ask", 2, 2.0),
    ("join", Side.BUY, "bid", 0, 0.1),
    ("take", Side.SELL, "bid", 0, 1.5),
    ("join", Side.SELL, "ask", 0, 0.1),
    ("improve", Side.BUY, "bid", 1, 0.5),
    ("take", Side.BUY, "ask", 0, 0.3),
)
"""What the orders do: side, displayed price and ticks above it, and shares as a multiple of what is
displayed.
"""


@dataclass
class Wish:
    """One order and its result in each house."""

    at: datetime
    what: str
    symbol: str
    side: Side
    price: int
    quantity: int
    houses: dict[str, House] = field(default_factory=dict)
    records: dict[str, OrderRecord] = field(default_factory=dict)

    def filled(self, house: str) -> str:
        """Shares and their average price, floored."""
        record = self.records[house]
        return f"{record.executed_quantity:>7,} {record.average_price or '-':>8}"


class Comparison:
    """The real market, the three paper houses that observe it, and the orders."""

    def __init__(self, scenario: Scenario, poll: timedelta) -> None:
        self._scenario = scenario
        self._account = scenario.accounts[0].id
        self._poll = poll
        self._real = House(scenario, RULEBOOK)
        self._papers: dict[str, House] = {
            name: House(scenario.model_copy(update={"fill": name}), RULEBOOK) for name in MODELS
        }
        self._kinds, self._symbols = cycle(WISHES), cycle(SYMBOLS)
        self.wishes: list[Wish] = []

    def run(self, orders: int) -> None:
        """Play until the last order's time is over."""
        at = self._real.now
        while len(self.wishes) < orders or any(wish.houses for wish in self.wishes):
            at += self._poll
            self._show(at)
            for wish in self.wishes:
                self._follow(wish, at)
            is_due = not self.wishes or at - self.wishes[-1].at >= BETWEEN
            if is_due and len(self.wishes) < orders:
                self._order(at)

    def _show(self, at: datetime) -> None:
        self._real.advance(at)
        for symbol in SYMBOLS:
            depth = self._real.venue.depth(symbol)
            facts = {"seen": at.isoformat(), **depth_facts(depth)}
            for paper in self._papers.values():
                paper.carry_out(_line("mirror_quote", at, **quote_facts(self._quote(symbol))))
                paper.carry_out(_line("mirror_depth", at, **facts))

    def _quote(self, symbol: str) -> Quote:
        board = self._real.venue.board(symbol)
        last = board.last or board.reference
        frame = (board.reference, board.ceiling, board.floor, board.open, board.high, board.low)
        return Quote(symbol, board.instrument.exchange, last, *frame, board.volume, None)

    def _order(self, at: datetime) -> None:
        (what, side, basis, ticks, part), symbol = next(self._kinds), next(self._symbols)
        depth = self._real.venue.depth(symbol)
        best = depth.bids if basis == "bid" else depth.asks
        if not best:
            return
        price = best[0].price
        for _ in range(ticks):
            price = RULEBOOK.ticks_of(self._real.venue.board(symbol).instrument).up(price)
        quantity = min(LARGEST, max(100, int(best[0].volume * part) // 100 * 100))
        wish = Wish(at, what, symbol, side, price, quantity)
        wish.houses = {REAL: self._once_more(at)}
        wish.houses.update(self._papers)
        for name, house in wish.houses.items():
            wish.records[name] = self._placed(house, wish)
        self.wishes.append(wish)

    def _once_more(self, at: datetime) -> House:
        """Play the real market again up to now; it is a function of its seed."""
        house = House(self._scenario, RULEBOOK)
        house.advance(at)
        return house

    def _placed(self, house: House, wish: Wish) -> OrderRecord:
        body: JsonValue = {
            "sub_account": None,
            "side": wish.side,
            "symbol": wish.symbol,
            "quantity": wish.quantity,
            "order_type": OrderType.LO,
            "limit_price": wish.price,
        }
        change = house.carry_out(_line("place", wish.at, account=self._account, body=body))
        assert change is not None, "a place changes an order"
        record = house.day_order_book.find(change.result.order_id)
        assert record is not None, "what was placed is kept"
        return record

    def _follow(self, wish: Wish, at: datetime) -> None:
        """Advance the order's own copy of the real market; cancel the order when its time is up."""
        if not wish.houses:
            return
        wish.houses[REAL].advance(at)
        if at - wish.at >= LIFE:
            for name, house in wish.houses.items():
                house.carry_out(_line("cancel", at, order=wish.records[name].order_id))
            wish.houses = {}


def _line(kind: str, at: datetime, **facts: JsonValue) -> Line:
    return {"kind": kind, "at": at.isoformat(), **facts}


def table(wishes: Sequence[Wish]) -> Iterator[str]:
    """Every order on a line, then each house's total."""
    houses = (*MODELS, REAL)
    heads = " ".join(f"{name:>16}" for name in houses)
    yield f"{'order':<48} {heads}"
    for wish in wishes:
        local = wish.at + timedelta(hours=7)
        words = f"{wish.what:<7} {wish.side:<4} {wish.quantity:>8,} {wish.symbol} {wish.price:,}"
        row = " ".join(wish.filled(name) for name in houses)
        yield f"{local:%H:%M:%S} {words:<39} {row}"
    yield f"{'shares filled, all orders':<48} " + " ".join(_total(wishes, each) for each in houses)
    for what in dict.fromkeys(wish.what for wish in wishes):
        some = [wish for wish in wishes if wish.what == what]
        yield f"{f'  of these: {what}':<48} " + " ".join(_total(some, each) for each in houses)


def _total(wishes: Sequence[Wish], house: str) -> str:
    ordered = sum(wish.quantity for wish in wishes)
    filled = sum(wish.records[house].executed_quantity for wish in wishes)
    return f"{filled:>9,} {filled * 100 // ordered:>5}%"


def _market(seed: int) -> Scenario:
    """Some symbols of the shipped market, and an account that can buy and sell everything."""
    market = load_scenario("market", Path.cwd())
    symbols = tuple(each for each in market.symbols if each.symbol in SYMBOLS)
    holdings = dict.fromkeys(SYMBOLS, 10_000_000)
    account = market.accounts[0].model_copy(update={"cash": 10**12, "holdings": holdings})
    return market.model_copy(
        update={"symbols": symbols, "accounts": (account,), "seed": seed, "start": START}
    )


@click.command(help=__doc__)
@click.option("--orders", default=24, show_default=True)
@click.option("--poll", default=5.0, show_default=True, help="Seconds of market time.")
@click.option("--seed", default=7, show_default=True)
def main(orders: int, poll: float, seed: int) -> None:
    """Print the table."""
    comparison = Comparison(_market(seed), timedelta(seconds=poll))
    comparison.run(orders)
    for line in table(comparison.wishes):
        click.echo(line)


if __name__ == "__main__":
    main()
