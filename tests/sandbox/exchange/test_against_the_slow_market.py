"""Random days: the venue does what the plain list does, and nothing is made or lost."""

from collections.abc import Iterator
from contextlib import contextmanager

from hypothesis import given, settings
from hypothesis import strategies as st

from bot.domain.instrument import Exchange
from bot.sandbox.exchange.accounts import Account
from bot.sandbox.exchange.message import LiveOrder, Traded, Uncrossed
from tests.sandbox.exchange.slow_market import SlowMarket
from tests.sandbox.exchange.stage import (
    FRIDAY,
    MONDAY,
    REFERENCES,
    SYMBOLS,
    THURSDAY,
    Stage,
    fills,
    listing,
    local,
    only,
    rules,
)

SIDES = st.sampled_from(["BUY", "SELL"])
LOTS = st.integers(1, 6).map(lambda lots: lots * 100)
STEPS = st.integers(-4, 4) | st.sampled_from([-99, 99])
PRICED = st.tuples(st.just("LO"), SIDES, LOTS, STEPS)
UNPRICED = st.tuples(st.sampled_from(["MTL", "MAK", "MOK"]), SIDES, LOTS, st.just(0))
CHANGES = st.tuples(
    st.sampled_from(["cancel", "price", "quantity"]), st.integers(0, 9), LOTS, STEPS
)
DAY = st.lists(PRICED | PRICED | UNPRICED | CHANGES, max_size=30)
AUCTION = st.lists(PRICED | st.tuples(st.just("AO"), SIDES, LOTS, st.just(0)), max_size=14)


def ticks_of(exchange: Exchange) -> list[int]:
    instrument, reference = listing(exchange).instrument, REFERENCES[SYMBOLS[exchange]]
    band = rules().band(instrument, reference)
    prices = range(band.floor, band.ceiling + 1)
    return [price for price in prices if rules().ticks_of(instrument).is_on_grid(price)]


TICKS = {exchange: ticks_of(exchange) for exchange in (Exchange.HOSE, Exchange.HNX)}


def price_at(exchange: Exchange, step: int) -> int:
    ticks = TICKS[exchange]
    middle = ticks.index(REFERENCES[SYMBOLS[exchange]])
    return ticks[min(max(middle + step, 0), len(ticks) - 1)]


def traded(events) -> list[tuple[str, str, int, int]]:
    found = only(events, Traded)
    return [(t.buy_order_id, t.sell_order_id, t.price, t.quantity) for t in found]


def as_rows(orders: list[LiveOrder]) -> list[tuple[str, int | None, int]]:
    return sorted((order.order_id, order.price, order.remaining) for order in orders)


class Both:
    """The venue and the slow market, given the same orders."""

    def __init__(self, at: str, exchange: Exchange) -> None:
        self.exchange, self.symbol = exchange, SYMBOLS[exchange]
        self.stage = Stage(at, listing(exchange))
        self.slow = SlowMarket(TICKS[exchange], REFERENCES[self.symbol])

    def work(self, number: int, action) -> None:
        kind, which, quantity, step = action
        if kind in ("cancel", "price", "quantity"):
            self.change(kind, which, quantity, price_at(self.exchange, step))
        else:
            self.place(f"o{number}", action)
        assert self.rows() == as_rows(self.stage.venue.open_orders())
        bids, asks = self.stage.levels(self.symbol)
        assert not bids or not asks or bids[0] < asks[0]

    def rows(self) -> list[tuple[str, int | None, int]]:
        return sorted((order.name, order.price, order.left) for order in self.slow.orders)

    def place(self, name: str, action) -> None:
        kind, side, quantity, step = action
        price = price_at(self.exchange, step) if kind == "LO" else None
        expected = self.slow.arrive(self.slow.new(name, side, kind, price, quantity))

        events = self.stage.submit(
            f"{self.symbol} {side} {quantity} {kind} {price or ''}", name=name
        )

        assert traded(events) == expected

    def change(self, kind: str, which: int, quantity: int, price: int) -> None:
        live = self.stage.venue.open_orders()
        if not live:
            return
        order = live[which % len(live)]
        if kind == "cancel":
            self.slow.cancel(order.order_id)
            self.stage.cancel(order.order_id)
            return
        fields = {"price": price} if kind == "price" else {"quantity": quantity}
        if self.stage.venue.amend_refusal(order.order_id, **fields) is not None:
            return
        total = fields.get("quantity", order.quantity)
        left = total - (order.quantity - order.remaining)
        expected = self.slow.amend(order.order_id, fields.get("price", order.price or 0), left)
        assert traded(self.stage.amend(order.order_id, **fields)) == expected

    def collect(self, name: str, action) -> None:
        kind, side, quantity, step = action
        price = price_at(self.exchange, step) if kind == "LO" else None
        auction = "ATO" if self.exchange is Exchange.HOSE else "ATC"
        word = auction if kind == "AO" else kind
        self.slow.orders.append(self.slow.new(name, side, word, price, quantity))
        self.stage.submit(f"{self.symbol} {side} {quantity} {word} {price or ''}", name=name)

    def uncross(self, at: str) -> None:
        expected = self.slow.uncross()
        events = self.stage.at(at)
        found = [(each.price, each.volume) for each in only(events, Uncrossed)]
        assert found in ([expected[:2]], [])
        assert dict(fills(events)) == expected[2]


@settings(max_examples=150)
@given(DAY)
def test_continuous_trading_is_price_then_time(day):
    both = Both("09:30", Exchange.HNX)

    for number, action in enumerate(day):
        both.work(number, action)


@settings(max_examples=100)
@given(AUCTION)
def test_an_opening_auction_is_the_rule_book_s(orders):
    both = Both("09:00", Exchange.HOSE)

    for number, action in enumerate(orders):
        both.collect(f"o{number}", action)
    both.uncross("09:15")

    assert both.rows() == as_rows(both.stage.venue.open_orders())


@settings(max_examples=100)
@given(DAY, AUCTION)
def test_a_closing_auction_goes_on_from_the_book_of_the_day(day, orders):
    both = Both("13:30", Exchange.HNX)

    for number, action in enumerate(day):
        both.work(number, action)
    both.stage.at("14:30")
    for number, action in enumerate(orders, start=100):
        both.collect(f"o{number}", action)
    both.uncross("14:45")


# ------------------------------------------------------------------------------ conservation

OWNERS = st.integers(0, 2)
QUANTITIES = LOTS | st.integers(1, 99) | st.sampled_from([0, 150])
KINDS = st.sampled_from(["LO", "LO", "LO", "MTL", "ATO", "ATC", "PLO", "MAK"])
PLACES = st.tuples(OWNERS, st.sampled_from(["HPG", "SHS", "BSR"]), SIDES, QUANTITIES, KINDS, STEPS)
CANCELS = st.tuples(st.just("cancel"), st.integers(0, 9))
HOURS = ["09:05", "09:30", "11:45", "13:05", "14:35", "14:50", "14:56", "15:30"]
MOMENTS = [local(hour, day) for day in (THURSDAY, FRIDAY, MONDAY) for hour in HOURS]
STORY = st.lists(
    st.tuples(st.sampled_from(MOMENTS), st.lists(PLACES | PLACES | CANCELS, max_size=6)),
    max_size=10,
)


class Bank:
    """Three accounts that trade with one another and with nobody else."""

    def __init__(self) -> None:
        self.stage = Stage("08:00")
        self.accounts = [Account(rules(), cash=10_000_000) for _ in range(3)]
        for account in self.accounts:
            for symbol, price in REFERENCES.items():
                account.deposit_shares(symbol, 500, cost_price=price)

    def work(self, action) -> None:
        if action[0] == "cancel":
            live = self.stage.venue.open_orders()
            if live:
                self.stage.cancel(live[action[1] % len(live)].order_id)
            return
        owner, symbol, side, quantity, kind, step = action
        board = self.stage.venue.board(symbol)
        price = board.reference + step * 100 if kind == "LO" else ""
        order = self.stage.order(f"{symbol} {side} {quantity} {kind} {price}", owner=str(owner))
        account = self.accounts[owner]
        if (self.stage.venue.refusal(order) or account.can_place(order, board)) is None:
            account.reserve(order, board)
            self.stage.kept(self.stage.venue.submit(order, self.stage.now))

    def reach(self, moment) -> None:
        with self.trades_in_band():
            self.stage.now = moment
            self.stage.kept(self.stage.venue.advance(moment))
        self.book()

    def book(self) -> None:
        events, self.stage.all = self.stage.all, []
        for event in events:
            for account in self.accounts:
                account.apply(event)
        for account in self.accounts:
            account.settle(self.stage.now)

    @contextmanager
    def trades_in_band(self) -> Iterator[None]:
        """Whatever trades in here is on a tick and in the band that stood before."""
        boards = {symbol: self.stage.venue.board(symbol) for symbol in REFERENCES}
        yield
        for trade in only(self.stage.all, Traded):
            board = boards[trade.symbol]
            assert trade.quantity > 0
            assert board.floor <= trade.price <= board.ceiling
            assert rules().ticks_of(board.instrument).is_on_grid(trade.price)

    def check(self) -> None:
        charges = sum(account.fees + account.taxes for account in self.accounts)
        money = sum(account.net_assets(dict.fromkeys(REFERENCES, 0)) for account in self.accounts)
        assert money + charges == 30_000_000
        held = [each for account in self.accounts for each in account.holdings(MONDAY)]
        for symbol in REFERENCES:
            assert sum(each.total for each in held if each.symbol == symbol) == 1_500
        assert all(account.cash >= account.secured >= 0 for account in self.accounts)
        assert all(each.sellable >= 0 for each in held)


@settings(max_examples=60)
@given(STORY)
def test_no_share_and_no_dong_is_made_or_lost(story):
    bank = Bank()

    for moment, actions in sorted(story, key=lambda part: part[0]):
        bank.reach(moment)
        for action in actions:
            with bank.trades_in_band():
                bank.work(action)
            bank.book()
        bank.check()
    bank.reach(local("16:00", MONDAY))

    bank.check()
    assert bank.stage.venue.open_orders() == []
    assert all(account.secured == 0 for account in bank.accounts)
