"""Marks what a sandbox's scenario forced, in the journal and on the screen.

The simulated broker may refuse an order or forget a token because its scenario says so; nobody
should then look for a reason in the market or in their settings.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from bot.domain.entry import (
    AttemptFinished,
    AuthEvent,
    Entry,
    IntentMoved,
    Note,
    OrderUpdated,
    StateChanged,
    Transition,
)

_MARK: Final = re.compile(r"\(scripted by scenario [^()]*\)$")
_WORDS_IN: Final[Mapping[type, str]] = {
    Transition: "note",
    OrderUpdated: "note",
    AttemptFinished: "reason",
    IntentMoved: "reason",
    StateChanged: "reason",
    AuthEvent: "detail",
    Note: "text",
}
"""The field that holds an entry's text; other kinds of entry have none."""


def with_mark(entry: Entry, scenario: str) -> Entry:
    """Return the entry, marked as forced by a scenario."""
    field = _WORDS_IN.get(type(entry))
    if field is None or split(getattr(entry, field))[1]:
        return entry
    words = f"{getattr(entry, field)} (scripted by scenario {scenario})".lstrip()
    return replace(entry, **{field: words})  # type: ignore[arg-type]  # every such field is a text


def apart(entry: Entry) -> tuple[Entry, str]:
    """Return the entry without the mark, and the mark; empty if no scenario forced it."""
    field = _WORDS_IN.get(type(entry))
    if field is None:
        return entry, ""
    words, mark = split(getattr(entry, field))
    return (replace(entry, **{field: words}), mark) if mark else (entry, "")  # type: ignore[arg-type]


def split(text: str) -> tuple[str, str]:
    """Return a text without the mark, and the mark."""
    found = _MARK.search(text)
    return (text[: found.start()].rstrip(), found[0]) if found else (text, "")
