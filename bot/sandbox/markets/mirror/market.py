"""The mirrored market: turns what a real broker shows into the crowd of our own venue.

It has three inputs, all lines of the ledger: a quote, a depth, and that the market can no longer be
seen (data too old, or the broker's phase differs from the timetable's). So the same lines give the
same fills. It also acts by itself around every boundary of the day: a microsecond before an auction
is uncrossed it enters the levels displayed last, and it withdraws its offers of continuous trading
before the phase ends. `model.py` turns displayed levels into fills.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from pydantic import JsonValue

from bot.domain.quote import Depth, DepthLevel, Quote
from bot.sandbox.exchange.message import Traded
from bot.sandbox.markets.mirror.model import MODELS, FillName
from bot.sandbox.markets.mirror.symbol import MirroredSymbol, Release
from bot.sandbox.markets.source import MarketAccess
from bot.sandbox.scenario import SymbolScript

OBSERVATIONS: Final = frozenset({"mirror_quote", "mirror_depth", "mirror_lost"})
"""The kinds of ledger lines that drive the mirrored market."""
JUST_BEFORE: Final = timedelta(microseconds=1)
_QUOTE_FIELDS: Final = (
    "symbol", "last", "reference", "ceiling", "floor", "open", "high", "low", "volume"
)  # fmt: skip
"""The fields of a quote that a ledger line holds."""


class MirroredMarket:
    """A market source whose orders come from observations. `release` sends a symbol's held orders.

    An order's fidelity says how its latest state came about: by which model, on what depth.
    """

    def __init__(
        self,
        fill: FillName,
        scripts: tuple[SymbolScript, ...],
        access: MarketAccess,
        *,
        release: Release,
        start: datetime,
    ) -> None:
        self._fill = fill
        self._venue, self._rulebook = access.venue, access.rulebook
        self._exchanges = {script.symbol: script.exchange for script in scripts}
        self._symbols = {
            script.symbol: MirroredSymbol(script.instrument, MODELS[fill], access, release)
            for script in scripts
        }
        self._fidelities: dict[str, str] = {}
        self._boundary = self._next_boundary(start)
        self._due = self._boundary - JUST_BEFORE

    def next_due(self) -> datetime:
        """The next action: just before a boundary, or at it."""
        return self._due

    def run_next(self) -> datetime:
        """End the phases that are about to end, or start those that have begun."""
        at = self._due
        is_before = at < self._boundary
        act = MirroredSymbol.end_phase if is_before else MirroredSymbol.start_phase
        phase_at, before = self._rulebook.phase_at, self._boundary - JUST_BEFORE
        # After-hours trading has a second part that begins without a change of phase.
        changing = {
            each
            for each in set(self._exchanges.values())
            if phase_at(each, before) is not phase_at(each, self._boundary)
        }
        for symbol, mirrored in self._symbols.items():
            if self._exchanges[symbol] in changing:
                act(mirrored, max(at, self._venue.now))
        if is_before:
            self._due = self._boundary
        else:
            self._boundary = self._next_boundary(at)
            self._due = self._boundary - JUST_BEFORE
        return at

    def _next_boundary(self, after: datetime) -> datetime:
        exchanges = set(self._exchanges.values())
        return min(self._rulebook.next_phase_change(each, after).at for each in exchanges)

    def take(self, line: Mapping[str, Any]) -> None:
        """Apply an observation, a line of the ledger."""
        symbol, now = self._symbols[line["symbol"]], self._venue.now
        match line["kind"]:
            case "mirror_quote":
                facts = {name: line[name] for name in _QUOTE_FIELDS}
                exchange = self._exchanges[line["symbol"]]
                self.show(Quote(exchange=exchange, updated_at=None, **facts))
            case "mirror_depth":
                sides = (line["bids"], line["asks"])
                bids, asks = (tuple(DepthLevel(*pair) for pair in side) for side in sides)
                depth = Depth(line["symbol"], bids, asks, None)
                symbol.depth(depth, datetime.fromisoformat(line["seen"]), now)
            case "mirror_lost":
                symbol.lose(line["why"], now)
            case kind:
                raise AssertionError(f"{kind} is not an observation")

    def show(self, quote: Quote) -> None:
        """Update a symbol's board from the market; no input, as no order works there."""
        self._symbols[quote.symbol].quote(quote, self._venue.now)

    def holds(self, symbol: str) -> bool:
        """Return whether a new order has to wait here because the market cannot be seen."""
        return self._symbols[symbol].holds

    def note_arrival(self, order_id: str, symbol: str) -> None:
        """Give a new or changed order of ours its place in the queue."""
        if symbol in self._symbols:
            self._symbols[symbol].settle(self._venue.now)
        self._note_fidelity(order_id, symbol)

    def note_trade(self, trade: Traded) -> None:
        """Remember how well the market was seen when something traded."""
        for order_id in (trade.buy_order_id, trade.sell_order_id):
            if "~" not in order_id:
                self._note_fidelity(order_id, trade.symbol)

    def _note_fidelity(self, order_id: str, symbol: str) -> None:
        mirrored = self._symbols.get(symbol)
        seen = mirrored.seen(self._venue.now) if mirrored else "unknown symbol"
        self._fidelities[order_id] = f"paper {self._fill} · {seen}"

    def fidelity(self, order_id: str) -> str:
        """Describe how an order's state came about; by its first id."""
        return self._fidelities.get(order_id, f"paper {self._fill}")


def quote_facts(quote: Quote) -> dict[str, JsonValue]:
    """Return a quote as the ledger stores it."""
    return {name: getattr(quote, name) for name in _QUOTE_FIELDS}


def depth_facts(depth: Depth) -> dict[str, JsonValue]:
    bids: list[JsonValue] = [[each.price, each.volume] for each in depth.bids]
    asks: list[JsonValue] = [[each.price, each.volume] for each in depth.asks]
    return {"symbol": depth.symbol, "bids": bids, "asks": asks}
