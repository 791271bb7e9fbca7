"""News, macro figures, the economic calendar, bank rates.

On the last page `next_page` is the current one. Percentages and figures are in the unit given
beside them. Source: broker open API 0.2.0-preview.3, news, macro, calendar, financials.
"""

from dataclasses import dataclass
from typing import Annotated, Final, Generic, TypeVar

from pydantic import BeforeValidator, Field

from bot.protocol.fields import (
    Code,
    CommaPercent,
    Count,
    CountOrNone,
    NumberOrNone,
    SlashedDay,
    Stamp,
    Text,
    Texts,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a list: `total` items in all, `page_total` of them on this page."""

    total: Count
    current_page: Count
    page_size: Count
    next_page: CountOrNone = None
    previous_page: CountOrNone = None
    page_total: CountOrNone = None
    items: Annotated[tuple[T, ...], Field(alias="results")] = ()


# ---------------------------------------------------------------------------------------- news


@dataclass(frozen=True, slots=True)
class NewsItem:
    """An article, newest first in a page. `topic` is crypto, forex, stock, commodities or macro."""

    id: Code
    title: Text
    url: Text
    published_at: Stamp
    topic: Text
    summary: Text = ""
    source: Text = ""
    symbols: Texts = ()


@dataclass(frozen=True, slots=True)
class NewsArticle(NewsItem):
    """An article with its text, as the broker sends it: it may be HTML and must not be trusted."""

    content: Text = ""


# --------------------------------------------------------------------------------------- macro


@dataclass(frozen=True, slots=True)
class MacroItem:
    indicator: Text
    name: Text = ""
    tags: Texts = ()
    unit: Text = ""


@dataclass(frozen=True, slots=True)
class MacroPoint:
    """The figure of a period: `2026`, `2026-Q1` or `2026-03`."""

    period: Text
    value: NumberOrNone = None


@dataclass(frozen=True, slots=True)
class MacroSeries:
    """The figures of an indicator in `unit`, newest first."""

    indicator: Text
    series: tuple[MacroPoint, ...] = ()
    name: Text = ""
    unit: Text = ""


# ------------------------------------------------------------------------------------ calendar

_PERCENT: Final = "%"
_FIGURES: Final = ("actual", "previous", "consensus", "forecast")


def _unit_found(value: object) -> object:
    """Move the unit to the event, whether it is there, in the detail, or appended to a figure."""
    detail = value.get("detail") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(detail, dict):
        return value
    figures = [detail[name] for name in _FIGURES if isinstance(detail.get(name), str)]
    shown = _PERCENT if any(one.strip().endswith(_PERCENT) for one in figures) else ""
    return {**value, "unit": value.get("unit") or detail.get("unit") or shown}


def _figure(value: object) -> object:
    """A figure is a text; older writers append its percent sign, or send a number."""
    if isinstance(value, str):
        return value.strip().removesuffix(_PERCENT).rstrip()
    return None if value is None else str(value)


Figure = Annotated[str | None, BeforeValidator(_figure)]


@dataclass(frozen=True, slots=True)
class EventDetail:
    """When an event is due and its figures: numbers as texts in the event's unit, None if still
    open.
    """

    at: Annotated[Stamp, Field(alias="date")]
    category: Text = ""
    actual: Figure = None
    previous: Figure = None
    consensus: Figure = None
    forecast: Figure = None


@dataclass(frozen=True, slots=True)
class CalendarEvent:
    """An economic event. Sources differ on where `unit` is, so it is read from any of the places
    and written beside `detail`.
    """

    detail: EventDetail
    type: Text = ""
    country: Text = ""
    title: Text = ""
    unit: Text = ""


NewsPage = Page[NewsItem]
CalendarPage = Page[Annotated[CalendarEvent, BeforeValidator(_unit_found)]]


# ---------------------------------------------------------------------------------- bank rates


@dataclass(frozen=True, slots=True)
class BankRate:
    """What a bank pays for a term, percent a year; None if it offers none."""

    duration: Annotated[Text, Field(alias="duration_name")] = ""
    percent: CommaPercent = None
    effective_date: SlashedDay = None
    bank_icon_url: Text = ""


@dataclass(frozen=True, slots=True)
class BankRates:
    bank_name: Text
    rates: tuple[BankRate, ...] = ()


@dataclass(frozen=True, slots=True)
class BankRateTable:
    """The deposit rates of all banks; the broker sends an empty object before it has any."""

    bank_count: Annotated[Count, Field(alias="no_bank")] = 0
    effective_date: SlashedDay = None
    banks: Annotated[tuple[BankRates, ...], Field(alias="bank_interest_rates")] = ()
