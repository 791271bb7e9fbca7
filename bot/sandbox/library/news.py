"""News, macro figures, the economic calendar, bank rates: small invented tables with dates.

News items go back from the present, one every few hours, each with its own id, and include
companies' decisions; macro figures are released on fixed days of the month after their period, as
the calendar shows.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from typing import Any, Final, TypeVar

from bot.protocol.values import news as values
from bot.sandbox.api.gatekeeper import not_found
from bot.sandbox.library.answer import Asked, maybe, scaled, units_of
from bot.sandbox.library.stocks import CompanyEvent
from bot.sandbox.library.walk import SATURDAY, Row, start_of, stream, table

NEWS_EVERY: Final = timedelta(hours=3)
NEWS_MAX: Final = 500
SOURCE: Final = "sandbox"
LINK: Final = "https://news.example/"
DIGITS: Final = 2
"""Macro figures are kept in hundredths."""
_NEWS_EPOCH: Final = datetime(2021, 1, 1, tzinfo=UTC)
_FIRST_MONTH: Final = 2021 * 12
_MONTHS_AHEAD: Final = 24
_RELEASE_HOUR: Final = timedelta(hours=9)
_CALENDAR_DAYS: Final = timedelta(days=93)
_LIMIT_OF_RANGE: Final = 100
T = TypeVar("T")


def paged(asked: Asked, items: Sequence[T]) -> values.Page[T]:
    """Return the requested page, cut like the broker's."""
    size, current = asked.whole("page_size"), asked.whole("page")
    pages = max(1, -(-len(items) // size))
    found = asked.page(items)
    return values.Page(
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
    category: str
    item: values.NewsItem


class News:
    def __init__(
        self, symbols: Sequence[str], events: Iterable[CompanyEvent], *, seed: int
    ) -> None:
        self._symbols = symbols
        self._seed = seed
        self._announced: dict[int, CompanyEvent] = {}
        for event in events:
            number = (event.announced_at - _NEWS_EPOCH) // NEWS_EVERY
            while number in self._announced:
                number += 1
            self._announced[number] = event

    def stories(self, at: datetime) -> list[Story]:
        """Return the newest stories, newest first, followed by what companies have announced."""
        latest = (at - _NEWS_EPOCH) // NEWS_EVERY
        newest = range(latest, max(0, latest - NEWS_MAX), -1)
        older = sorted((each for each in self._announced if 0 < each <= newest.stop), reverse=True)
        return [self._story(number) for number in (*newest, *older)]

    def _story(self, number: int) -> Story:
        if (event := self._announced.get(number)) is not None:
            topic, category, symbol, title = "stock", "stock-market", event.symbol, event.title
        else:
            source = stream(self._seed, "news", number)
            row = source.choice(table("headlines"))
            topic, category, symbol = row["topic"], row["category"], ""
            if topic == "stock" and self._symbols:
                symbol = source.choice(self._symbols)
            title = row["title"].format(symbol=symbol or "A company")
        item = values.NewsItem(
            id=str(number),
            title=title,
            url=f"{LINK}{number}",
            published_at=_NEWS_EPOCH + number * NEWS_EVERY,
            topic=topic,
            summary=f"{title}.",
            source=SOURCE,
            symbols=(symbol,) if symbol else (),
        )
        return Story(number, category, item)

    def market_news(self, asked: Asked) -> object:
        topic, symbol = asked.text("topic"), (asked.text("symbol") or "").upper()
        items = (story.item for story in self.stories(asked.at))
        found = [
            item
            for item in items
            if topic in {None, item.topic} and (not symbol or symbol in item.symbols)
        ]
        return paged(asked, found)

    def market_news_item(self, asked: Asked) -> object:
        text = asked.path["news_id"]
        latest = (asked.at - _NEWS_EPOCH) // NEWS_EVERY
        if not (text.isascii() and text.isdigit() and len(text) < 9 and 0 < int(text) <= latest):
            raise not_found()
        item = self._story(int(text)).item
        known: dict[str, Any] = {each.name: getattr(item, each.name) for each in fields(item)}
        return values.NewsArticle(**known, content=f"<p>{item.title}.</p>")


# --------------------------------------------------------------------------------------- macro


@dataclass(frozen=True, slots=True)
class Release:
    """The figure of a period and when it is released; `value` in hundredths."""

    row: Row
    year: int
    month: int
    value: int
    before: int | None

    @property
    def period(self) -> str:
        """`2026-03`, or `2026-Q1` for quarterly figures."""
        if self.row["every"] == "3":
            return f"{self.year}-Q{(self.month + 2) // 3}"
        return f"{self.year}-{self.month:02}"

    @property
    def at(self) -> datetime:
        """Nine o'clock on its day of the month after the period; on Monday for a weekend."""
        index = self.year * 12 + self.month
        day = date(index // 12, index % 12 + 1, int(self.row["day"]))
        to_monday = timedelta(days=7 - day.weekday()) if day.weekday() >= SATURDAY else timedelta()
        return start_of(day + to_monday) + _RELEASE_HOUR


class Macro:
    """Answers about macro figures and the calendar of their releases, and bank rates."""

    def __init__(self, *, seed: int, first_day: date) -> None:
        self._seed = seed
        self._last_month = first_day.year * 12 + first_day.month + _MONTHS_AHEAD

    @cached_property
    def releases(self) -> Mapping[str, tuple[Release, ...]]:
        """Every figure of every indicator, oldest first, including future ones."""
        return {row["indicator"]: tuple(self._released(row)) for row in table("macro")}

    def _released(self, row: Row) -> Iterable[Release]:
        source, every = stream(self._seed, "macro", row["indicator"]), int(row["every"])
        middle, step = units_of(row["value"], DIGITS), units_of(row["step"], DIGITS)
        value, before = middle, None
        for index in range(_FIRST_MONTH + every - 1, self._last_month, every):
            value += round(source.gauss((middle - value) * 0.1, step))
            yield Release(row, index // 12, index % 12 + 1, value, before)
            before = value

    def between(self, first: datetime, last: datetime, country: str | None) -> list[Release]:
        """Return the releases between two instants, earliest first."""
        found = [
            release
            for releases in self.releases.values()
            for release in releases
            if first <= release.at <= last and country in {None, release.row["country"]}
        ]
        return sorted(found, key=lambda release: (release.at, release.row["indicator"]))

    def macro_indicators(self, asked: Asked) -> object:
        wanted, search, found = set(asked.items("tags")), (asked.text("search") or "").lower(), []
        for row in table("macro"):
            name, tags = row["name"], tuple(row["tags"].split("|"))
            if wanted <= set(tags) and search in f"{row['indicator']} {name}".lower():
                found.append(values.MacroItem(row["indicator"], name, tags, row["unit"]))
        return tuple(found)

    def macro_indicator(self, asked: Asked) -> object:
        """Answer the released figures, newest first."""
        releases = self.releases.get(asked.path["indicator"].lower())
        if releases is None:
            raise not_found()
        row, (first, last) = releases[0].row, (asked.text("from"), asked.text("to"))
        limit = int(asked.text("limit") or (_LIMIT_OF_RANGE if first or last else 1))
        earliest = _months(first)[0] if first else _FIRST_MONTH
        latest = _months(last)[1] if last else self._last_month
        points = [
            values.MacroPoint(each.period, scaled(each.value, DIGITS))
            for each in reversed(releases)
            if each.at <= asked.at and earliest <= each.year * 12 + each.month - 1 <= latest
        ]
        return values.MacroSeries(row["indicator"], tuple(points[:limit]), row["name"], row["unit"])

    def economic_calendar(self, asked: Asked) -> object:
        """Answer releases by time, from today on unless asked otherwise."""
        first = asked.instant("from") or start_of(asked.today)
        last = asked.instant("to") or first + _CALENDAR_DAYS
        if last < first:
            raise asked.bad("to: before from")
        events = []
        for release in self.between(first, last, asked.text("country")):
            before, actual = maybe(release.before, DIGITS), scaled(release.value, DIGITS)
            expected = None if before is None else str(before)
            detail = values.EventDetail(
                at=release.at,
                category=release.row["category"],
                actual=str(actual) if release.at <= asked.at else None,
                previous=expected,
                consensus=expected,
                forecast=expected,
            )
            event = values.CalendarEvent(
                detail=detail,
                type="ECONOMIC",
                country=release.row["country"],
                title=f"{release.row['name']} (made up)",
                unit=release.row["unit"],
            )
            events.append(event)
        return paged(asked, events)

    def bank_rates(self, asked: Asked) -> object:
        """Answer the deposit rates, in force since the first of the month."""
        since = asked.today.replace(day=1)
        banks = []
        for row in table("banks"):
            logo = f"https://bank.example/{row['bank'].split()[0]}.png"
            rates = (
                values.BankRate(name, bank_rate(text), since, logo)
                for name, text in row.items()
                if name != "bank"
            )
            banks.append(values.BankRates(row["bank"], tuple(rates)))
        return values.BankRateTable(len(banks), since, tuple(banks))


def bank_rate(text: str) -> Decimal | None:
    """Return `4,70%` as a number, None for `-`."""
    return None if text == "-" else Decimal(text.removesuffix("%").replace(",", "."))


def _months(period: str) -> tuple[int, int]:
    """Return the first and the last month of a period, counted from year 0."""
    year, rest = int(period[:4]) * 12, period[5:]
    if not rest:
        return year, year + 11
    if rest.startswith("Q"):
        quarter = year + 3 * (int(rest[1]) - 1)
        return quarter, quarter + 2
    return year + int(rest) - 1, year + int(rest) - 1
