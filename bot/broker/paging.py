"""Lists that come in pages, read to their end.

Four calls say how many items there are or which page is next; the order history says neither, and
its page after the last is empty. A server that sends the same page for ever is not followed.
Source: broker open API 0.2.0-preview.3, sections 4.3, 4.7, 4.8 and 4.10.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeVar

from bot.broker.client import BrokerClient, ReadAnswer
from bot.broker.errors import Malformed
from bot.protocol.endpoints.endpoint import Endpoint
from bot.protocol.shaped import Codec
from bot.protocol.values.account import OrderHistory
from bot.protocol.values.earlier import GlobalNewsPage
from bot.protocol.values.news import Page
from bot.protocol.values.stocks import ForeignRoomHistory, Screen

PAGES_MAX: Final = 500
PAGE: Final = "page"
_FIRST: Final = "1"

Value = TypeVar("Value")


def is_paged(endpoint: Endpoint) -> bool:
    """Tell whether a call takes a page."""
    return any(one.name == PAGE for one in endpoint.takes)


async def read_pages(
    client: BrokerClient,
    codec: Codec[Value],
    path: Mapping[str, str] = MappingProxyType({}),
    query: Sequence[tuple[str, str]] = (),
) -> AsyncIterator[ReadAnswer[Value]]:
    """Yield the page asked for (the first) and those that follow; a call without pages has one.

    Raises Malformed for a page that comes again though more were promised, and for a list longer
    than PAGES_MAX.
    """
    wanted = dict(query)
    before: Value | None = None
    for _ in range(PAGES_MAX):
        heard = await client.ask(codec, path, tuple(wanted.items()))
        if before is not None and heard.value == before:
            _end_at_repetition(codec.endpoint.name, wanted[PAGE], heard.value)
            return
        yield heard
        if not is_paged(codec.endpoint) or not has_next(heard.value, int(wanted.get(PAGE, 1))):
            return
        before = heard.value
        wanted[PAGE] = str(int(wanted.get(PAGE, _FIRST)) + 1)
    raise Malformed(codec.endpoint.name, f"more than {PAGES_MAX} pages")


def _end_at_repetition(call: str, page: str, value: object) -> None:
    """The order history promises nothing: the same page again says that there are no pages."""
    if not isinstance(value, OrderHistory):
        raise Malformed(call, f"page {page} is the one before it again")


def has_next(value: object, page: int) -> bool:
    """Tell whether another page follows this one, which was asked for as `page`."""
    for kind, has_next in _RULES.items():
        if isinstance(value, kind):
            return has_next(value, page)
    return False


def _is_empty(value: object) -> bool:
    return not any(getattr(value, name, ()) for name in ("items", "results", "orders"))


def _by_next_page(value: Page[object] | GlobalNewsPage, page: int) -> bool:
    """`next_page` is the current one on the last page."""
    return value.next_page is not None and value.next_page > page and not _is_empty(value)


def _by_total(value: Screen | ForeignRoomHistory, page: int) -> bool:
    if value.total is None or value.page_size is None:
        return False
    return bool(value.items) and page * value.page_size < value.total


def _until_empty(value: OrderHistory, _: int) -> bool:
    return bool(value.orders)


_RULES: Final[Mapping[type[object], Callable[..., bool]]] = {
    Page: _by_next_page,
    GlobalNewsPage: _by_next_page,
    Screen: _by_total,
    ForeignRoomHistory: _by_total,
    OrderHistory: _until_empty,
}
"""Whether a page follows, by the type of the page."""
