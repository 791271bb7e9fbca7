"""News, macro figures, the economic calendar, bank rates: small made-up tables with dates.

News go back from the present, one every few hours, each with an id of its own, and companies'
decisions among them; macro figures come
out on days of their own in the month after their period, and the calendar says so.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from typing import Final, TypeVar

from bot.protocol.values.news import (
    BankRate,
    BankRates,
    BankRateTable,
    CalendarEvent,
    EventDetail,
    MacroItem,
    MacroPoint,
    MacroSeries,
    NewsArticle,
    NewsItem,
    Page,
)
from bot.protocol.wire_types import CommaPercent
from bot.sandbox.api.gatekeeper import not_found
from bot.sandbox.library.asked import Answer, Asked
from bot.sandbox.library.corporate import CompanyEvent
from bot.sandbox.library.days import start_of
from bot.sandbox.library.figures import scaled, units_of
from bot.sandbox.library.periods import page_of
from bot.sandbox.library.tables import Row, table
from bot.sandbox.library.walk import stream

NEWS_EVERY: Final = timedelta(hours=3)
NEWS_MAX: Final = 500
SOURCE: Final = "sandbox"
_NEWS_EPOCH: Final = datetime(2021, 1, 1, tzinfo=UTC)
_FIRST_MONTH: Final = (2021, 1)
_SATURDAY: Final = 5
_RELEASE_HOUR: Final = timedelta(hours=9)
_DIGITS: Final = 2
_AHEAD_MONTHS: Final = 3
_LIMIT_OF_RANGE: Final = 100
_LINK: Final = "https://news.example/"
T = TypeVar("T")


def paged(asked: Asked, items: Sequence[T]) -> Page[T]:
    """Return the page asked for, as the broker cuts them."""
    size, current = asked.whole("page_size"), asked.whole("page")
    pages = max(1, -(-len(items) // size))
    found = tuple(page_of(asked, items))
    return Page(
        total=len(items),
        current_page=current,
        page_size=size,
        next_page=min(current + 1, max(pages, current)),
        previous_page=max(1, current - 1),
        page_total=len(found),
        items=found,
    )


# ---------------------------------------------------------------------------------------- news


@dataclass(frozen=True, slots=True)
class Story:
    """A piece of news; `category` is the earlier paths' word for its topic."""

    number: int
    title: str
    topic: str
    category: str
    symbol: str | None
    at: datetime


class News:
    """Answers about news."""

    def __init__(
        self, symbols: Sequence[str], events: Iterable[CompanyEvent], *, seed: int
    ) -> None:
        self._symbols = symbols
        self._seed = seed
        self._told: dict[int, CompanyEvent] = {}
        for event in events:
            number = (event.told_at - _NEWS_EPOCH) // NEWS_EVERY
            while number in self._told:
                number += 1
            self._told[number] = event

    def answers(self) -> Mapping[str, Answer]:
        """Return what answers each call, by its name."""
        return {"market_news": self.news, "market_news_item": self.article}

    def stories(self, at: datetime) -> list[Story]:
        """Return the newest, newest first, and behind them what companies have announced."""
        latest = (at - _NEWS_EPOCH) // NEWS_EVERY
        newest = range(latest, max(0, latest - NEWS_MAX), -1)
        older = sorted((each for each in self._told if 0 < each <= newest.stop), reverse=True)
        return [self._story(number) for number in (*newest, *older)]

    def _story(self, number: int) -> Story:
        if (event := self._told.get(number)) is not None:
            at = _NEWS_EPOCH + number * NEWS_EVERY
            return Story(number, event.title, "stock", "stock-market", event.symbol, at)
        source = stream(self._seed, "news", number)
        row = source.choice(table("headlines"))
        symbol = source.choice(self._symbols) if row["topic"] == "stock" and self._symbols else None
        title = row["title"].format(symbol=symbol or "A company")
        at = _NEWS_EPOCH + number * NEWS_EVERY
        return Story(number, title, row["topic"], row["category"], symbol, at)

    def news(self, asked: Asked) -> object:
        """Answer a page, newest first."""
        topic, symbol = asked.text("topic"), (asked.text("symbol") or "").upper()
        found = [
            story
            for story in self.stories(asked.at)
            if topic in {None, story.topic} and symbol in {"", story.symbol}
        ]
        page = paged(asked, found)
        return _with_items(page, map(_item, page.items))

    def article(self, asked: Asked) -> object:
        """Answer one with its text."""
        text = asked.path["news_id"]
        latest = (asked.at - _NEWS_EPOCH) // NEWS_EVERY
        if not (text.isascii() and text.isdigit() and len(text) < 9 and 0 < int(text) <= latest):
            raise not_found()
        story = self._story(int(text))
        item = _item(story)
        return NewsArticle(
            id=item.id,
            title=item.title,
            url=item.url,
            published_at=item.published_at,
            topic=item.topic,
            summary=item.summary,
            source=item.source,
            symbols=item.symbols,
            content=f"<p>{story.title}.</p>",
        )


def _item(story: Story) -> NewsItem:
    return NewsItem(
        id=str(story.number),
        title=story.title,
        url=f"{_LINK}{story.number}",
        published_at=story.at,
        topic=story.topic,
        summary=f"{story.title}.",
        source=SOURCE,
        symbols=(story.symbol,) if story.symbol else (),
    )


def _with_items(page: Page[Story], items: Iterable[T]) -> Page[T]:
    return Page(
        page.total,
        page.current_page,
        page.page_size,
        page.next_page,
        page.previous_page,
        page.page_total,
        tuple(items),
    )


# --------------------------------------------------------------------------------------- macro


@dataclass(frozen=True, slots=True)
class Release:
    """The figure of a period, and when it comes out; `value` in hundredths."""

    row: Row
    year: int
    month: int
    value: int
    before: int | None

    @property
    def period(self) -> str:
        """`2026-03`, or `2026-Q1` of what comes by quarters."""
        if self.row["every"] == "3":
            return f"{self.year}-Q{(self.month + 2) // 3}"
        return f"{self.year}-{self.month:02}"

    @property
    def at(self) -> datetime:
        """Nine o'clock on its day of the month after the period; on Monday for a weekend."""
        index = self.year * 12 + self.month
        day = date(index // 12, index % 12 + 1, int(self.row["day"]))
        to_monday = timedelta(days=7 - day.weekday()) if day.weekday() >= _SATURDAY else timedelta()
        return start_of(day + to_monday) + _RELEASE_HOUR


class Macro:
    """Answers about macro figures and the calendar of their releases."""

    def __init__(self, *, seed: int, first_day: date) -> None:
        self._seed = seed
        self._last_month = first_day.year * 12 + first_day.month + 12 * 2

    def answers(self) -> Mapping[str, Answer]:
        """Return what answers each call, by its name."""
        return {
            "macro_indicators": self.indicators,
            "macro_indicator": self.indicator,
            "economic_calendar": self.calendar,
            "bank_rates": bank_rates,
        }

    @cached_property
    def releases(self) -> Mapping[str, tuple[Release, ...]]:
        """Every figure of every indicator, oldest first, those to come included."""
        return {row["indicator"]: tuple(self._released(row)) for row in table("macro")}

    def _released(self, row: Row) -> Iterable[Release]:
        source, every = stream(self._seed, "macro", row["indicator"]), int(row["every"])
        middle, step = units_of(row["value"], _DIGITS), units_of(row["step"], _DIGITS)
        value, before = middle, None
        first = _FIRST_MONTH[0] * 12 + _FIRST_MONTH[1] - 1
        for index in range(first + every - 1, self._last_month, every):
            value += round(source.gauss((middle - value) * 0.1, step))
            yield Release(row, index // 12, index % 12 + 1, value, before)
            before = value

    def indicators(self, asked: Asked) -> object:
        """Answer the list, by tags and words."""
        tags, wanted = set(asked.items("tags")), (asked.text("search") or "").lower()
        return tuple(
            MacroItem(row["indicator"], row["name"], tuple(row["tags"].split("|")), row["unit"])
            for row in table("macro")
            if tags <= set(row["tags"].split("|"))
            and wanted in f"{row['indicator']} {row['name']}".lower()
        )

    def indicator(self, asked: Asked) -> object:
        """Answer the figures that are out, newest first."""
        releases = self.releases.get(asked.path["indicator"].lower())
        if releases is None:
            raise not_found()
        row, (first, last) = releases[0].row, (asked.text("from"), asked.text("to"))
        limit = int(asked.text("limit") or (_LIMIT_OF_RANGE if first or last else 1))
        points = [
            MacroPoint(each.period, scaled(each.value, _DIGITS))
            for each in reversed(releases)
            if each.at <= asked.at and _is_between(each, first, last)
        ]
        return MacroSeries(row["indicator"], tuple(points[:limit]), row["name"], row["unit"])

    def calendar(self, asked: Asked) -> object:
        """Answer releases by time; from today on unless told otherwise."""
        first = asked.instant("from") or start_of(asked.today)
        last = asked.instant("to") or first + timedelta(days=31 * _AHEAD_MONTHS)
        if last < first:
            raise asked.bad("to: before from")
        found = self.between(first, last, asked.text("country"))
        return paged(asked, [_event(release, asked.at) for release in found])

    def between(self, first: datetime, last: datetime, country: str | None) -> list[Release]:
        """Return the releases between two instants, earliest first."""
        found = [
            release
            for releases in self.releases.values()
            for release in releases
            if first <= release.at <= last and country in {None, release.row["country"]}
        ]
        return sorted(found, key=lambda release: (release.at, release.row["indicator"]))


def _is_between(release: Release, first: str | None, last: str | None) -> bool:
    month = release.year * 12 + release.month - 1
    after = first is None or month >= _months(first)[0]
    return after and (last is None or month <= _months(last)[1])


def _months(period: str) -> tuple[int, int]:
    """Return the first and the last month of a period, counted from year 0."""
    year, rest = int(period[:4]) * 12, period[5:]
    if not rest:
        return year, year + 11
    if rest.startswith("Q"):
        quarter = year + 3 * (int(rest[1]) - 1)
        return quarter, quarter + 2
    return year + int(rest) - 1, year + int(rest) - 1


def _event(release: Release, at: datetime) -> CalendarEvent:
    row, forecast = release.row, _text(release.before)
    return CalendarEvent(
        detail=EventDetail(
            at=release.at,
            category=row["category"],
            actual=_text(release.value) if release.at <= at else None,
            previous=forecast,
            consensus=forecast,
            forecast=forecast,
        ),
        type="ECONOMIC",
        country=row["country"],
        title=f"{row['name']} (made up)",
        unit=row["unit"],
    )


def _text(value: int | None) -> str | None:
    return None if value is None else str(scaled(value, _DIGITS))


# ---------------------------------------------------------------------------------- bank rates


def bank_rates(asked: Asked) -> object:
    """Answer the deposit rates, in force since the first of the month."""
    since = asked.today.replace(day=1)
    banks = tuple(_bank(row, since) for row in table("banks"))
    return BankRateTable(len(banks), since, banks)


def _bank(row: Row, since: date) -> BankRates:
    rates = (
        BankRate(name, _percent(text), since, f"https://bank.example/{row['bank'].split()[0]}.png")
        for name, text in row.items()
        if name != "bank"
    )
    return BankRates(row["bank"], tuple(rates))


def _percent(text: str) -> CommaPercent:
    return None if text == "-" else Decimal(text.removesuffix("%").replace(",", "."))
