"""The market's side of the API: quote, depth and phase. Needs the API key only.

Foreign shares, which nobody trades here, share the path of the quote.
"""

from collections.abc import Callable, Mapping
from typing import Final

from bot.domain.instrument import Exchange, Phase
from bot.domain.order import OrderType
from bot.domain.quote import Quote
from bot.protocol.quotes import encode_depth, encode_market_phase, encode_quote
from bot.protocol.values.border import MarketPhase
from bot.sandbox.api.call import Call
from bot.sandbox.api.gatekeeper import Gatekeeper, no_depth, not_found
from bot.sandbox.api.variants import with_auction_levels
from bot.sandbox.house.house import House
from bot.sandbox.scenario import SymbolScript

_OF_AUCTIONS: Final = frozenset({OrderType.ATO, OrderType.ATC})
_OF_MATCHING: Final = frozenset({OrderType.MP, OrderType.MTL, OrderType.MOK, OrderType.MAK})
_NOT_NOW: Final[Mapping[Phase, frozenset[OrderType]]] = {
    Phase.OPEN: _OF_MATCHING | {OrderType.ATC},
    Phase.PROGRESS: _OF_AUCTIONS,
    Phase.BREAK: _OF_AUCTIONS | _OF_MATCHING,
}
"""What the narrow reading of the broker's table does not list in a phase."""


class MarketReads:
    """Answers from the exchange core.

    `foreign` answers the quote of a share of another exchange, None for anything else.
    """

    def __init__(
        self, house: House, gate: Gatekeeper, *, foreign: Callable[[Call], object | None]
    ) -> None:
        self._foreign = foreign
        self._switches = house.scenario.switches
        self._symbols = {script.symbol: script for script in house.scenario.symbols}
        self._rulebook = house.rulebook
        self._venue = house.venue
        self._gate = gate

    def stock_quote(self, call: Call) -> object:
        """Answer the quote; before the first trade its price is the reference."""
        if (elsewhere := self._elsewhere(call)) is not None:
            return elsewhere
        script = self._script(call)
        board = self._venue.board(script.symbol)
        quote = Quote(
            symbol=script.symbol,
            exchange=script.exchange,
            last=board.last or board.reference,
            reference=board.reference,
            ceiling=board.ceiling,
            floor=board.floor,
            open=board.open,
            high=board.high,
            low=board.low,
            volume=board.volume,
            updated_at=self._venue.now,
        )
        return encode_quote(quote, name=script.name)

    def stock_depth(self, call: Call) -> object:
        """Answer the best levels of each side; a foreign share has none."""
        if self._elsewhere(call) is not None:
            raise no_depth()
        symbol = self._script(call).symbol
        depth = encode_depth(self._venue.depth(symbol, self._switches.depth_levels))
        if self._switches.auction_levels == "absent":
            return depth
        return with_auction_levels(depth, self._venue.unpriced(symbol))

    def market_phase(self, call: Call) -> object:
        """Answer the phase and what the broker's table lists for it (wider than what is taken)."""
        name = call.query.get("exchange", "").upper()
        if name not in Exchange.__members__:
            raise self._gate.bad_parameter()
        exchange = Exchange(name)
        phase = self._rulebook.phase_at(exchange, call.market_at)
        listed = frozenset(self._rulebook.broker_listed_types(exchange, phase))
        if self._switches.listed_types == "narrow":
            listed -= _NOT_NOW.get(phase, frozenset())
        return encode_market_phase(MarketPhase(exchange, phase, listed, phase.value))

    def _elsewhere(self, call: Call) -> object | None:
        is_ours = call.path_values["symbol"].upper() in self._symbols
        return None if is_ours else self._foreign(call)

    def _script(self, call: Call) -> SymbolScript:
        return listed_symbol(self._symbols, call.path_values["symbol"])


def listed_symbol(symbols: Mapping[str, SymbolScript], name: str) -> SymbolScript:
    """Return a symbol whatever its case; raises HttpRefusal 404 for one that is not listed."""
    script = symbols.get(name.upper())
    if script is None:
        raise not_found()
    return script
