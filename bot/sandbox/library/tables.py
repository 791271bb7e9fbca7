"""The small made-up tables of the library, read when first asked for.

A line that begins with `#` says something about the table and is no row.
"""

import csv
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final

_TABLES: Final = files("bot.sandbox.library") / "tables"

Row = Mapping[str, str]


@cache
def table(name: str) -> tuple[Row, ...]:
    """Return the rows of a table in their order; an unknown name is our bug."""
    text = (_TABLES / f"{name}.csv").read_text(encoding="utf-8")
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    return tuple(csv.DictReader(lines))
