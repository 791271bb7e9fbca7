"""Pays in cash what held shares fall by on the ex-dates of a recording, as over bars.

The recording knows the days, the close before and the reference: their difference is paid on that
day, untaxed, and said. Whether it was a dividend, bonus shares or rights the recording does not
say. UPCOM's reference is an average, so what fell there is not known and stays a loss.
"""

from collections.abc import Collection
from datetime import date, datetime

from bot.domain.account import ShareholderRight
from bot.domain.instrument import Exchange, Phase
from bot.domain.quote import ClosesRead, Quote
from bot.domain.rulebook import Rulebook
from bot.runtime.history.backtest.played_market import PlayedMarket
from bot.sandbox.exchange.settlement import Entitlement, EntitlementKind


class ExDatePayments:
    """Those of a played account. All of a day are paid at once: the engine sees one change of cash
    that one right has to explain.
    """

    def __init__(self, market: PlayedMarket, rulebook: Rulebook) -> None:
        self.told: list[str] = []
        self._market, self._rulebook = market, rulebook
        self._day = date.min
        self._held: dict[str, int] = {}
        """What the account held when the day began: that is who gets something."""
        self._awaited: dict[str, int] = {}
        """By symbol, the close before; its reference is still to come."""
        self._falls: dict[str, int] = {}
        """By symbol, what a share fell by."""

    def start_day(self, day: date, symbols: Collection[str]) -> None:
        """Note what is held before a day begins; of the first one it is worth its reference."""
        held = self._market.account.held
        self._held = {symbol: held(symbol) for symbol in symbols} if self._day != date.min else {}
        self._day = day

    def learn(self, event: ClosesRead) -> None:
        """Note who goes ex on this day; it may be told more than once, and late."""
        for close in event.closes:
            symbol = close.symbol
            is_new = symbol not in self._awaited and symbol not in self._falls
            if self._day in close.ex_dates and self._held.get(symbol) and is_new:
                if close.price is None or close.day >= self._day:
                    self._tell_loss(symbol)
                else:
                    self._awaited[symbol] = close.price

    def see(self, at: datetime, quote: Quote) -> None:
        """Take the reference from the first quote in trading; pay when the last one is known."""
        is_open = self._rulebook.phase_at(quote.exchange, at) is not Phase.CLOSED
        if quote.symbol not in self._awaited or quote.reference is None or not is_open:
            return
        close = self._awaited.pop(quote.symbol)
        if quote.exchange is Exchange.UPCOM:
            self._tell_loss(quote.symbol)
        else:
            self._falls[quote.symbol] = max(0, close - quote.reference)
        if not self._awaited:
            self._pay(at)

    def end_day(self, at: datetime) -> None:
        """Pay what is still to be paid; who was not quoted is told as a loss."""
        for symbol in self._awaited:
            self._tell_loss(symbol)
        self._awaited.clear()
        self._pay(at)
        self._falls.clear()

    def _pay(self, at: datetime) -> None:
        account, net, right = self._market.account, 0, None
        for symbol, a_share in self._falls.items():
            if (held := self._held.pop(symbol, 0)) and a_share:
                number, kind = f"{symbol}-{self._day}", EntitlementKind.CASH_DIVIDEND
                due = Entitlement(
                    *(number, kind, symbol, f"1:{a_share}", self._day, at),
                    owned=held,
                    dividend=a_share * held,
                )
                account.entitle(due)
                net += due.dividend
                right = ShareholderRight(
                    number, symbol, kind, due.ratio, held, net, 0, paid_on=self._day
                )
                text = f"{symbol} went ex on {self._day}: the {a_share:,} VND that a share fell by"
                tax = self._rulebook.dividend_tax(due.dividend)
                text = f"{text} were paid in cash for {held:,} shares, untaxed"
                self.told.append(f"{text}; of a dividend {tax:,} VND would be kept back as tax")
        if right is not None:
            self._market.rights = (*self._market.rights, right)

    def _tell_loss(self, symbol: str) -> None:
        self._held.pop(symbol, None)
        text = f"{symbol} went ex on {self._day}: what its holder got is not known, so the fall"
        self.told.append(f"{text} of its price is a loss here")
