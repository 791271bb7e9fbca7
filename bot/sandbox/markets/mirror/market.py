"""The mirrored market: what a real broker shows becomes the crowd of our own venue.

Three inputs move it, all of them lines of the ledger: a quote, a depth, and that the market is seen
no more (too old, or the broker's phase is not the timetable's). So the same lines give the same
fills. Besides it acts by itself around every boundary of the day: a microsecond before an auction
is uncrossed it puts the levels displayed last into it, and what it offered in continuous trading is
taken out before the phase ends. How displayed levels become fills is in `model.py`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from pydantic import JsonValue

from bot.domain.instrument import Exchange
from bot.domain.quote import Depth, DepthLevel, Quote
from bot.domain.rulebook import Rulebook
from bot.sandbox.exchange.event import Traded
from bot.sandbox.exchange.venue import Venue
from bot.sandbox.markets.mirror.model import MODELS, FillName
from bot.sandbox.markets.mirror.offers import Deliver
from bot.sandbox.markets.mirror.symbol import MirroredSymbol, Release
from bot.sandbox.scenario import SymbolScript

JUST_BEFORE: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Places:
    """What a mirrored market works on. `release` sends the held orders of a symbol."""

    rulebook: Rulebook
    venue: Venue
    deliver: Deliver
    release: Release


class MirroredMarket:
    """A market source whose orders come from observations; see the module."""

    def __init__(
        self, fill: FillName, scripts: tuple[SymbolScript, ...], places: Places, *, start: datetime
    ) -> None:
        self._fill = fill
        self._venue = places.venue
        self._exchanges = {script.symbol: script.exchange for script in scripts}
        self._symbols = {
            script.symbol: MirroredSymbol(
                script.instrument,
                MODELS[fill],
                rulebook=places.rulebook,
                venue=places.venue,
                deliver=places.deliver,
                release=places.release,
            )
            for script in scripts
        }
        self._rulebook = places.rulebook
        self._stamps: dict[str, str] = {}
        self._boundary = self._next_boundary(start)
        self._due = self._boundary - JUST_BEFORE

    # -------------------------------------------------------------------------------- by itself

    def next_due(self) -> datetime:
        """Just before a boundary, then at it."""
        return self._due

    def run_next(self) -> datetime:
        """End the phases that are about to end, or start those that have begun."""
        at = self._due
        if at < self._boundary:
            self._at_boundary(MirroredSymbol.end_phase, at)
            self._due = self._boundary
        else:
            self._at_boundary(MirroredSymbol.start_phase, at)
            self._boundary = self._next_boundary(at)
            self._due = self._boundary - JUST_BEFORE
        return at

    def _next_boundary(self, after: datetime) -> datetime:
        """The next change of phase; the later part of after-hours trading is none."""
        exchanges = set(self._exchanges.values())
        return min(self._rulebook.next_phase_change(each, after).at for each in exchanges)

    def _at_boundary(self, act: Callable[[MirroredSymbol, datetime], None], at: datetime) -> None:
        changing = {each for each in set(self._exchanges.values()) if self._changes(each)}
        for symbol, mirrored in self._symbols.items():
            if self._exchanges[symbol] in changing:
                act(mirrored, max(at, self._venue.now))

    def _changes(self, exchange: Exchange) -> bool:
        before = self._boundary - JUST_BEFORE
        phase_at = self._rulebook.phase_at
        return phase_at(exchange, before) is not phase_at(exchange, self._boundary)

    # ---------------------------------------------------------------------------------- inputs

    def inputs(self) -> Mapping[str, Callable[[Mapping[str, JsonValue]], None]]:
        """Return what carries out each kind of line that an observation is."""
        return {
            "mirror_quote": self._take_quote,
            "mirror_depth": self._take_depth,
            "mirror_lost": self._take_loss,
        }

    def _take_quote(self, line: Mapping[str, JsonValue]) -> None:
        self.show(_read_quote(line, self._exchanges[str(line["symbol"])]))

    def _take_depth(self, line: Mapping[str, JsonValue]) -> None:
        seen_at = datetime.fromisoformat(str(line["seen"]))
        depth = _read_depth(line)
        self._symbols[depth.symbol].depth(depth, seen_at, self._venue.now)

    def _take_loss(self, line: Mapping[str, JsonValue]) -> None:
        self._symbols[str(line["symbol"])].lose(str(line["why"]), self._venue.now)

    def show(self, quote: Quote) -> None:
        """Let the board of a symbol say what the market says; not an input while none works."""
        self._symbols[quote.symbol].quote(quote, self._venue.now)

    # ------------------------------------------------------------------------------- our orders

    def holds(self, symbol: str) -> bool:
        """Tell whether a new order has to wait here, as its market is not seen."""
        return self._symbols[symbol].holds

    def note_arrival(self, order_id: str, symbol: str) -> None:
        """An order of ours came or changed: it takes its place and its stamp."""
        if symbol in self._symbols:
            self._symbols[symbol].settle(self._venue.now)
        self._stamp(order_id, symbol)

    def note_trade(self, trade: Traded) -> None:
        """Stamp what has traded with how the market was seen then."""
        for order_id in (trade.buy_order_id, trade.sell_order_id):
            if "~" not in order_id:
                self._stamp(order_id, trade.symbol)

    def _stamp(self, order_id: str, symbol: str) -> None:
        mirrored = self._symbols.get(symbol)
        seen = mirrored.seen(self._venue.now) if mirrored else "unknown symbol"
        self._stamps[order_id] = f"paper {self._fill} · {seen}"

    def fidelity(self, order_id: str) -> str:
        """Say how an order's state came about; by its first id."""
        return self._stamps.get(order_id, f"paper {self._fill}")


# ------------------------------------------------------------------------------ lines and values


def quote_facts(quote: Quote) -> dict[str, JsonValue]:
    """Return a quote as a ledger keeps it."""
    return {
        "symbol": quote.symbol,
        "last": quote.last,
        "reference": quote.reference,
        "ceiling": quote.ceiling,
        "floor": quote.floor,
        "open": quote.open,
        "high": quote.high,
        "low": quote.low,
        "volume": quote.volume,
    }


def depth_facts(depth: Depth) -> dict[str, JsonValue]:
    """Return a depth as a ledger keeps it."""
    return {"symbol": depth.symbol, "bids": _pairs(depth.bids), "asks": _pairs(depth.asks)}


def _pairs(levels: tuple[DepthLevel, ...]) -> list[JsonValue]:
    return [[level.price, level.volume] for level in levels]


def _read_quote(line: Mapping[str, Any], exchange: Exchange) -> Quote:
    names = ("last", "reference", "ceiling", "floor", "open", "high", "low", "volume")
    figures = {name: line[name] for name in names}
    return Quote(symbol=line["symbol"], exchange=exchange, updated_at=None, **figures)


def _read_depth(line: Mapping[str, Any]) -> Depth:
    bids, asks = (tuple(DepthLevel(*pair) for pair in line[side]) for side in ("bids", "asks"))
    return Depth(line["symbol"], bids, asks, None)
