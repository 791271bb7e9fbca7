"""The bot's validator and the exchange read one rulebook: they refuse the same orders.

Random orders of one investor and of everybody else go through random days of an exchange with
symbols of every kind and status. Before each order of the investor the engine's checks of exchange
rules judge it; then the venue takes it or not. The bot's own policies and limits are off: cash,
position, cooldowns, and its reluctance to touch restricted symbols or to cross itself in
continuous trading.

    python -m tests.engine.test_rulebook_agreement [orders] [seed]     100,000 orders, seed 4
"""

import sys
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from random import Random
from typing import Final

from bot.config.rulebook import load_rulebook
from bot.domain.instrument import EXCHANGE_TZ, Exchange, Instrument, InstrumentKind, Lot, Phase
from bot.domain.order import OrderType, Side
from bot.domain.plan import Limits, When
from bot.domain.quote import Quote
from bot.domain.rule_data import RuleData
from bot.domain.status import SymbolStatus
from bot.domain.venue import Band
from bot.engine.findings import AUCTIONS
from bot.engine.risk import checks
from bot.engine.risk.sizing import OrderRequest
from bot.engine.risk.view import Opposite, View
from bot.sandbox.exchange.market import Board
from bot.sandbox.exchange.message import (
    CROWD,
    Listing,
    NewOrder,
    OrderAccepted,
    OrderRefused,
    Refusal,
)
from bot.sandbox.exchange.venue import Venue
from tests.proofs import undone

RULEBOOK = load_rulebook()
RULES: Final = (
    checks.symbol,
    checks.phase,
    checks.order_type,
    checks.lot,
    checks.price,
    checks.other_orders,
)
"""The checks that state a rule of the exchange, in the engine's order."""

SAME: Final = {
    Refusal.UNKNOWN_SYMBOL: {"SYMBOL"},
    Refusal.NOT_TRADING: {"PHASE", "SYMBOL_HALTED"},
    Refusal.HALTED: {"SYMBOL_HALTED"},
    Refusal.ORDER_TYPE: {"ORDER_TYPE", "ODD_LOT"},
    Refusal.NO_CLOSE: {"ORDER_TYPE"},
    Refusal.QUANTITY: {"LOT"},
    Refusal.TOO_LARGE: {"MAX_QUANTITY"},
    Refusal.ODD_LOT_BAN: {"ODD_LOT"},
    Refusal.PRICE_MISSING: {"PRICE"},
    Refusal.PRICE_UNWANTED: {"PRICE"},
    Refusal.OFF_TICK: {"TICK"},
    Refusal.OUTSIDE_BAND: {"BAND", "PRICE"},
    Refusal.OPPOSITE_ORDER: {"SELF_CROSS"},
}
"""The exchange's reason, and the engine's name for it; the two check some things in another order.

A price of nothing or less is outside every band, and no price at all to the engine.
"""

CODES = ("WFR", "CTR", "SUS", "DTL", "TFR", "HALT", "NWE", "NWE", "NWN", "SLS", "SLS", "SNE")
STATUSES = tuple(SymbolStatus.from_data(RuleData(code)) for code in CODES + ("",) * 12)
COPIES = 4
KINDS = (
    (Exchange.HOSE, InstrumentKind.STOCK, (25_350, 9_980, 49_950, 142)),
    (Exchange.HOSE, InstrumentKind.ETF, (24_370,)),
    (Exchange.HOSE, InstrumentKind.CLOSED_END_FUND, (10_050,)),
    (Exchange.HOSE, InstrumentKind.CW, (1_200,)),
    (Exchange.HNX, InstrumentKind.STOCK, (12_000, 900)),
    (Exchange.HNX, InstrumentKind.ETF, (15_234,)),
    (Exchange.UPCOM, InstrumentKind.STOCK, (22_600, 500)),
)
WARRANT_BAND = Band(2_070, 330)
UNKNOWN = Instrument("NONE", Exchange.UPCOM, InstrumentKind.CW)
DAY_BEFORE, SATURDAY = date(2026, 11, 17), date(2026, 11, 21)
ORDERS_A_DAY = 1_500
QUANTITIES = (1, 7, 50, 99, 100, 100, 200, 300, 500, 1_000, 2_000, 500_000)
NO_QUANTITIES = (0, -100, 101, 150, 500_100, 1_000_100)
WINDOWS = ((540, 555), (555, 690), (780, 870), (870, 885), (885, 900), (510, 915))
"""Minutes since midnight: opening auction, continuous, continuous, closing auction, after, all."""
ME = "me"


def listings() -> list[Listing]:
    found: list[Listing] = []
    for exchange, kind, references in KINDS:
        band = WARRANT_BAND if kind is InstrumentKind.CW else None
        for reference in references * COPIES:
            instrument = Instrument(f"S{len(found):03}", exchange, kind)
            found.append(Listing(instrument, reference, band=band))
    return found


@dataclass
class Counts:
    taken: int = 0
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)
    phases: Counter[str] = field(default_factory=Counter)

    @property
    def all(self) -> int:
        return self.taken + sum(self.refused.values())

    def reasons(self) -> set[str]:
        return {reason for reason, _ in self.refused}


class Agreement:
    """One venue, one investor, one seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.counts = Counts()
        self.listings = {each.instrument.symbol: each for each in listings()}
        self.now = self._local(DAY_BEFORE, timedelta(0))
        self.venue = Venue(RULEBOOK, list(self.listings.values()), start=self.now)
        self.number = 0
        self.pool: list[str] = []
        self.stands: dict[str, tuple[Phase, dict[Side, list[Opposite]]]] = {}

    @staticmethod
    def _local(day: date, since: timedelta) -> datetime:
        return datetime.combine(day, datetime.min.time(), tzinfo=EXCHANGE_TZ) + since

    def run(self, orders: int) -> Counts:
        """Spread the orders over the days, at random instants and at the very boundaries."""
        moments = sorted(self._moments(orders))
        for moment in moments:
            if moment.date() != self.now.date():
                self._start_day(moment.date())
            self.now = moment
            self.venue.advance(moment)
            self.pool = [*self.random.sample(sorted(self.listings), 6), "NONE"]
            for _ in range(-(-orders // len(moments))):
                self.one()
        return self.counts

    def _start_day(self, day: date) -> None:
        """Give every symbol a status of the day, as the feed tells them in the morning."""
        morning = self._local(day, timedelta(hours=8))
        self.venue.advance(morning)
        for symbol, old in self.listings.items():
            instrument = replace(old.instrument, status=self.random.choice(STATUSES))
            self.listings[symbol] = replace(old, instrument=instrument)
        self.venue.start_day(morning, self.listings.values())
        self.stands.clear()

    def _moments(self, orders: int) -> list[datetime]:
        found, calendar = [], RULEBOOK.calendar
        days = [
            calendar.add_trading_days(DAY_BEFORE, n) for n in range(1, 3 + orders // ORDERS_A_DAY)
        ]
        for _ in range(orders // 25):
            day = self.random.choice(days) if self.random.random() < 0.98 else SATURDAY
            at = self._local(
                day, timedelta(minutes=self.random.randint(*self.random.choice(WINDOWS)))
            )
            if self.random.random() < 0.3:
                next_change = RULEBOOK.next_phase_change(self.random.choice(list(Exchange)[:3]), at)
                edge = timedelta(microseconds=self.random.choice((-1, 0)))
                at = max(next_change.at + edge, at) if next_change.at.date() == at.date() else at
            found.append(at)
        return found

    def one(self) -> None:
        """Let the investor (or the crowd) send one order; compare the two verdicts."""
        symbol = self.random.choices(self.pool, (8, 8, 8, 8, 8, 8, 1))[0]
        listing = self.listings.get(symbol)
        board = self.venue.board(symbol) if listing else None
        order = self._order(symbol, board)
        if listing and self.random.random() < 0.4:
            self.venue.submit(self._of_the_crowd(order), self.now)
            board = self.venue.board(symbol)
        judged = self.judge(order, listing, board)
        said = self.exchange_says(order)
        self.compare(order, judged, said)

    def _of_the_crowd(self, order: NewOrder) -> NewOrder:
        """The same order from the other side, so that there are trades."""
        self.number += 1
        side = Side.SELL if order.side is Side.BUY else Side.BUY
        name, kind = f"c{self.number}", order.order_type
        return NewOrder(name, CROWD, order.symbol, side, order.quantity, kind, order.price)

    def _order(self, symbol: str, board: Board | None) -> NewOrder:
        random, self.number = self.random, self.number + 1
        order_type = random.choice(self._types(board))
        has_price = (order_type is OrderType.LO) is (random.random() < 0.95)
        return NewOrder(
            order_id=f"m{self.number}",
            owner=ME,
            symbol=symbol,
            side=random.choice(list(Side)),
            quantity=random.choice(QUANTITIES if random.random() < 0.9 else NO_QUANTITIES),
            order_type=order_type,
            price=self._price(board) if has_price else None,
        )

    def _types(self, board: Board | None) -> list[OrderType]:
        """Mostly what is taken now, and LO more often than all others."""
        if board is None or self.random.random() < 0.2:
            return list(OrderType)
        exchange = board.instrument.exchange
        phase = self.venue.phase(exchange)
        return [OrderType.LO, *sorted(RULEBOOK.accepted_types(exchange, phase, Lot.EVEN))]

    def _price(self, board: Board | None) -> int:
        if board is None:
            return 10_000
        random, ticks = self.random, RULEBOOK.venues[board.instrument.exchange]
        table = ticks.ticks_of(board.instrument.kind)
        price = random.randint(board.floor, board.ceiling)
        price -= price % table.tick_at(price)
        choices = (price, price, price, price, board.ceiling, board.floor, price + 1)
        edges = (table.up(board.ceiling), table.down(board.floor), price // 1_000, 0, -price)
        return random.choice((*choices, *choices, *edges))

    # ------------------------------------------------------------------------- the two verdicts

    def judge(self, order: NewOrder, listing: Listing | None, board: Board | None) -> str | None:
        """Return the engine's code of refusal, None when its rules let the order pass."""
        instrument = listing.instrument if listing else None
        request = OrderRequest(
            ME, "A", order.symbol, order.side, order.quantity, order.order_type, order.price, "why"
        )
        results = checks.judge(request, self._view(order, instrument, board), Limits(), RULES)
        return None if results[-1].passed else results[-1].code

    def _view(self, order: NewOrder, instrument: Instrument | None, board: Board | None) -> View:
        traded = instrument or (UNKNOWN if self.random.random() < 0.5 else None)
        phase = RULEBOOK.phase_at(traded.exchange, self.now) if traded else Phase.CLOSED
        return View(
            at=self.now,
            rulebook=RULEBOOK,
            state="RUNNING",
            is_gate_open=True,
            instrument=traded,
            symbol_halt=None,
            held_data=None,
            phase=phase,
            available=None,
            when=When(),
            quote=self._quote(board) if board else None,
            quote_age=timedelta(0),
            quote_age_max=timedelta(seconds=10),
            price=order.price or 1,
            position=0,
            orders_today=0,
            loss_today=0,
            cash_free=None,
            sellable=0,
            twin=None,
            opposites=self._opposites(order, phase),
            unknown_in_account=0,
            unknown_in_account_max=1,
            unknown=0,
            unknown_max=1,
        )

    def _quote(self, board: Board) -> Quote:
        """Return the quote that the sandbox's broker makes of the board."""
        last = board.last or board.reference
        frame = (board.reference, board.ceiling, board.floor)
        exchange, symbol = board.instrument.exchange, board.instrument.symbol
        day = (board.open, board.high, board.low)
        return Quote(symbol, exchange, last, *frame, *day, board.volume, self.now)

    def _opposites(self, order: NewOrder, phase: Phase) -> tuple[Opposite, ...]:
        """Return the investor's opposite orders of this very auction: no older ones count."""
        since, sides = self.stands.get(order.symbol, (phase, {}))
        other = Side.SELL if order.side is Side.BUY else Side.BUY
        is_same_auction = since is phase and phase in AUCTIONS
        return tuple(sides.get(other, ())) if is_same_auction else ()

    def exchange_says(self, order: NewOrder) -> Refusal | None:
        """Send the order to the venue under the exchange's own name of its type."""
        listing = self.listings.get(order.symbol)
        exchange = listing.instrument.exchange if listing else Exchange.UPCOM
        kind = RULEBOOK.canonical(exchange, order.order_type)
        first = self.venue.submit(_as_type(order, kind), self.now)[0]
        if isinstance(first, OrderRefused):
            return first.reason
        assert isinstance(first, OrderAccepted)
        self._stand(order)
        return None

    def _stand(self, order: NewOrder) -> None:
        phase = self.venue.phase_of(order.symbol)
        since, sides = self.stands.get(order.symbol, (phase, {}))
        if since is not phase:
            sides = {}
        sides.setdefault(order.side, []).append(Opposite(order.order_id, order.price))
        self.stands[order.symbol] = (phase, sides)

    def compare(self, order: NewOrder, judged: str | None, said: Refusal | None) -> None:
        found = f"{order} at {self.now}: the bot says {judged}, the exchange {said}"
        if said is None or judged is None:
            assert judged is said, found
            self.counts.taken += 1
            if order.symbol in self.listings:
                self.counts.phases[self.venue.phase_of(order.symbol)] += 1
        else:
            assert judged in SAME[said], found
            self.counts.refused[said, judged] += 1


def _as_type(order: NewOrder, kind: OrderType) -> NewOrder:
    return NewOrder(
        order.order_id, order.owner, order.symbol, order.side, order.quantity, kind, order.price
    )


def test_validator_and_exchange_refuse_the_same_orders():
    counts = Agreement(seed=4).run(5_000)

    assert counts.all >= 5_000
    assert counts.taken >= 1_000
    assert counts.reasons() == set(SAME)


def test_every_reason_of_the_exchange_has_a_word_of_the_engine():
    of_accounts = {Refusal.BUYING_POWER, Refusal.SELLABLE}
    of_changes = set(list(Refusal)[list(Refusal).index(Refusal.NOT_OPEN) :])

    assert set(SAME) == set(Refusal) - of_accounts - of_changes


def test_the_bot_leaves_restricted_symbols_to_others_whatever_the_order():
    agreement = Agreement(seed=4)
    listing = agreement.listings["S000"]
    status = SymbolStatus.from_data(RuleData("RES"))
    restricted = Instrument("S000", Exchange.HOSE, status=status)

    for _ in range(200):
        order = agreement._order("S000", agreement.venue.board("S000"))
        found = agreement.judge(order, Listing(restricted, listing.reference), None)
        assert found == "SYMBOL_HALTED"


def main(orders: int = 100_000, seed: int = 4) -> int:
    """Compare so many; 0 when each reason of the exchange was met, and met with the bot's word."""
    counts = Agreement(seed).run(orders)
    never = [f"NEVER MET {each}" for each in sorted(set(SAME) - counts.reasons())]
    wrong = [*never, *undone(orders_taken=counts.taken)]
    lines = [f"seed {seed}: {counts.all:,} orders, no disagreement; {counts.taken:,} taken"]
    lines += [f"  taken in {phase:12} {n:16,}" for phase, n in sorted(counts.phases.items())]
    lines += [
        f"  {reason:15} {code:13} {n:8,}" for (reason, code), n in sorted(counts.refused.items())
    ]
    sys.stdout.write("\n".join([*lines, *wrong]) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
