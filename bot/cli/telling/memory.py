"""What a narrator remembers of what it has told, and the two forms of a line."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from bot.cli.telling.status_line import StatusLine
from bot.cli.telling.wording import clock_of
from bot.domain.entry import AttemptFinished, AuthEvent
from bot.domain.order import Intent

Lines = list[str]
INDENT: Final = 17
"""Where the text of a line begins, and that of the lines that continue it."""


@dataclass(slots=True)
class Memory:
    """`announced`: intents whose order's first row is still to come; `told_noes`: see `_is_news`.

    `gaps` says how far apart two values of one indicator stood when nothing came of a look.
    `scripted` is what an order's newest move says of the scenario that forced it.
    `needed` is the newest demand for a token, `ready` the newest token,
    `paused_at` the start of a pause that lasts.
    """

    status_line: StatusLine = field(default_factory=StatusLine)
    answers: dict[str, AttemptFinished] = field(default_factory=dict)
    intents: dict[str, Intent] = field(default_factory=dict)
    announced: set[str] = field(default_factory=set)
    held: set[str] = field(default_factory=set)
    told_noes: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    quoted: dict[str, datetime] = field(default_factory=dict)
    gaps: dict[tuple[str, str], float] = field(default_factory=dict)
    scripted: dict[str, str] = field(default_factory=dict)
    limited_at: datetime | None = None
    needed: AuthEvent | None = None
    ready: AuthEvent | None = None
    paused_at: datetime | None = None


def line(at: datetime, kind: str, text: str, who: str = "") -> str:
    """One line of a run: `HH:MM:SS KIND    who        text`."""
    subject = f"{who:<10} " if who else ""
    return f"{clock_of(at)} {kind:<7} {subject}{text}"


def more(text: str) -> str:
    """A line that continues the one above it."""
    return f"{'':{INDENT}}{text}"
