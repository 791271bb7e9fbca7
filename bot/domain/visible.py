"""Makes text from outside safe to show: every character is visible and none has an effect.

A broker's message, a strategy's reason, a row of a database or a file's name may hold characters
that control a terminal, forge a line of a run or reverse the reading direction. Here they become
visible, `\\x1b` for the escape character: control and format characters (bidirectional marks, zero
widths and tags among them), separators of lines and paragraphs, lone surrogates, look-alikes of the
blank, and stacked marks. Everything else stays, including Vietnamese in both normal forms. The
journal keeps the raw text; all output passes through here.
"""

import re
from typing import Final
from unicodedata import category

TEXT_MAX: Final = 500
"""Characters shown of one text from outside."""

_MARKS_MAX: Final = 3
"""Marks on one letter; Vietnamese needs two. More would reach into the lines above and below."""
_MARKS: Final = (
    "\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\u3099\u309a\ufe20-\ufe2f"
)
_PILED: Final = re.compile(f"(?<=[{_MARKS}]{{{_MARKS_MAX}}})[{_MARKS}]")
_NOT_LATIN: Final = re.compile(
    "[^\u0020-\u007e\u00a0-\u00ac\u00ae-\u02ff\u1e00-\u1eff\u2010-\u2027\u2030-\u205e]"
)
"""Characters to look at; those left out are known to be letters, digits and signs."""
_HIDING: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
_UNSEEN: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U000e0100-\U000e01ef]"
)
"""Letters, marks and signs that show nothing: fillers and variation selectors."""
_RUNNABLE: Final = re.compile(r"[=+@\t\r\n\uff1d\uff0b\uff20\uff0d]|-(?!\d+(?:\.\d+)?$)")


def visible(text: str, limit: int = TEXT_MAX) -> str:
    """Return at most `limit` characters of `text` (counted before escaping), on one line.

    Text that is already visible is returned unchanged.
    """
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    if text.isascii() and text.isprintable():
        return text
    return _NOT_LATIN.sub(_seen, _PILED.sub(_escaped, text))


def visible_json(text: str) -> str:
    """Return equivalent JSON that contains nothing a terminal acts on.

    Only line feeds between its values stay; a JSON string cannot contain one.
    """
    if text.isascii() and text.isprintable():
        return text
    return _NOT_LATIN.sub(_seen_in_json, text)


def csv_text(text: str) -> str:
    """Return a text as a CSV cell: visible, in full, and never a spreadsheet formula.

    Text that a spreadsheet would run (it begins with `=`, `+`, `@`, or a `-` that does not start a
    number) gets a leading apostrophe.
    """
    shown = visible(text, len(text) + 1)
    return f"'{shown}" if _RUNNABLE.match(text) else shown


def _is_seen(character: str) -> bool:
    return category(character) not in _HIDING and not _UNSEEN.match(character)


def _seen(found: re.Match[str]) -> str:
    return found[0] if _is_seen(found[0]) else _escaped(found)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _seen_in_json(found: re.Match[str]) -> str:
    character = found[0]
    if character == "\n" or _is_seen(character):
        return character
    if character in "\t\r":
        return " "
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
