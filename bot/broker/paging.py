"""Reads paged lists to their end.

Four calls say how many items there are or which page is next; the order history says neither, and
its page after the last is empty, the same again, or refused: the document does not say. A refusal
after a page that may be full is an error, as more may follow it. A server that keeps sending the
same page is not followed. Source: broker open API 0.2.0-preview.3, sections 4.3, 4.7, 4.8 and 4.10.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from http import HTTPStatus
from types import MappingProxyType
from typing import Final, TypeVar

from bot.broker.client import BrokerClient, ReadAnswer
from bot.broker.errors import Malformed, Refused
from bot.protocol.endpoints.endpoint import Endpoint
from bot.protocol.shaped import Codec
from bot.protocol.values.account import OrderHistory

PAGES_MAX: Final = 500
PAGE: Final = "page"
NO_SUCH_PAGE: Final = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND})
ROUND: Final = 10
"""Page sizes are round numbers: a first page whose length is not a multiple of this is not full."""

Value = TypeVar("Value")


def is_paged(endpoint: Endpoint) -> bool:
    """Return whether a call takes a page."""
    return any(one.name == PAGE for one in endpoint.takes)


async def read_pages(
    client: BrokerClient,
    codec: Codec[Value],
    path: Mapping[str, str] = MappingProxyType({}),
    query: Sequence[tuple[str, str]] = (),
) -> AsyncIterator[ReadAnswer[Value]]:
    """Yield the page asked for (the first) and those that follow; a call without pages yields one.

    Raises Malformed if a page repeats although more were promised, and if there are more than
    PAGES_MAX.
    """
    call, wanted = codec.endpoint.name, dict(query)
    first: Value | None = None
    before: Value | None = None
    for _ in range(PAGES_MAX):
        try:
            found = await client.ask(codec, path, tuple(wanted.items()))
        except Refused as refusal:
            if refusal.http_status in NO_SUCH_PAGE and _is_last(first, before):
                return
            raise
        if before is not None and found.value == before:
            if isinstance(found.value, OrderHistory):
                # it promises no more: getting the same page again means that it has no pages
                return
            raise Malformed(call, f"page {wanted[PAGE]} is the one before it again")
        yield found
        page = int(wanted.get(PAGE, 1))
        if not is_paged(codec.endpoint) or not has_next(found.value, page):
            return
        first = found.value if first is None else first
        before, wanted[PAGE] = found.value, str(page + 1)
    raise Malformed(call, f"more than {PAGES_MAX} pages")


def _is_last(first: object, page: object) -> bool:
    """Return whether a page of the order history is not full, so that none follows it."""
    if not isinstance(first, OrderHistory) or not isinstance(page, OrderHistory):
        return False
    count = len(page.orders)
    return count < len(first.orders) or (page is first and count % ROUND != 0)


def has_next(value: object, page: int) -> bool:
    """Return whether another page follows this one, which was requested as `page`."""
    if isinstance(value, OrderHistory):
        return bool(value.orders)
    # A trading bot reads none of these, and their modules are slow to import.
    from bot.protocol.values.earlier import GlobalNewsPage
    from bot.protocol.values.news import Page
    from bot.protocol.values.stocks import ForeignRoomHistory, Screen

    match value:
        case Page() | GlobalNewsPage():  # on the last page `next_page` is the current one
            is_filled = any(getattr(value, name, ()) for name in ("items", "results"))
            return value.next_page is not None and value.next_page > page and is_filled
        case Screen() | ForeignRoomHistory():
            if value.total is None or value.page_size is None:
                return False
            return bool(value.items) and page * value.page_size < value.total
        case _:
            return False
