"""`--since`: an instant, a day, or a length of time back from now.

In a sandbox, whose market time is not the wall's, `now` is the last moment of the journal.
"""

import re
from datetime import datetime, timedelta
from typing import Final

import click

from bot.clock import SystemClock
from bot.domain.instrument import EXCHANGE_TZ
from bot.journal.reader import JournalReader

_SPAN: Final = re.compile(r"([0-9]{1,4})([smhdw])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class When(click.ParamType[str]):
    """What `--since` takes; read against the journal's time by `since_of`."""

    name = "when"

    def convert(
        self, value: object, param: click.Parameter | None, context: click.Context | None
    ) -> str:
        """Return it as it was written, or say what was wanted."""
        written = str(value)
        try:
            _ = _SPAN.fullmatch(written) or datetime.fromisoformat(written)
        except ValueError:
            wanted = "a length of time like 1d, 2h or 30m, a day like 2026-11-19, or an instant"
            self.fail(f"{written!r}: wanted {wanted}", param, context)
        return written


since_option: Final = click.option(
    "--since", type=When(), metavar="WHEN", help="1d, 2h, 30m, 2026-11-19 or 2026-11-19T09:30."
)


def since_of(text: str | None, reader: JournalReader) -> datetime | None:
    """Return the instant that `--since` means, None without it."""
    if text is None:
        return None
    found = _SPAN.fullmatch(text)
    if found:
        return now_of(reader) - timedelta(**{_UNITS[found[2]]: int(found[1])})
    at = datetime.fromisoformat(text)
    return at if at.tzinfo else at.replace(tzinfo=EXCHANGE_TZ)


def now_of(reader: JournalReader) -> datetime:
    """The system's time, or in a sandbox the last moment that the journal knows."""
    runs = reader.runs()
    if not runs or runs[-1].mode != "sandbox":
        return SystemClock().now()
    last = runs[-1].ended_at or runs[-1].started_at
    recent = [row.at for row in reader.decisions(since=last)]
    return max([last, *recent])
