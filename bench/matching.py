"""How fast the exchange core matches, compared with a bare book and a published one on the same
orders.

    .venv/bin/python bench/matching.py [--rounds 5] [--seed 4] [--operations 100000]

65 % limit orders, 10 % sweeping ones, 25 % cancels of one HOSE share in continuous trading. The
venue checks each order against the rulebook and returns events; the bare book checks nothing. Each
gets its operations in its own form, made before the clock starts. The package `akhil4n-orderbook`
is included if installed.
"""

import gc
import importlib.util
import statistics
import time
import tracemalloc
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from heapq import heappop, heappush
from random import Random
from typing import Any, NamedTuple

import click

from bot.config.rulebook import load_rulebook
from bot.domain.instrument import Exchange, Instrument
from bot.domain.order import OrderType, Side
from bot.sandbox.exchange.message import CROWD, Listing, NewOrder
from bot.sandbox.exchange.venue import Venue

AT = datetime(2026, 11, 19, 2, 30, tzinfo=UTC)
"""09:30 local on a Thursday, HOSE continuous."""
SYMBOL, REFERENCE, TICK = "HPG", 25_350, 50
LOWEST, HIGHEST = 24_200, 26_500
WANTED = {"bare": 0.2, "package": 1.0}
LONG_RUN, LONG_RUN_WANTED = 4, 0.8

Run = Callable[[], int]
"""Executes all operations and returns how many shares traded."""


class Operation(NamedTuple):
    """`price` 0: cancel the order of that name."""

    name: str
    is_buy: bool
    price: int
    quantity: int


# -------------------------------------------------------------------------------- the bare book


class BareBook:
    """A dict of deques of orders, a heap of prices for each side, and nothing else."""

    def __init__(self) -> None:
        self.levels: tuple[dict[int, deque[list[Any]]], ...] = ({}, {})
        self.heaps: tuple[list[int], ...] = ([], [])
        self.live: dict[str, list[Any]] = {}
        self.trades: list[tuple[str, str, int, int]] = []

    def submit(self, name: str, is_buy: bool, price: int, left: int) -> None:  # noqa: FBT001
        """Trade as far as the price reaches, then rest. Sides have signs, as the heap is a minimum
        heap.
        """
        sign = -1 if is_buy else 1
        levels, heap, live = self.levels[is_buy], self.heaps[is_buy], self.live
        while left and heap and heap[0] <= -sign * price:
            key = heap[0]
            queue = levels[key]
            while queue and left:
                maker = queue[0]
                quantity = left if left < maker[1] else maker[1]  # noqa: FURB136 (twice as fast)
                if quantity:
                    self.trades.append((name, maker[0], abs(key), quantity))
                left -= quantity
                maker[1] -= quantity
                if not maker[1]:
                    queue.popleft()
                    live.pop(maker[0], None)
            if not queue:
                heappop(heap)
                del levels[key]
        if left:
            self._rest(name, sign * price, left, self.levels[not is_buy], self.heaps[not is_buy])

    def _rest(
        self, name: str, key: int, left: int, levels: dict[int, deque[list[Any]]], heap: list[int]
    ) -> None:
        order = [name, left]
        queue = levels.get(key)
        if queue is None:
            queue = levels[key] = deque()
            heappush(heap, key)
        queue.append(order)
        self.live[name] = order

    def cancel(self, name: str) -> None:
        """Leave an emptied order in its queue, to be removed when it is reached."""
        order = self.live.pop(name, None)
        if order is not None:
            order[1] = 0


# ------------------------------------------------------------------------------- the operations


def operations(seed: int, count: int) -> list[Operation]:
    """Make random operations around a random walk of the price. A cancel names a working order."""
    random, book, middle = Random(seed), BareBook(), REFERENCE
    made: list[Operation] = []
    names: list[str] = []
    while len(made) < count:
        middle = min(max(middle + random.choice((-TICK, 0, TICK)), LOWEST), HIGHEST)
        dice, name, is_buy = random.random(), f"o{len(made)}", random.random() < 0.5
        if dice < 0.65:
            away = TICK * random.randint(1, 12)
            price = middle - away if is_buy else middle + away
            made.append(Operation(name, is_buy, price, 100 * random.randint(1, 10)))
            names.append(name)
        elif dice < 0.75:
            away = TICK * random.randint(2, 10)
            price = middle + away if is_buy else middle - away
            made.append(Operation(name, is_buy, price, 100 * random.randint(10, 40)))
        else:
            found = _working(random, book, names)
            if found is None:
                continue
            made.append(Operation(found, is_buy, 0, 0))
        _work(book, made[-1])
    return made


def _working(random: Random, book: BareBook, names: list[str]) -> str | None:
    """Draw a working order; names of ended ones are dropped on the way."""
    while names:
        where = random.randrange(len(names))
        names[where], names[-1] = names[-1], names[where]
        name = names.pop()
        if name in book.live:
            return name
    return None


def _work(book: BareBook, operation: Operation) -> None:
    if operation.price:
        book.submit(*operation)
    else:
        book.cancel(operation.name)


# ------------------------------------------------------------------------------ the contestants


def bare(made: Sequence[Operation]) -> Run:
    """Prepare the bare book."""
    book = BareBook()

    def run() -> int:
        submit, cancel = book.submit, book.cancel
        for name, is_buy, price, quantity in made:
            if price:
                submit(name, is_buy, price, quantity)
            else:
                cancel(name)
        return sum(trade[3] for trade in book.trades)

    return run


def new_venue() -> Venue:
    """Open a venue that lists one share."""
    listing = Listing(Instrument(SYMBOL, Exchange.HOSE), REFERENCE)
    return Venue(load_rulebook(), [listing], start=AT)


def venue(made: Sequence[Operation]) -> Run:
    """Prepare the venue; a cancel is just the name."""
    orders = [_new_order(each) if each.price else each.name for each in made]
    market = new_venue()

    def run() -> int:
        submit, cancel = market.submit, market.cancel
        for each in orders:
            if each.__class__ is str:
                cancel(each, AT)
            else:
                submit(each, AT)  # type: ignore[arg-type]
        return market.board(SYMBOL).volume

    return run


def _new_order(each: Operation) -> NewOrder:
    side = Side.BUY if each.is_buy else Side.SELL
    return NewOrder(each.name, CROWD, SYMBOL, side, each.quantity, OrderType.LO, each.price)


def package(made: Sequence[Operation]) -> Run:
    """Prepare the package's book. Raises ModuleNotFoundError if it is not installed."""
    theirs: Any = importlib.import_module("orderbook")
    sides = {True: theirs.OrderSide.BID, False: theirs.OrderSide.ASK}
    orders: list[Any] = []
    ids: dict[str, str] = {}
    for each in made:
        if each.price:
            order = theirs.Order(sides[each.is_buy], each.price, each.quantity)
            ids[each.name] = order.order_id
            orders.append(order)
        else:
            orders.append(ids[each.name])
    book = theirs.OrderBook()

    def run() -> int:
        submit, cancel = book.add_limit_order, book.cancel_order
        for each in orders:
            if each.__class__ is str:
                cancel(each)
            else:
                submit(each)
        return sum(trade.quantity_filled for trade in book.trade_log)

    return run


CONTESTANTS: dict[str, Callable[[Sequence[Operation]], Run]] = {
    "bare": bare,
    "package": package,
    "venue": venue,
}


# -------------------------------------------------------------------------------- the measuring


def rate(contestant: str, made: Sequence[Operation]) -> tuple[float, int]:
    """Return operations per second of CPU time, and the shares traded."""
    run = CONTESTANTS[contestant](made)
    gc.collect()
    started_s = time.process_time()
    traded = run()
    return len(made) / (time.process_time() - started_s), traded


def bytes_of_open_orders(count: int) -> int:
    """Return the memory of `count` resting orders, without the requests themselves."""
    market, orders = new_venue(), [_new_order(each) for each in _resting(count)]
    tracemalloc.start()
    for order in orders:
        market.submit(order, AT)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return taken


def bytes_after(made: Sequence[Operation]) -> tuple[int, int]:
    """Return the venue's memory after all operations, and how many orders are working then."""
    market = new_venue()
    orders = [_new_order(each) if each.price else each.name for each in made]
    tracemalloc.start()
    for each in orders:
        if isinstance(each, str):
            market.cancel(each, AT)
        else:
            market.submit(each, AT)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return taken, len(market.open_orders())


def _resting(count: int) -> list[Operation]:
    spread = (HIGHEST - LOWEST) // (2 * TICK)
    prices = [(LOWEST + TICK * (n % spread), HIGHEST - TICK * (n % spread)) for n in range(count)]
    return [
        Operation(f"o{n}", n % 2 == 0, bid if n % 2 == 0 else ask, 100)
        for n, (bid, ask) in enumerate(prices)
    ]


def installed() -> list[str]:
    """Return the contestants that can run here."""
    if importlib.util.find_spec("orderbook") is None:
        click.echo("akhil4n-orderbook is not installed: compared with the bare book alone")
        return ["bare", "venue"]
    return list(CONTESTANTS)


@click.command()
@click.option("--rounds", default=5, show_default=True)
@click.option("--seed", default=4, show_default=True)
@click.option("--operations", "count", default=100_000, show_default=True)
def main(rounds: int, seed: int, count: int) -> None:
    """Print rates, and ratios as medians of the rounds."""
    names, made = installed(), operations(seed, LONG_RUN * count)
    click.echo(f"seed {seed}: {_mix(made[:count])}")
    rates: list[dict[str, float]] = []
    for number in range(rounds):
        found = {name: rate(name, made[:count]) for name in names}
        assert len({traded for _, traded in found.values()}) == 1, "all trade the same shares"
        rates.append({name: each for name, (each, _) in found.items()})
        rates[-1]["long"] = rate("venue", made)[0]
        shown = "  ".join(f"{name} {each:9,.0f}/s" for name, each in rates[-1].items())
        click.echo(f"round {number + 1}  {shown}")
    for name in names[:-1]:
        _print_ratio(rates, "venue", name, WANTED[name])
    _print_ratio(rates, "long", "venue", LONG_RUN_WANTED)
    _print_memory(made[:count], made)


def _mix(made: Sequence[Operation]) -> str:
    cancels = sum(not each.price for each in made)
    sweeps = sum(each.quantity >= 1_000 for each in made)
    return f"{len(made):,} operations, {cancels:,} cancels, {sweeps:,} of 1,000 shares or more"


def _print_ratio(rates: list[dict[str, float]], one: str, other: str, wanted: float) -> None:
    middle = statistics.median(each[one] for each in rates)
    ratios = [each[one] / each[other] for each in rates]
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
    ratio = f"{statistics.median(ratios):.2f} of {other} ({spread}; wanted {wanted})"
    click.echo(f"{one:6} {middle:9,.0f}/s, {ratio}")


def _print_memory(short: Sequence[Operation], whole: Sequence[Operation]) -> None:
    for count in (10_000, 20_000, 40_000):
        click.echo(f"{count:,} open orders: {bytes_of_open_orders(count) / count:.0f} bytes each")
    for made in (short, whole):
        taken, working = bytes_after(made)
        click.echo(f"{len(made):,} operations: {working:,} work, {taken:,} bytes held")


if __name__ == "__main__":
    main()
