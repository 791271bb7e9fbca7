"""`limits:` of a strategy file, and in bot.yaml those of every strategy and of an account.

A separate module because the models of both files use it and do not import each other.
"""

from datetime import timedelta
from typing import Annotated, Final, get_args

from pydantic import ConfigDict
from pydantic.fields import FieldInfo

from bot.config.field_types import parts_per_million, texts, whole
from bot.config.model_check import Section
from bot.domain.plan import AccountLimits, Limits

VND: Final = whole(1, 1_000_000_000_000, "whole VND")
SHARES: Final = whole(1, 10_000_000, "a number of shares")
ORDERS: Final = whole(1, 10_000, "a number of orders")


class LimitsSection(Section):
    """An order beyond a limit is refused before it is sent. What is left out is not limited."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    max_position: Annotated[int | None, SHARES] = None
    """Shares per symbol."""
    max_order_value: Annotated[int | None, VND] = None
    """VND of one order."""
    max_orders_per_day: Annotated[int | None, ORDERS] = None
    """Orders of one day."""
    max_loss_per_day: Annotated[int | None, VND] = None
    """VND lost in a day, at which the strategy pauses."""
    max_price_gap: Annotated[int | None, parts_per_million] = None
    """How far from the last trade a price may be, like 3%."""
    max_repeats: Annotated[int | None, ORDERS] = None
    """Fills on one side of a symbol, after which the strategy is disabled until you enable it."""
    max_times_median: Annotated[int | None, whole(2, 1_000)] = None
    """How many times the median of its last 20 buys a buy may be worth, once it has made five."""
    capital: Annotated[int | None, VND] = None
    """VND in its shares of all symbols, with what its open buys may add."""

    def to_domain(self) -> Limits:
        """Return the limits as the engine takes them."""
        same = self.model_dump(exclude={"max_price_gap"})
        return Limits(**same, max_price_gap_ppm=self.max_price_gap)


class EveryStrategySection(LimitsSection):
    """Limits that each strategy has beside its own: the tighter one holds, null: no limit."""

    max_orders_per_day: Annotated[int, ORDERS] | None = 30
    """Orders of one strategy in one day (R08)."""
    max_repeats: Annotated[int, ORDERS] | None = 10
    """Fills of one day on one side of a symbol, after which the strategy is disabled until you
    enable it (R09).
    """
    max_times_median: Annotated[int, whole(2, 1_000)] | None = 5
    """How many times the median of its last 20 buys a buy may be worth, once it has made five
    (R04).
    """
    capital: Annotated[int, VND] | None = 50_000_000
    """VND in its shares of all symbols, with what its open buys may add (R28)."""
    max_loss_per_day: Annotated[int, VND] | None = 1_000_000
    """VND that it loses in a day before it only sells until tomorrow (R28)."""


class AccountSection(Section):
    """Limits that all strategies share: what they do together stays within them, null: no limit."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    max_order_value: Annotated[int, VND] | None = 20_000_000
    """VND of one order (R01)."""
    max_order_quantity: Annotated[int, SHARES] | None = 5_000
    """Shares of one order (R02)."""
    max_price_gap: Annotated[int, parts_per_million] | None = 20_000
    """How far from the last trade a limit, or the worst level that a market order meets, may be,
    like 2% (R03).
    """
    max_reference_gap: Annotated[int, parts_per_million] | None = None
    """The same from the day's reference; left out: the day's band alone, floor to ceiling."""
    max_open_orders: Annotated[int, ORDERS] | None = 10
    """Orders of this bot that are open at once (R06)."""
    max_open_orders_per_symbol: Annotated[int, ORDERS] | None = 3
    """The same in one symbol."""
    max_orders_per_second: Annotated[int, ORDERS] | None = 1
    """Orders and changes within a second of market time; cancels count and always go out (R07)."""
    max_orders_per_minute: Annotated[int, ORDERS] | None = 6
    """The same within a minute."""
    max_orders_per_day: Annotated[int, ORDERS] | None = 60
    """Orders of all strategies in one day (R08)."""
    max_position_value: Annotated[int, VND] | None = 100_000_000
    """VND in one symbol, with what open buys may add (R10)."""
    max_position_of_nav: Annotated[int, parts_per_million] | None = 200_000
    """The same as a part of the account's net asset value, like 20%."""
    max_gross_of_nav: Annotated[int, parts_per_million] | None = 800_000
    """All shares with what open buys may add, as a part of the net asset value (R11)."""
    max_loss_per_day: Annotated[int, VND] | None = 2_000_000
    """VND lost today, unrealised and fees included, at which entries stop until tomorrow; at twice
    that the bot is halted (R12).
    """
    max_loss_of_nav: Annotated[int, parts_per_million] | None = 15_000
    """The same as a part of the net asset value, like 1.5%."""
    min_cash: Annotated[int, VND] | None = 5_000_000
    """VND that a buy leaves in the account (R13)."""
    max_flips_per_symbol: Annotated[int, ORDERS] | None = 3
    """How often fills of a day may change sides in a symbol, before entries in it stop (R16)."""
    max_auction_share: Annotated[int, parts_per_million] | None = 50_000
    """The part of what an auction shows on the other side that an order may be, like 5% (R17)."""
    max_account_age_s: Annotated[int, whole(10, 3_600)] | None = 120
    """Entries stop when the account was read longer ago (R19; market time)."""
    last_entry_s: Annotated[int, whole(1, 3_600)] | None = 60
    """The last entry is that long before a phase that takes no orders (R20; market time)."""
    symbols: Annotated[tuple[str, ...], texts] | None = None
    """The only symbols that may be traded; left out: those of the strategies (R22)."""

    @property
    def words(self) -> str:
        """The most important limits on one line; empty if none of them is set."""
        named = (
            (self.max_order_value, "{:,} VND an order"),
            (self.max_orders_per_minute, "{:,} orders a minute"),
            (self.max_orders_per_day, "{:,} a day"),
            (self.max_position_value, "{:,} VND a symbol"),
            (self.max_loss_per_day, "day loss {:,}"),
        )
        told = [text.format(most) for most, text in named if most is not None]
        return ", ".join((*told, *(f"no {name}" for name in removed(self)))) if told else ""

    def to_domain(self) -> AccountLimits:
        """Return the limits as the engine takes them."""
        own = self.model_dump()
        in_own_terms = {
            "max_price_gap_ppm": own.pop("max_price_gap"),
            "max_reference_gap_ppm": own.pop("max_reference_gap"),
            "max_position_nav_ppm": own.pop("max_position_of_nav"),
            "max_gross_nav_ppm": own.pop("max_gross_of_nav"),
            "max_loss_nav_ppm": own.pop("max_loss_of_nav"),
            "max_auction_share_ppm": own.pop("max_auction_share"),
            "max_account_age": _length(own.pop("max_account_age_s")),
            "last_entry": _length(own.pop("last_entry_s")),
            "symbols": None if (symbols := own.pop("symbols")) is None else frozenset(symbols),
        }
        return AccountLimits(**own, **in_own_terms)


def removed(section: Section) -> tuple[str, ...]:
    """Return the limits that hold by default and are taken away by a null."""
    fields = type(section).model_fields.items()
    had = (name for name, field in fields if field.default is not None)
    return tuple(name for name in had if getattr(section, name) is None)


def _length(seconds: int | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)


def _is_percentage(field: FieldInfo) -> bool:
    inner = (
        each for part in get_args(field.annotation) for each in getattr(part, "__metadata__", ())
    )
    return parts_per_million in (*field.metadata, *inner)


PERCENTAGES: Final = frozenset(
    name
    for section in (EveryStrategySection, AccountSection)
    for name, field in section.model_fields.items()
    if _is_percentage(field)
)
"""Limits that are written as a percentage and kept in parts per million."""
