"""What the scenario of a sandbox forced says so: in its row of the journal, and on the screen.

A broker that we play can refuse an order, or forget a token, because its scenario wants that. Who
reads of it must not look for a reason in the market or in their settings. Pure.
"""

import re
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


def with_mark(entry: Entry, scenario: str) -> Entry:
    """Return the entry with words that say that the scenario of that name forced it.

    An entry without words of its own stays as it is.
    """
    if apart(entry)[1]:
        return entry
    return _saying(entry, f"{_words_of(entry)} (scripted by scenario {scenario})".lstrip())


def apart(entry: Entry) -> tuple[Entry, str]:
    """Return the entry without those words, and the words; empty for what no scenario forced."""
    words, mark = split(_words_of(entry))
    return (_saying(entry, words), mark) if mark else (entry, "")


def split(text: str) -> tuple[str, str]:
    """Return a text without those words, and the words."""
    found = _MARK.search(text)
    return (text[: found.start()].rstrip(), found[0]) if found else (text, "")


def _saying(entry: Entry, words: str) -> Entry:
    match entry:
        case Transition() | OrderUpdated():
            return replace(entry, note=words)
        case AttemptFinished() | IntentMoved() | StateChanged():
            return replace(entry, reason=words)
        case AuthEvent():
            return replace(entry, detail=words)
        case Note():
            return replace(entry, text=words)
        case _:
            return entry


def _words_of(entry: Entry) -> str:
    match entry:
        case Transition() | OrderUpdated():
            return entry.note
        case AttemptFinished() | IntentMoved() | StateChanged():
            return entry.reason
        case AuthEvent():
            return entry.detail
        case Note():
            return entry.text
        case _:
            return ""
