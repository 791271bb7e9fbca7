"""What the checks of one order may look at, gathered once for each. Money is VND."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from bot.domain.instrument import Instrument, Phase
from bot.domain.order import OrderType
from bot.domain.plan import AccountLimits, When
from bot.domain.quote import Quote
from bot.domain.rulebook import Rulebook
from bot.engine.findings import Figures


@dataclass(frozen=True, slots=True)
class AccountUse:
    """The limits that an account's strategies share, and what is used of them.

    Orders are those of this bot, also ones whose outcome is not known. `worst_price` is the worst
    level that the depth shows to an order on this side, `shown` its shares; None and 0 without one.
    `nav` is the net asset value and `age` that of the account's read, None before the first one.
    `position_value`: what the account has of the symbol, `gross`: of all, at the last prices, with
    what open buys may add. `flips` are those that an order on this side would make. `ends_in` is
    the phase that takes no orders, where it is near.
    """

    limits: AccountLimits
    open_orders: int
    open_orders_here: int
    last_second: int
    last_minute: int
    orders_today: int
    worst_price: int | None
    shown: int
    nav: int | None = None
    age: timedelta | None = None
    position_value: int = 0
    gross: int = 0
    loss: int = 0
    loss_limit: int | None = None
    is_reduced: bool = False
    flips: int = 0
    sales_of_second: int = 0
    sales_of_minute: int = 0
    ends_in: Phase | None = None


@dataclass(frozen=True, slots=True)
class Opposite:
    """A working order of the same owner on the other side. `price` None: at the market."""

    name: str
    price: int | None


@dataclass(frozen=True, slots=True)
class View:
    """What the checks of one order may look at. Money is VND."""

    at: datetime
    rulebook: Rulebook
    state: str
    is_gate_open: bool
    instrument: Instrument | None
    symbol_halt: str | None
    held_data: tuple[str, Figures] | None
    phase: Phase
    available: frozenset[OrderType] | None
    when: When
    quote: Quote | None
    quote_age: timedelta
    quote_age_max: timedelta
    price: int
    """The limit, or the worst price of an order without one."""
    position: int
    """Own shares with everything that may still be bought."""
    orders_today: int
    loss_today: int
    cash_free: int | None
    sellable: int
    twin: str | None
    opposites: tuple[Opposite, ...]
    unknown_in_account: int
    unknown_in_account_max: int
    unknown: int
    unknown_max: int
    account: AccountUse | None = None
    """What the account has used of its limits; None: it has none."""
    is_auction_near: bool = False
    """Whether an auction is under way, or begins so soon that both sides would be in it."""
    recent_buys: Sequence[int] = ()
    """What the strategy's last buys were worth."""
    invested: int = 0
    """What its shares of all symbols are worth, with what its open buys may add."""

    @property
    def traded(self) -> Instrument:
        """The instrument; SYMBOL, one of the first checks, has made sure that it is known."""
        assert self.instrument is not None, "SYMBOL is checked before"
        return self.instrument

    @property
    def has_price_today(self) -> bool:
        """Whether a round-lot price has been made today, as far as the quote shows."""
        return self.quote is not None and self.quote.volume > 0
