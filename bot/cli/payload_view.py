"""A payload of the broker's as a person reads it: its fields, and a table for each list of objects.

Pages of one call are shown as one list. What is nested stands under the way to it, a list in a cell
as JSON. Numbers are grouped, but those that count nothing; Unix seconds are shown as local time.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

from bot.cli.show import aligned, cut
from bot.domain.instrument import EXCHANGE_TZ

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

UNGROUPED: Final = re.compile(r"(.*_)?(id|year|quarter)")
"""Names of numbers that count nothing."""
UNIX_SECONDS: Final = frozenset({"t"})
UNIX_SECONDS_MAX: Final = 32_503_680_000
"""The year 3000: beyond it they are shown as they came."""

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
        yield cut(_cell("", first), limit)


def _list(rows: Sequence[object], limit: int) -> Iterator[str]:
    objects = [row for row in rows if isinstance(row, dict)]
    if not rows:
        yield "(nothing)"
    elif len(objects) == len(rows):
        yield from _table(objects, limit)
    else:
        yield from (cut(_cell("", row), limit) for row in rows)


def _table(rows: Sequence[Object], limit: int) -> Iterator[str]:
    flat = [dict(_leaves("", row)) for row in rows]
    names = list(dict.fromkeys(name for row in flat for name in row))
    columns = [_column(name, [row.get(name) for row in flat]) for name in names]
    heads, *cells = zip(*columns, strict=True)
    yield from aligned(heads, cells, limit=limit)


def _column(name: str, values: Sequence[object]) -> list[str]:
    """The head and its cells; numbers stand right."""
    cells = [name.upper(), *(_cell(name, value) for value in values)]
    if not all(value is None or _is_number(value) for value in values):
        return cells
    wide = max(map(len, cells))
    return [cell.rjust(wide) for cell in cells]


def _object(pages: Sequence[Object], limit: int) -> Iterator[str]:
    tables = _tables_of(pages[0])
    rest = {name: value for name, value in pages[0].items() if name not in tables}
    fields = [(name, _cell(name, value)) for name, value in _leaves("", rest)]
    wide = max((len(name) for name, _ in fields), default=0)
    for name, text in fields:
        yield cut(f"{name:<{wide}} {text}", limit)
    for name in tables:
        yield ""
        if len(tables) > 1:
            yield f"{name}:"
        yield from _list([row for page in pages for row in _rows(page.get(name))], limit)


def _tables_of(value: Object) -> list[str]:
    """The lists of objects, the likeliest first; an empty one only where it is the answer."""
    listed = [name for name, inner in value.items() if _is_table(inner)]
    known = [name for name in ORDER_OF_LISTS if name in listed]
    filled = [name for name in listed if name not in known and value[name]]
    return known[:1] + [name for name in known[1:] if value[name]] + filled


def _is_table(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(row, dict) for row in value)


def _rows(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _leaves(way: str, value: Object) -> Iterator[tuple[str, object]]:
    """Yield what is in an object, and in the objects in it, under the way to it."""
    for name, inner in value.items():
        if isinstance(inner, dict) and inner:
            yield from _leaves(f"{way}{name}.", inner)
        else:
            yield f"{way}{name}", inner


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cell(way: str, value: object) -> str:
    name = way.rpartition(".")[2]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _number(name, value)
    if isinstance(value, str):
        return " ".join(value.split())
    if isinstance(value, dict | list):
        return cut(json.dumps(value, ensure_ascii=False), NESTED_CHARACTERS_MAX)
    return "-" if value is None else json.dumps(value)


def _number(name: str, value: float) -> str:
    if name in UNIX_SECONDS and 0 <= value < UNIX_SECONDS_MAX:
        return f"{datetime.fromtimestamp(value, EXCHANGE_TZ):%Y-%m-%d %H:%M}"
    return str(value) if UNGROUPED.fullmatch(name) else f"{value:,}"
