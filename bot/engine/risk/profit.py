"""Profit and loss of a strategy's own shares, in whole VND."""

from bot.domain.instrument import Exchange
from bot.engine.state import Book
from bot.engine.tracks import Position, Runner


def unrealised(book: Book, symbol: str, position: Position) -> int:
    """Return value at the last price less cost; 0 while there is no quote."""
    seen = book.quotes.get(symbol)
    return position.shares * seen.quote.last - position.cost if seen else 0


def day_result(book: Book, runner: Runner) -> int:
    """Return what today has brought: realised and unrealised, less fees and taxes.

    What is unrealised counts from its cost, also for shares of an earlier day.
    """
    open_result = sum(unrealised(book, s, position) for s, position in runner.positions.items())
    return runner.realised_today + open_result - runner.fees_today


def note_holdings(book: Book, exchange: Exchange | None = None) -> None:
    """Name the shares that strategies still hold, all of them or those of one exchange."""
    found = [
        f"{symbol} {position.shares:,}, unrealised {unrealised(book, symbol, position):+,}"
        for runner in book.runners.values()
        for symbol, position in sorted(runner.positions.items())
        if position.shares and exchange in {None, _exchange_of(book, symbol)}
    ]
    if found:
        book.note("HOLDS", f"still open: {' · '.join(found)}", {"positions": len(found)})


def _exchange_of(book: Book, symbol: str) -> Exchange | None:
    instrument = book.instruments.get(symbol)
    return instrument.exchange if instrument else None
