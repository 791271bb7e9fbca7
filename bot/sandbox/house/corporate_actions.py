"""Dividends and rights as events of the sandbox, as the scenario lists them.

At 08:00 of the ex-date (SIM: any time before the first phase would do) everybody who held shares at
the close before it, settled or not, is entitled, and the day begins on an adjusted reference:

    (close + sum of price of each right - sum of dividends) / (1 + sum of new shares for one held)

the customary formula of the exchanges, with all actions of that date in it, rounded to the nearest
tick, the higher of two (SIM: no published rule on the rounding was found), never below one tick;
the band follows. At 08:00 of the payment date the cash, less 5 % tax, and the new shares arrive,
and the shares may be sold. The gross dividend counts in the formula (SIM).

Rights issues: the right appears with its price and lapses on its last day, as the API has no call
to exercise it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, time
from fractions import Fraction
from typing import Annotated, Any, Final, Literal

from pydantic import Field, model_validator

from bot.domain.instrument import EXCHANGE_TZ, Instrument
from bot.domain.rulebook import Rulebook
from bot.sandbox.exchange.accounts import Account
from bot.sandbox.exchange.obligations import Entitlement, EntitlementKind
from bot.sandbox.exchange.venue import Venue
from bot.sandbox.scenario_part import Part

MORNING: Final = time(8, tzinfo=EXCHANGE_TZ)
Shares = Annotated[int, Field(gt=0, le=1_000_000)]
Vnd = Annotated[int, Field(gt=0, le=1_000_000_000)]


class _Action(Part):
    """What all actions share; `pays_on` is the payment date, or for rights the last day."""

    symbol: str
    ex_date: date
    pays_on: date

    @model_validator(mode="after")
    def _is_paid_after_the_ex_date(self) -> "_Action":
        if self.pays_on <= self.ex_date:
            raise ValueError(f"pays_on: wanted a day after ex_date {self.ex_date}")
        return self

    @property
    def ex_at(self) -> datetime:
        return datetime.combine(self.ex_date, MORNING)

    @property
    def value(self) -> Fraction:
        """What the formula adds to the price of a share."""
        return Fraction(0)

    @property
    def growth(self) -> Fraction:
        """New shares per share held."""
        return Fraction(0)


class CashDividend(_Action):
    """`vnd_per_share` before tax."""

    do: Literal["cash_dividend"]
    vnd_per_share: Vnd

    @property
    def value(self) -> Fraction:
        return Fraction(-self.vnd_per_share)

    @property
    def ratio(self) -> str:
        return f"1:{self.vnd_per_share}"


class _SharesForShares(_Action):
    """`new` shares for each `held`."""

    do: str
    new: Shares
    held: Shares

    @property
    def growth(self) -> Fraction:
        return Fraction(self.new, self.held)

    @property
    def ratio(self) -> str:
        """The ratio as the broker's statement shows it."""
        return f"{self.held}:{self.new}"


class NewShares(_SharesForShares):
    """Free new shares: a stock dividend or bonus shares."""

    do: Literal["stock_dividend", "bonus_shares"]


class RightsIssue(_SharesForShares):
    """The right to buy new shares at `price`."""

    do: Literal["rights_issue"]
    price: Vnd

    @property
    def value(self) -> Fraction:
        return self.growth * self.price


CorporateAction = Annotated[CashDividend | NewShares | RightsIssue, Field(discriminator="do")]
KINDS: Final = {
    "cash_dividend": EntitlementKind.CASH_DIVIDEND,
    "stock_dividend": EntitlementKind.STOCK_DIVIDEND,
    "bonus_shares": EntitlementKind.BONUS_SHARES,
    "rights_issue": EntitlementKind.STOCK_RIGHT,
}


def promise(action: CorporateAction, number: str, owned: int, rulebook: Rulebook) -> Entitlement:
    """Return what a holding gets, or may buy; a fraction of a share is dropped."""
    gain: dict[str, Any]
    if isinstance(action, CashDividend):
        gross = owned * action.vnd_per_share
        gain = {"dividend": gross, "tax": rulebook.dividend_tax(gross)}
    elif isinstance(action, NewShares):
        gain = {"shares": owned * action.new // action.held}
    else:
        gain = {"offered": owned * action.new // action.held, "price": action.price}
    paid_at = datetime.combine(action.pays_on, MORNING)
    kind, ratio, ex_date = KINDS[action.do], action.ratio, action.ex_date
    return Entitlement(number, kind, action.symbol, ratio, ex_date, paid_at, owned, **gain)


def adjusted_reference(
    rulebook: Rulebook, instrument: Instrument, close: int, actions: Sequence[CorporateAction]
) -> int:
    """Return the reference on the ex-date of all `actions`, by the formula of this module."""
    value = close + sum(action.value for action in actions)
    exact = max(Fraction(1), value / (1 + sum(action.growth for action in actions)))
    ticks = rulebook.ticks_of(instrument)
    above, below = ticks.up(int(exact)), ticks.down(int(exact) + 1)
    return above if 2 * exact >= below + above or not below else below


class CorporateActions:
    """The actions of a scenario, carried out as time passes.

    Those that went ex by `since` are past; accounts and references of the scenario include them.
    """

    def __init__(
        self,
        actions: Iterable[CorporateAction],
        *,
        rulebook: Rulebook,
        venue: Venue,
        accounts: Mapping[str, Account],
        since: datetime,
    ) -> None:
        self._numbered = [(f"{number:06d}", each) for number, each in enumerate(actions, start=1)]
        self._rulebook = rulebook
        self._venue = venue
        self._accounts = accounts
        self._done_until = since

    def next_due(self) -> datetime | None:
        """Return when shares next go ex, None if no more will."""
        coming = (each.ex_at for _, each in self._numbered if each.ex_at > self._done_until)
        return min(coming, default=None)

    def run_due(self, at: datetime) -> None:
        """Carry out every action whose ex-date is due by `at`."""
        while (due := self.next_due()) is not None and due <= at:
            self._go_ex([each for each in self._numbered if each[1].ex_at == due], at)
            self._done_until = due

    def _go_ex(self, numbered: Sequence[tuple[str, CorporateAction]], at: datetime) -> None:
        for account in self._accounts.values():
            # Compute all promises before booking any, so that none affects another.
            owned = [(number, each, account.held(each.symbol)) for number, each in numbered]
            promises = [promise(each, n, held, self._rulebook) for n, each, held in owned if held]
            for entitlement in promises:
                account.entitle(entitlement)
        listings = []
        for symbol in dict.fromkeys(action.symbol for _, action in numbered):
            listing = self._venue.next_listing(symbol)
            own = [action for _, action in numbered if action.symbol == symbol]
            reference = adjusted_reference(
                self._rulebook, listing.instrument, listing.reference, own
            )
            listings.append(replace(listing, reference=reference, band=None))
        self._venue.start_day(at, listings)
