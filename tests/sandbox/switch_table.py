"""Every CONFLICT and every "not shown" of the broker's document, and what the sandbox makes of it.

`SWITCHES` (`switches.csv`) are those that a scenario file can turn (`switches:`); `FIXED`
(`fixed.csv`) are those that it cannot, with what is done instead. `docs/switches.md` is written
from here, and a test compares the two.
"""

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from bot.sandbox.scenario import Switches


@dataclass(frozen=True, slots=True)
class SwitchRow:
    """A switch: what it asks, where the document leaves it open, and who decided the default."""

    name: str
    question: str
    section: str
    decided: str


@dataclass(frozen=True, slots=True)
class FixedRow:
    """What cannot be switched: the question, and what the sandbox does."""

    question: str
    section: str
    answer: str


def _rows(name: str) -> list[dict[str, str]]:
    text = Path(__file__).with_name(name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


SWITCHES: Final = tuple(SwitchRow(**row) for row in _rows("switches.csv"))
FIXED: Final = tuple(FixedRow(**row) for row in _rows("fixed.csv"))
_ANY: Final = "another number"
_PAGE: Final = """\
# Switches of the sandbox

Where the sources of the broker's API differ or are silent, the sandbox has a switch. They are set
under `switches:` in a scenario file; the default is in bold. Sections are those of the API's
description, rulings those of this project. This page is written by
`tests/sandbox/switch_table.py`.

| Switch | What it asks | Positions | Section | Default by |
|---|---|---|---|---|
{switches}

## What cannot be switched

| Open question | What the sandbox does | Section |
|---|---|---|
{fixed}
"""


def switches_markdown() -> str:
    switches = [
        f"| `{row.name}` | {row.question} | {positions(row.name)} | {row.section} | {row.decided} |"
        for row in SWITCHES
    ]
    fixed = [f"| {row.question} | {row.answer} | {row.section} |" for row in FIXED]
    return _PAGE.format(switches="\n".join(switches), fixed="\n".join(fixed))


def positions(name: str) -> str:
    """Return what a switch may be set to, the default first and in bold."""
    field: FieldInfo = Switches.model_fields[name]
    others = [one for one in choices(field.annotation) if one != field.default]
    return ", ".join([f"**{_written(field.default)}**", *map(_written, others)])


def choices(annotation: object) -> tuple[object, ...]:
    """Return the positions that a type allows; one that takes any number has a word for them."""
    if annotation is bool:
        return (False, True)
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    inner = [choices(one) for one in get_args(annotation)]
    if inner:
        return tuple(choice for choices in inner for choice in choices)
    return (None,) if annotation is type(None) else (_ANY,)


def _written(choice: object) -> str:
    """Write a position as YAML has it, in backticks."""
    if choice == _ANY:
        return str(choice)
    if choice is None:
        return "`null`"
    if isinstance(choice, bool):
        return f"`{str(choice).lower()}`"
    is_doubtful = isinstance(choice, str) and (choice in {"", "null"} or choice.isdigit())
    return f'`"{choice}"`' if is_doubtful else f"`{choice}`"
