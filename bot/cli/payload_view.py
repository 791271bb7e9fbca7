"""A payload of the broker's as a person reads it: a table where it is a list of flat objects.

Pages of one call are shown as one list. What is nested stands as JSON in its cell, or as fields
with the way to them.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from bot.cli.show import aligned, cut

NESTED_CHARACTERS_MAX: Final = 60
ORDER_OF_LISTS: Final = (
    "items",
    "results",
    "data",
    "series",
    "portfolio",
    "entries",
    "nav_histories",
    "bank_interest_rates",
    "major_shareholders",
)
"""Under which names an object holds the list that it is about, the likeliest first."""

Object = Mapping[str, object]


def lines_of_payload(payloads: Sequence[object], *, limit: int) -> Iterator[str]:
    """Return the lines of one call's pages, none longer than `limit`."""
    first = payloads[0]
    if isinstance(first, list):
        rows = [row for page in payloads if isinstance(page, list) for row in page]
        yield from _list(rows, limit)
    elif isinstance(first, dict):
        yield from _object([page for page in payloads if isinstance(page, dict)], limit)
    else:
        yield cut(_cell(first), limit)


def _list(rows: Sequence[object], limit: int) -> Iterator[str]:
    objects = [row for row in rows if isinstance(row, dict)]
    if not rows:
        yield "(nothing)"
    elif len(objects) == len(rows):
        yield from _table(objects, limit)
    else:
        yield from (cut(_cell(row), limit) for row in rows)


def _table(rows: Sequence[Object], limit: int) -> Iterator[str]:
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[_shown(row.get(name)) for name in names] for row in rows]
    yield from aligned([name.upper() for name in names], cells, limit=limit)


def _object(pages: Sequence[Object], limit: int) -> Iterator[str]:
    about = next((name for name in ORDER_OF_LISTS if _is_table(pages[0].get(name))), None)
    rest = {name: value for name, value in pages[0].items() if name != about}
    fields = list(_flat("", rest))
    wide = max((len(name) for name, _ in fields), default=0)
    for name, value in fields:
        yield cut(f"{name:<{wide}} {value}", limit)
    if about is not None:
        rows = [row for page in pages for row in _rows(page.get(about))]
        yield ""
        yield from _list(rows, limit)


def _is_table(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(row, dict) for row in value)


def _rows(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _flat(way: str, value: Object) -> Iterator[tuple[str, str]]:
    for name, inner in value.items():
        if isinstance(inner, dict) and inner:
            yield from _flat(f"{way}{name}.", inner)
        else:
            yield f"{way}{name}", _cell(inner)


def _shown(value: object) -> str | int | None:
    """A whole number stands right and grouped, as in every table."""
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    return _cell(value)


def _cell(value: object) -> str:
    if isinstance(value, str):
        return " ".join(value.split())
    if isinstance(value, dict | list):
        return cut(json.dumps(value, ensure_ascii=False), NESTED_CHARACTERS_MAX)
    return "-" if value is None else json.dumps(value)
