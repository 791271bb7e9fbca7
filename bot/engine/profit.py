"""Profit and loss of a strategy's own shares, in whole VND."""

from bot.engine.book import Book
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
