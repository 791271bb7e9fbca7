"""Profit and loss of a strategy's own shares, in whole VND."""

from bot.domain.instrument import Exchange
from bot.engine.state import State
from bot.engine.tracked import Position, StrategyState


def unrealised(state: State, symbol: str, position: Position) -> int:
    """Return value at the last price less cost; 0 while there is no quote."""
    seen = state.quotes.get(symbol)
    return position.shares * seen.quote.last - position.cost if seen else 0


def day_result(state: State, strategy: StrategyState) -> int:
    """Return what today has brought: realised and unrealised, less fees and taxes.

    What is unrealised counts from its cost, also for shares of an earlier day.
    """
    open_result = sum(unrealised(state, s, position) for s, position in strategy.positions.items())
    return strategy.realised_today + open_result - strategy.fees_today


def note_holdings(state: State, exchange: Exchange | None = None) -> None:
    """Name the shares that strategies still hold, all of them or those of one exchange."""
    found = [
        f"{symbol} {position.shares:,}, unrealised {unrealised(state, symbol, position):+,}"
        for strategy in state.strategies.values()
        for symbol, position in sorted(strategy.positions.items())
        if position.shares and exchange in {None, _exchange_of(state, symbol)}
    ]
    if found:
        state.note("HOLDS", f"still open: {' · '.join(found)}", {"positions": len(found)})


def _exchange_of(state: State, symbol: str) -> Exchange | None:
    instrument = state.instruments.get(symbol)
    return instrument.exchange if instrument else None
