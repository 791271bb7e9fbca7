"""The money and shares of one account, worked out from its trades alone, every time from the start.

It shares nothing with the accounts but the calendar. Shares bought and money from sales are there
at 13:00 of the second trading day after the trade; fee and tax are those of an order's whole
executed amount, half a dong rounded up. Dividends go to what was held at the end of the day before,
5 % less, at 08:00 of their payment date; new shares come then, whole ones only.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta

from bot.domain.calendar import TradingCalendar
from bot.domain.instrument import EXCHANGE_TZ

FEE_PPM, TAX_PPM, DIVIDEND_TAX_PPM = 1_500, 1_000, 50_000


@dataclass
class Deal:
    order_id: str
    symbol: str
    is_buy: bool
    day: date
    quantity: int
    amount: int


@dataclass
class Gift:
    """VND, or `new` shares for each `held`, to each share held before `ex_date`."""

    symbol: str
    ex_date: date
    paid: date
    vnd: int = 0
    new: int = 0
    held: int = 1


@dataclass
class SlowLedger:
    calendar: TradingCalendar
    cash: int
    shares: dict[str, int]
    deals: list[Deal] = field(default_factory=list)
    gifts: list[Gift] = field(default_factory=list)

    def cash_at(self, at: datetime) -> int:
        """Cash in hand: every buy at once, every sale once it is settled."""
        found = self.cash
        for deal in self._orders():
            charge = part(deal.amount, FEE_PPM)
            if deal.is_buy:
                found -= deal.amount + charge
            elif self._is_settled(deal.day, at):
                found += deal.amount - charge - part(deal.amount, TAX_PPM)
        return found + sum(self._net(gift) for gift in self.gifts if self._is_paid(gift, at))

    def dividends_due(self, at: datetime) -> int:
        """Dividends after tax that shares have gone ex for and that are not paid."""
        due = (gift for gift in self.gifts if self._is_ex(gift, at) and not self._is_paid(gift, at))
        return sum(self._net(gift) for gift in due)

    def _net(self, gift: Gift) -> int:
        gross = self._entitled(gift) * gift.vnd
        return gross - part(gross, DIVIDEND_TAX_PPM)

    def _entitled(self, gift: Gift) -> int:
        """Shares held at the end of the day before, new ones of earlier gifts among them."""
        signs = {True: 1, False: -1}
        earlier = [deal for deal in self.deals if deal.day < gift.ex_date]
        moved = sum(signs[d.is_buy] * d.quantity for d in earlier if d.symbol == gift.symbol)
        before = [each for each in self.gifts if each.ex_date < gift.ex_date]
        given = sum(self._given(each) for each in before if each.symbol == gift.symbol)
        return self.shares[gift.symbol] + moved + given

    def _given(self, gift: Gift) -> int:
        return self._entitled(gift) * gift.new // gift.held

    def _is_ex(self, gift: Gift, at: datetime) -> bool:
        return datetime.combine(gift.ex_date, time(8), tzinfo=EXCHANGE_TZ) <= at

    def _is_paid(self, gift: Gift, at: datetime) -> bool:
        return datetime.combine(gift.paid, time(8), tzinfo=EXCHANGE_TZ) <= at

    def charges(self) -> int:
        """All fees and taxes."""
        fees = sum(part(deal.amount, FEE_PPM) for deal in self._orders())
        return fees + sum(part(deal.amount, TAX_PPM) for deal in self._orders() if not deal.is_buy)

    def settled_at(self, symbol: str, at: datetime) -> int:
        """Shares that may be sold or are being sold."""
        found = self.shares[symbol]
        for deal in self.deals:
            if deal.symbol == symbol and not deal.is_buy:
                found -= deal.quantity
            elif deal.symbol == symbol and self._is_settled(deal.day, at):
                found += deal.quantity
        paid = (gift for gift in self.gifts if self._is_paid(gift, at))
        return found + sum(self._given(gift) for gift in paid if gift.symbol == symbol)

    def promised_at(self, symbol: str, at: datetime) -> int:
        """All new shares that holders have a claim to, paid ones too."""
        known = (gift for gift in self.gifts if self._is_ex(gift, at))
        return sum(self._given(gift) for gift in known if gift.symbol == symbol)

    def held(self, symbol: str) -> int:
        """All shares, settled or not, but for gifts."""
        signs = {True: 1, False: -1}
        moved = (signs[deal.is_buy] * deal.quantity for deal in self.deals if deal.symbol == symbol)
        return self.shares[symbol] + sum(moved)

    def _orders(self) -> list[Deal]:
        """The deals of one order as one: orders never live over night."""
        found: dict[str, list[Deal]] = defaultdict(list)
        for deal in self.deals:
            found[deal.order_id].append(deal)
        return [
            Deal(key, "", deals[0].is_buy, deals[0].day, 0, sum(deal.amount for deal in deals))
            for key, deals in found.items()
        ]

    def _is_settled(self, traded: date, at: datetime) -> bool:
        day, left = traded, 2
        while left:
            day += timedelta(days=1)
            left -= self.calendar.is_trading_day(day)
        return datetime.combine(day, time(13), tzinfo=EXCHANGE_TZ) <= at


def part(amount: int, ppm: int) -> int:
    """A share of an amount in whole VND, half up, by long division."""
    whole, rest = divmod(amount * ppm, 1_000_000)
    return whole + (rest >= 500_000)
