"""One mirrored symbol: its last displayed state, and the effect on our orders.

The displayed levels become orders of the crowd in our venue.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Final

from bot.domain.instrument import Instrument, Lot, Phase
from bot.domain.order import Side
from bot.domain.quote import Depth, Quote
from bot.domain.venue import Band
from bot.sandbox.exchange.day import AUCTIONS
from bot.sandbox.exchange.market import DayTotals
from bot.sandbox.exchange.message import CROWD, Listing, LiveOrder
from bot.sandbox.markets.mirror.model import WITHOUT_END, FillModel, Queue, as_displayed
from bot.sandbox.markets.source import OTHER, CrowdOrders, Level, MarketAccess

NOT_SEEN: Final = "no depth of this phase yet"

Release = Callable[[str, datetime], None]
"""Sends a symbol's orders that were held because its market was not visible."""


class MirroredSymbol:
    """Moves with quotes, depths and phases; without a depth from the current phase it is blind."""

    def __init__(
        self, instrument: Instrument, model: FillModel, access: MarketAccess, release: Release
    ) -> None:
        self._instrument = instrument
        self._symbol = instrument.symbol
        self._model = model
        self._access, self._venue = access, access.venue
        self._release = release
        order_max = access.rulebook.venues[instrument.exchange].lots.max_quantity or WITHOUT_END
        self._offers = Offers(
            self._symbol, access, order_max=order_max, remembers_taken=model.remembers_taken
        )
        self._queue = Queue()
        self._depth: Depth | None = None
        self._depth_at: datetime | None = None
        self._blind = NOT_SEEN
        self._ends_auction = False

    @property
    def holds(self) -> bool:
        """True while new orders have to wait: the market trades but we cannot see it."""
        return self._venue.phase_of(self._symbol) is Phase.PROGRESS and self._depth is None

    def seen(self, at: datetime) -> str:
        """Say how well the market is seen: levels and age of the snapshot, or why it
        is not seen.
        """
        if self._depth is None or self._depth_at is None:
            return f"held: {self._blind}"
        levels = max(len(self._depth.bids), len(self._depth.asks))
        age_s = (at - self._depth_at).total_seconds()
        return f"depth {levels} levels · snapshot {age_s:.1f} s old"

    def quote(self, quote: Quote, at: datetime) -> None:
        """Process a quote; in the queue model its trades fill our orders."""
        self._list(quote, at)
        phase = self._venue.phase_of(self._symbol)
        # Before the first phase a quote still shows the previous day.
        board, volume = self._venue.board(self._symbol), quote.volume
        if phase is not Phase.CLOSED or board.close is not None:
            known = board.volume if volume is None else volume
            self._venue.set_totals(self._symbol, _totals(quote, known))
        if phase is Phase.PROGRESS and self._model.has_queue and volume is not None:
            self.settle(at)
            for order, quantity in self._queue.trade(quote.last, volume, at):
                self._offers.strike(order.side, order.price or 0, quantity, at)
            self.settle(at)

    def depth(self, depth: Depth, seen_at: datetime, at: datetime) -> None:
        """Process a depth; a crossed one in continuous trading counts as no market."""
        phase = self._venue.phase_of(self._symbol)
        is_crossed = depth.bid is not None and depth.ask is not None and depth.bid >= depth.ask
        if phase is Phase.PROGRESS and is_crossed:
            self.lose("the depth shown is crossed", at)
            return
        self._depth, self._depth_at, self._blind = depth, seen_at, ""
        if phase is Phase.PROGRESS:
            self.settle(at)
            self._queue.see(depth)
            self._offers.show(self._model.offers(depth), at)
            self._release(self._symbol, at)
            self.settle(at)

    def lose(self, why: str, at: datetime) -> None:
        """The market cannot be seen from now on: nothing is offered and new orders wait."""
        self._depth, self._depth_at, self._blind = None, None, why
        if self._venue.phase_of(self._symbol) is Phase.PROGRESS:
            self._offers.withdraw(at)

    def settle(self, at: datetime) -> None:
        """Give orders that have just come to rest their place in the queue."""
        if self._model.has_queue:
            orders = [each for each in self._our_orders() if each.lot is Lot.EVEN]
            resting = (each for each in orders if each.price is not None)
            self._queue.settle(resting, self._depth, at)

    def _our_orders(self) -> Iterator[LiveOrder]:
        for order in self._venue.open_orders():
            if order.symbol == self._symbol and order.owner != CROWD:
                yield order

    def end_phase(self, at: datetime) -> None:
        """Called just before a phase ends: an auction gets its crowd, continuous
        trading loses it.
        """
        phase = self._venue.phase_of(self._symbol)
        self._ends_auction = phase in AUCTIONS
        if self._ends_auction and self._depth is not None:
            self._offers.show(as_displayed(self._depth), at)
        elif phase is Phase.PROGRESS:
            self._offers.withdraw(at)

    def start_phase(self, at: datetime) -> None:
        """Called just after a phase has begun: what was shown in the previous one no
        longer counts.
        """
        phase = self._venue.phase_of(self._symbol)
        if phase is Phase.PROGRESS:
            self._offers.withdraw(at)
        if self._ends_auction or phase is Phase.CLOSED:
            self._offers.forget()
        self._queue.start_phase()
        self._depth, self._depth_at, self._blind = None, None, NOT_SEEN

    def _list(self, quote: Quote, at: datetime) -> None:
        """Take over reference and band if they differ, unless an order of ours is working."""
        board, band = self._venue.board(self._symbol), _band(quote)
        is_same_band = band is None or band == self._access.band(self._symbol)
        is_listed = quote.reference == board.reference and is_same_band
        if quote.reference is None or is_listed or any(self._our_orders()):
            return
        self._offers.withdraw(at)
        self._offers.forget()
        self._venue.relist(Listing(self._instrument, quote.reference, band=band))


def _band(quote: Quote) -> Band | None:
    """Return the quoted limits; None, and so the rulebook's, unless they include the reference."""
    if quote.ceiling is None or quote.floor is None or quote.reference is None:
        return None
    band = Band(quote.ceiling, quote.floor)
    return band if band.holds(quote.reference) else None


def _totals(quote: Quote, volume: int) -> DayTotals:
    """The day's figures; turnover, estimated as volume × last (quotes carry none)."""
    if not volume:
        return DayTotals()
    return DayTotals(
        last=quote.last,
        open=quote.open,
        high=quote.high,
        low=quote.low,
        volume=volume,
        value=volume * quote.last,
    )


class Offers:
    """The crowd's orders of one symbol, each at most `order_max` shares.

    A level that shows the same volume as before offers only what we left of it; with
    `remembers_taken` False it is offered in full each time.
    """

    def __init__(
        self, symbol: str, access: MarketAccess, *, order_max: int, remembers_taken: bool
    ) -> None:
        self._venue = access.venue
        self._crowd = CrowdOrders(symbol, access, mark="~")
        self._order_max = order_max
        self._remembers_taken = remembers_taken
        self._orders: dict[Level, list[str]] = {}
        self._displayed: dict[Level, int] = {}
        self._left: dict[Level, int] = {}

    def show(self, wanted: Mapping[Level, int], at: datetime) -> None:
        """Offer these levels and no others; whatever crosses a resting order of ours trades with
        it.
        """
        for level in list(self._orders):
            if not (self._remembers_taken and wanted.get(level) == self._displayed[level]):
                self._take_out(level, at)
        for level, volume in wanted.items():
            if level not in self._orders:
                is_known = self._remembers_taken and self._displayed.get(level) == volume
                self._displayed[level] = volume
                self._put(level, self._left[level] if is_known else volume, at)

    def withdraw(self, at: datetime) -> None:
        """Offer nothing; what is left of each level is remembered."""
        for level in list(self._orders):
            self._take_out(level, at)

    def strike(self, side: Side, price: int, quantity: int, at: datetime) -> None:
        """Let somebody trade with our resting orders on `side` at `price`, bypassing other orders.

        The levels of that side are offered again afterwards, unchanged.
        """
        levels = [level for level in self._orders if level[0] is side]
        for level in levels:
            self._take_out(level, at)
        striking = (OTHER[side], price)
        for order_id in self._submit(striking, quantity, at):
            self._crowd.cancel(order_id, at)
        for level in levels:
            self._put(level, self._left[level], at)

    def forget(self) -> None:
        """Forget the levels shown so far; they must already be withdrawn."""
        self._orders, self._displayed, self._left = {}, {}, {}

    def _put(self, level: Level, volume: int, at: datetime) -> None:
        self._orders[level] = self._submit(level, volume, at)

    def _take_out(self, level: Level, at: datetime) -> None:
        order_ids = self._orders.pop(level)
        live = (self._venue.order(order_id) for order_id in order_ids)
        self._left[level] = sum(order.remaining for order in live if order is not None)
        for order_id in order_ids:
            self._crowd.cancel(order_id, at)

    def _submit(self, level: Level, volume: int, at: datetime) -> list[str]:
        return self._crowd.submit_in_pieces(level, volume, at, piece_max=self._order_max)
