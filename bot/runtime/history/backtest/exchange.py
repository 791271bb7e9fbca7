"""The exchanges of a backtest, with bars in place of books. They fill orders and book each fill.

An order takes part from the first bar or auction that begins at or after its arrival, so nothing
fills from what its strategy had already seen. `fills.py` says what a bar fills; phases are the
exchange's own timetable, cash and shares the sandbox's `Account`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from bot.domain.instrument import BOARD_LOT, Exchange, Lot, Phase
from bot.domain.order import ORDER_TYPES, OrderType, Side
from bot.domain.quote import Bar
from bot.domain.rulebook import Rulebook
from bot.domain.status import NORMAL
from bot.runtime.history.backtest.fills import (
    MODELS,
    FillModel,
    best_of,
    is_reached,
    is_worth,
    taking_price,
    traded_at_limit,
)
from bot.runtime.history.backtest.rows import Auction, DayRows
from bot.sandbox.exchange.accounts import Account
from bot.sandbox.exchange.day import AUCTIONS, LIMIT_ORDERS_END, ExchangeDay
from bot.sandbox.exchange.market import DayTotals, SymbolMarket, next_listing, open_market
from bot.sandbox.exchange.message import (
    CancelCause,
    Listing,
    OrderCancelled,
    OrderLapsed,
    OrderRepriced,
    Traded,
)
from bot.sandbox.house.order_record import OrderRecord, OrderStage
from bot.sandbox.markets.mirror.model import FillName

_NEEDS_PHASE: Final = {OrderType.ATO: Phase.OPEN, OrderType.ATC: Phase.PRE_CLOSED}


@dataclass(slots=True, eq=False)
class Working:
    """A working order. `has_rested`: an auction or a bar has begun since it arrived.

    `ahead`: shares ahead of it at its price, according to the model.
    """

    record: OrderRecord
    kind: OrderType
    listed: "Listed"
    ahead: int
    has_rested: bool = False

    @property
    def limit(self) -> int | None:
        return self.record.price

    @property
    def urgency(self) -> tuple[bool, int]:
        """Sort key of matching: orders without a limit first, then the better price."""
        limit = self.limit or 0
        return self.limit is not None, -limit if self.record.side is Side.BUY else limit


@dataclass(slots=True)
class Budget:
    """What a bar has left for our orders; None: any quantity."""

    left: int | None

    def take(self, wanted: int) -> int:
        """Return as much of `wanted` as is left, and subtract it."""
        if self.left is None:
            return wanted
        given = min(wanted, self.left)
        self.left -= given
        return given


@dataclass(slots=True, eq=False)
class Listed:
    """One symbol today: its prices, our orders, the volume of the last bar that traded.

    `matched`: how much of the opening auction's bar we have already received.
    """

    market: SymbolMarket
    orders: list[Working] = field(default_factory=list)
    budget: Budget = field(default_factory=lambda: Budget(0))
    last_volume: int = 0
    matched: int = 0

    def by_urgency(self) -> list[Working]:
        """Return the orders as an exchange serves them: the better price, then the earlier one; a
        side takes its turns where its orders came, as prices of two sides do not compare.
        """
        best = sorted(self.orders, key=lambda each: each.urgency)
        turns = {side: iter([e for e in best if e.record.side is side]) for side in Side}
        return [next(turns[each.record.side]) for each in self.orders]


class BarExchange:
    """HOSE, HNX and UPCOM as bars show them, with the orders of one account.

    `news`: the orders that have changed since the last request.
    """

    def __init__(
        self, rulebook: Rulebook, account: Account, *, at: datetime, fill: FillName
    ) -> None:
        self.account = account
        self.news: dict[str, None] = {}
        self.working: dict[str, Working] = {}
        self._rulebook = rulebook
        self._model: FillModel = MODELS[fill]
        self._days: dict[Exchange, ExchangeDay] = {
            each: ExchangeDay(rulebook, each, at, NORMAL) for each in Exchange
        }
        self._open: dict[Exchange, ExchangeDay] = {}
        """The exchanges where any symbol is listed today."""
        self._listed: dict[str, Listed] = {}

    # ------------------------------------------------------------------------------- the day

    def next_listing(self, symbol: str) -> Listing | None:
        """Return the listing with which a symbol starts the next day; None: it had none."""
        listed = self._listed.get(symbol)
        return None if listed is None else next_listing(self._rulebook, listed.market)

    def listed(self, symbol: str) -> Listed | None:
        """Return the orders, prices and totals of a symbol; None: it is not listed."""
        return self._listed.get(symbol)

    def market(self, symbol: str) -> SymbolMarket:
        """Return prices and totals of a symbol that is listed today."""
        return self._listed[symbol].market

    def closes(self) -> dict[str, int]:
        """Return the last price of each symbol, its reference before the first trade."""
        return {symbol: listed.market.anchor for symbol, listed in self._listed.items()}

    def take_in(self, record: OrderRecord, kind: OrderType, listed: Listed) -> None:
        """Let an order wait for the next bar or auction, and reserve its cash or shares."""
        placed = Working(record, kind, listed, ahead=listed.last_volume)
        listed.orders.append(placed)
        self.working[record.order_id] = placed

    def start_day(self, at: datetime, listings: Iterable[Listing]) -> None:
        """Begin a day: every order of an earlier one has ended."""
        assert not self.working, "orders end with their day"
        self._open = {}
        for listing in listings:
            exchange = listing.instrument.exchange
            if exchange not in self._open:
                self._open[exchange] = self._days[exchange]
                self._days[exchange].enter(at)
            symbol, before = listing.instrument.symbol, self._listed.get(listing.instrument.symbol)
            opened = open_market(self._rulebook, listing, self._days[exchange])
            self._listed[symbol] = Listed(opened, last_volume=before.last_volume if before else 0)

    def phase(self, exchange: Exchange) -> Phase:
        return self._days[exchange].phase

    def enter(self, at: datetime, auctions: Mapping[str, Auction]) -> list[Exchange]:
        """Process the boundaries at an instant; return the exchanges whose phase has changed.

        `auctions`: price and volume of the symbols matched by an ending auction.
        """
        moved = []
        for exchange, day in self._open.items():
            if at < day.due:
                continue
            before, uncrosses = day.phase, day.ends_in_uncross
            all_listed = [each for each in self._listed.values() if each.market.day is day]
            if uncrosses:
                for listed in all_listed:
                    self._uncross(listed, auctions.get(listed.market.listing.instrument.symbol), at)
            day.enter(at)
            if day.phase is not before:
                moved.append(exchange)
                for listed in all_listed:
                    self._leave(listed, day.phase, at)
        return moved

    def _leave(self, listed: Listed, phase: Phase, at: datetime) -> None:
        """End the orders that cannot live in the new phase, and fix the close where trading is
        over.
        """
        is_over = phase in LIMIT_ORDERS_END
        if is_over and listed.market.totals.last is not None:
            listed.market.set_close()
        budget = Budget(self._model.budget(listed.last_volume))
        for order in list(listed.orders):
            if order.kind is OrderType.PLO:
                if phase is Phase.CLOSED:  # filled at the day's close, from the last bar's volume
                    close, grid = listed.market.totals.close, listed.market.grid
                    if close is not None and grid.floor < close < grid.ceiling:
                        self._trade(order, close, budget.take(order.record.remaining), at)
                    self._lapse(order, at)
            elif is_over or (order.limit is None and _NEEDS_PHASE.get(order.kind) is not phase):
                self._lapse(order, at)

    # ------------------------------------------------------------------------------ matching

    def begin_bar(self, bar: Bar, at: datetime) -> None:
        """Let orders that arrived since the previous bar trade at the open of this one, if anybody
        traded in it: a row without volume is a minute, or a day, without a trade.
        """
        listed = self._listed.get(bar.symbol)
        if listed is None or not bar.volume:
            return
        self._open_budget(listed, bar.volume)
        if listed.market.day.phase is not Phase.PROGRESS:
            return
        for order in listed.by_urgency():
            if not order.has_rested:
                order.has_rested = True
                self._take(order, bar.open, at)

    def _open_budget(self, listed: Listed, volume: int) -> None:
        """Set what a bar that begins has for our orders."""
        listed.budget = Budget(self._model.budget(volume))
        listed.budget.take(listed.matched)
        listed.matched = 0

    def _take(self, order: Working, price: int, at: datetime) -> None:
        """Trade with the modelled other side, and end the order if its type does not rest."""
        record, grid = order.record, order.listed.market.grid
        if record.lot is Lot.ODD:
            return
        at_price = taking_price(self._model, record.side, price, grid)
        is_met = at_price is not None and (
            order.limit is None or is_worth(record.side, order.limit, at_price)
        )
        given, rules = 0, ORDER_TYPES[order.kind]
        if is_met and at_price is not None:
            left = order.listed.budget.left
            is_enough = left is None or left >= record.remaining
            if is_enough or not rules.all_or_nothing:
                given = order.listed.budget.take(record.remaining)
            self._trade(order, at_price, given, at)
        if order.limit is not None or not record.remaining:
            return
        if rules.rests_as_limit and given and at_price is not None:
            beyond = grid.up(at_price) if record.side is Side.BUY else grid.down(at_price)
            record.price = beyond  # one tick beyond the last fill (SSI, Yuanta: KRX, 2025)
            self.account.apply(OrderRepriced(at, record.order_id, beyond))
            return
        cause = CancelCause.REMAINDER_KILLED if given else CancelCause.NO_OPPOSITE
        self.cancel(order, at, cause)

    def end_bar(self, bar: Bar, at: datetime) -> None:
        """Fill resting orders within a finished bar, and add the bar to the day's totals."""
        listed = self._listed.get(bar.symbol)
        if listed is None or not bar.volume:
            return
        for order in listed.by_urgency():
            if order.has_rested and order.limit is not None:
                self._fill_inside(order, bar, order.limit, at)
        totals = listed.market.totals
        for price in (bar.open, bar.low, bar.high, bar.close):
            totals.record(price, 0)
        totals.volume += bar.volume
        totals.value += bar.close * bar.volume
        listed.last_volume = bar.volume

    def pass_over(
        self, listed: Listed, day: DayRows, ended: range, begun: range, totals: DayTotals
    ) -> None:
        """Set totals and budget after the first rows of a day, passed while no order was working.

        The last bar begun may also hold the closing auction, in which later orders take part.
        """
        volumes = day.rows.volume
        traded = [volume for row in day.begun[begun.start : begun.stop] if (volume := volumes[row])]
        if traded:
            listed.matched *= len(traded) == 1  # it counts in the first of them
            self._open_budget(listed, traded[-1])
        if totals is not listed.market.totals:
            listed.market.totals = totals
            listed.last_volume = next(filter(None, volumes[ended.stop - 1 :: -1]))

    def _fill_inside(self, order: Working, bar: Bar, limit: int, at: datetime) -> None:
        record, grid, model = order.record, order.listed.market.grid, self._model
        side = record.side
        if not is_reached(side, limit, bar, grid):
            return
        is_through, given = best_of(bar, side) != limit, 0
        if record.lot is Lot.ODD:
            given = record.remaining if is_through or model.is_whole else 0
        elif is_through or not model.has_queue:
            given = order.listed.budget.take(record.remaining)
        else:
            eaten = traded_at_limit(bar, grid)
            reached = (eaten - order.ahead) // BOARD_LOT * BOARD_LOT
            order.ahead = max(0, order.ahead - eaten)
            given = order.listed.budget.take(min(record.remaining, max(0, reached)))
        self._trade(order, limit, given, at)

    def _uncross(self, listed: Listed, auction: Auction | None, at: datetime) -> None:
        """Match our orders in a call auction at its one price, better-priced ones first."""
        model, grid, phase = self._model, listed.market.grid, listed.market.day.phase
        collected = [each for each in listed.by_urgency() if each.kind is not OrderType.PLO]
        for order in collected:
            order.has_rested = True
        if auction is None or phase not in AUCTIONS:
            return
        price, volume = auction
        listed.market.totals.record(price, 0)
        budget = listed.budget if volume is None else Budget(model.budget(volume))
        for order in collected:
            record, limit = order.record, order.limit
            is_locked = price >= grid.ceiling if record.side is Side.BUY else price <= grid.floor
            if is_locked or (limit is not None and not is_worth(record.side, limit, price)):
                continue
            if limit == price and (model.has_queue or record.lot is Lot.ODD):
                continue
            is_odd = record.lot is Lot.ODD
            given = record.remaining if is_odd else budget.take(record.remaining)
            listed.matched += 0 if is_odd or phase is not Phase.OPEN else given
            self._trade(order, price, given, at)

    # ------------------------------------------------------------------------------- booking

    def _trade(self, order: Working, price: int, quantity: int, at: datetime) -> None:
        if not quantity:
            return
        record = order.record
        is_buy, own = record.side is Side.BUY, record.order_id
        ids = (own, "") if is_buy else ("", own)
        lot = record.lot or Lot.EVEN
        is_auction = order.listed.market.day.is_auction
        trade = Traded(at, record.symbol, lot, price, quantity, *ids, is_auction)
        for booked in self.account.apply(trade):
            record.executed_quantity += booked.quantity
            record.executed_amount += booked.amount
            record.fee += booked.fee
            record.tax += booked.tax
        self.news[record.order_id] = None
        if not record.remaining:
            self._end(order)

    def cancel(self, order: Working, at: datetime, cause: CancelCause) -> None:
        """Cancel the open part of an order."""
        record = order.record
        remaining = record.remaining
        self.account.apply(OrderCancelled(at, record.order_id, remaining, cause))
        record.cancelled_quantity += remaining
        record.stage = OrderStage.CANCELLED
        self._end(order)

    def _lapse(self, order: Working, at: datetime) -> None:
        record = order.record
        if record.order_id not in self.working:
            return
        self.account.apply(OrderLapsed(at, record.order_id, record.remaining))
        record.stage = OrderStage.LAPSED
        self._end(order)

    def _end(self, order: Working) -> None:
        order.listed.orders.remove(order)
        del self.working[order.record.order_id]
        self.news[order.record.order_id] = None
