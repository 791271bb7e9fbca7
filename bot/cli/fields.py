"""Reads what the running bot answered: JSON whose shape is ours, taken apart with its types."""

from collections.abc import Mapping
from datetime import datetime

Fields = Mapping[str, object]


def inner(fields: Fields, name: str) -> Fields:
    """A mapping within; empty when there is none."""
    found = fields.get(name)
    return found if isinstance(found, Mapping) else {}


def each(fields: Fields, name: str) -> list[Fields]:
    """A list of mappings within; empty when there is none."""
    found = fields.get(name)
    rows = found if isinstance(found, list) else []
    return [row for row in rows if isinstance(row, Mapping)]


def words(fields: Fields, name: str) -> list[str]:
    """A list of texts within; empty when there is none."""
    found = fields.get(name)
    return [str(word) for word in found] if isinstance(found, list) else []


def text(fields: Fields, name: str) -> str:
    """A text; empty when there is none."""
    found = fields.get(name)
    return "" if found is None else str(found)


def whole(fields: Fields, name: str) -> int:
    """A whole number; 0 when there is none."""
    found = fields.get(name)
    return found if isinstance(found, int) else 0


def maybe_whole(fields: Fields, name: str) -> int | None:
    """A whole number, or None."""
    found = fields.get(name)
    return found if isinstance(found, int) else None


def instant(fields: Fields, name: str) -> datetime | None:
    """An instant written as ISO 8601, or None."""
    found = fields.get(name)
    return datetime.fromisoformat(found) if isinstance(found, str) else None
