"""Accounts: the broker's sub-accounts, their holdings and the cash that may be spent."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Final

SHOWN_OF_ACCOUNT: Final = 5
"""Characters of an account's id that are shown: enough to tell one's accounts apart."""


_AN_ACCOUNT: Final = re.compile(r"\d{3}[A-Z]\d{6}(\.\d{1,2})?|\d{10}(\.\d{1,2})?")


def masked_account(account: str) -> str:
    """Return an account's id as it may be shown or exported; the journal keeps the whole id."""
    return f"…{account[-SHOWN_OF_ACCOUNT:]}" if account else ""


def masked_scope(scope: str) -> str:
    """Return a scope fit to be shown, such as `base:…01.1`: an account may follow the colon."""
    kind, colon, what = scope.partition(":")
    return f"{kind}:{masked_account(what)}" if colon and _AN_ACCOUNT.fullmatch(what) else scope


@dataclass(frozen=True, slots=True)
class SubAccount:
    """A row of the broker's list. Paths take `id` (leading zeros matter), bodies `extended_id`."""

    id: str
    extended_id: str
    type: str
    name: str = ""

    @property
    def masked(self) -> str:
        return masked_account(self.extended_id)


@dataclass(frozen=True, slots=True)
class Holding:
    """Shares of one symbol. `sellable`: settled and free; `receiving`: bought, settling later."""

    symbol: str
    total: int
    sellable: int
    receiving: int
    cost_price: int


@dataclass(frozen=True, slots=True)
class ShareholderRight:
    """What the broker says about one corporate action: `kind` and `ratio` in its words.

    `dividend` is gross VND for all `owned` shares, `shares` the new ones still to come; `paid_on`
    is the last day that the broker names, if any.
    """

    number: str
    symbol: str
    kind: str
    ratio: str
    owned: int
    dividend: int
    shares: int
    paid_on: date | None = None


@dataclass(frozen=True, slots=True)
class Break:
    """An unexplained difference between journal and broker, until a person accepts it.

    `symbol` None: cash. `ours` and `theirs` are VND or shares, None where no number differs.
    `rests_on`: the orders of its day that it concerns.
    """

    break_id: str
    text: str
    at: datetime | None = None
    symbol: str | None = None
    ours: int | None = None
    theirs: int | None = None
    rests_on: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AccountSnapshot:
    """The broker's figures for one sub-account. `is_snapshot`: its prices are not live. `secured`:
    the part of its cash that is held for today's buys; None: the broker does not say.
    `net_asset_value` contains what sales still bring in.
    """

    at: datetime
    account: str
    cash: int
    net_asset_value: int
    holdings: Mapping[str, Holding]
    is_snapshot: bool = False
    secured: int | None = None

    def held(self, symbol: str) -> Holding:
        """Return what it holds of a symbol, which may be nothing."""
        return self.holdings.get(symbol) or Holding(symbol, 0, 0, 0, 0)

    def corrected(
        self, symbol: str, *, total: int, sellable: int, receiving: int
    ) -> "AccountSnapshot":
        """Return the figures with so many more shares of a symbol."""
        was = self.held(symbol)
        now = replace(
            was,
            total=was.total + total,
            sellable=was.sellable + sellable,
            receiving=was.receiving + receiving,
        )
        return replace(self, holdings={**self.holdings, symbol: now})


Moved = tuple[int, int]
"""Shares and VND by which an order has changed the account."""
_MOVED: Final = re.compile(r"; (.+?) (\d+) (\d+)(?=; |$)")


def base_words(at: datetime, elsewhere: Mapping[str, Moved]) -> str:
    """Return the text that a note stores: which figures count, and which external orders they
    include.
    """
    moved = (f"{name} {shares} {amount}" for name, (shares, amount) in elsewhere.items())
    return "; ".join([f"the numbers of {at.isoformat()} count", *moved])


def moved_in(words: str) -> dict[str, Moved]:
    """Parse the external orders and what they moved out of the text that `base_words` wrote."""
    return {name: (int(shares), int(amount)) for name, shares, amount in _MOVED.findall(words)}
