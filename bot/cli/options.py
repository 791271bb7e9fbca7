"""Options shared by several commands, and how their values are parsed.

A duration without a unit is in seconds. `--since` is relative to the journal's time: in a sandbox,
whose market time is not wall time, now is the last moment of the journal.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import MAXYEAR, MINYEAR, date, datetime, timedelta
from typing import TYPE_CHECKING, Final

import click

from bot.clock import SystemClock
from bot.config.problems import ExitCode, OperatorMistake
from bot.domain.instrument import EXCHANGE_TZ
from bot.runtime.control.socket import WHOLE_MAX

if TYPE_CHECKING:
    from bot.journal.reading.reader import JournalReader

FORMS: Final = ("table", "wide", "csv", "jsonl")
LENGTH_MAX_S: Final = 1e9
"""About 31 years: a much longer time overflows a sleep, or the date at its end."""
WATCH_EVERY_S_MIN: Final = 0.5
_UNIT_S: Final = {"s": 1, "m": 60, "h": 3_600}
_GROUPED: Final = re.compile(r"[0-9]{1,3}([,_][0-9]{3})+")
_SPAN: Final = re.compile(r"([0-9]{1,4})([smhdw])")
_EARLIEST: Final = date(2000, 1, 1)
"""Vietnam's first exchange opened in that year, on 28 July."""
_SPAN_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def length_from(
    least_s: float, wanted: str = "a length of time like 60s or 2m"
) -> Callable[[str], float]:
    """Return a parser for durations in seconds: `90`, `90s`, `2m` or `1h`."""

    def length(written: str) -> float:
        unit_s = _UNIT_S.get(written[-1:])
        try:
            seconds = float(written[:-1] if unit_s else written) * (unit_s or 1)
        except ValueError as error:
            raise click.BadParameter(f"{written!r}: wanted {wanted}") from error
        if not least_s <= seconds <= LENGTH_MAX_S:
            within = f"at least {least_s:g} seconds and at most {LENGTH_MAX_S:,.0f}"
            raise click.BadParameter(f"{written!r}: wanted {within}")
        return seconds

    return length


def ungrouped(written: str) -> str:
    """Return a number without the separators between its thousands; any other text as it is."""
    return re.sub("[,_]", "", written) if _GROUPED.fullmatch(written) else written


def whole_from(wanted: str) -> Callable[[str], int]:
    """Return what reads a whole number above 0, as it is typed or as tables print it: `27,050`."""

    def whole(written: str) -> int:
        plain = ungrouped(written)
        if not (plain.isascii() and plain.isdecimal() and 0 < int(plain) <= WHOLE_MAX):
            raise click.BadParameter(f"{written!r}: wanted {wanted}, like 27050 or 27,050")
        return int(plain)

    return whole


def since_2000(
    _context: click.Context, _option: click.Parameter, day: datetime | None
) -> datetime | None:
    """Check a day for which bars are wanted; a callback of its option."""
    if day is not None and day.date() < _EARLIEST:
        text = f"{day.date()}: wanted {_EARLIEST} or later; no share was traded before"
        raise click.BadParameter(text)
    return day


def moment_from(written: str) -> datetime:
    """Return a date and time as typed, in Vietnam unless it says where. Raises ValueError."""
    at = datetime.fromisoformat(written)
    if at.year in {MINYEAR, MAXYEAR}:
        raise ValueError("at the edge of the calendar: elsewhere it is another year")
    return at if at.tzinfo else at.replace(tzinfo=EXCHANGE_TZ)


def since(written: str) -> str:
    """Check the value of `--since`; `since_of` turns it into an instant."""
    try:
        _ = _SPAN.fullmatch(written) or moment_from(written)
    except ValueError as error:
        wanted = "a length of time like 1d, 2h or 30m, a day like 2026-11-19, or a date and time"
        raise click.BadParameter(f"{written!r}: wanted {wanted}") from error
    return written


EVERY: Final = length_from(
    WATCH_EVERY_S_MIN, "how often to refresh, in seconds like 2 or 2s; put it after the symbol"
)
form_option: Final = click.option(
    "-o", "--output", "form", type=click.Choice(FORMS), default="table", help="The output format."
)
reason_option: Final = click.option(
    "--reason", default="", metavar="TEXT", help="Goes into the journal."
)
since_option: Final = click.option(
    "--since", type=since, metavar="WHEN", help="1d, 2h, 30m, 2026-11-19 or 2026-11-19T09:30."
)
strategy_option: Final = click.option("--strategy", metavar="NAME", help="Only this strategy.")
symbol_option: Final = click.option("--symbol", metavar="SYM", help="Only this symbol.")
timeout_option: Final = click.option(
    "--timeout", type=length_from(0), default="60", metavar="TIME", help="How long to wait."
)
watch_option: Final = click.option(
    "--watch",
    "watch_s",
    type=EVERY,
    metavar="[S]",
    is_flag=False,
    flag_value="2",
    help="Refresh every S seconds (2) until Ctrl-C.",
)


def since_of(text: str | None, reader: "JournalReader") -> datetime | None:
    """Return the instant that `--since` means, None without it."""
    if text is None:
        return None
    if found := _SPAN.fullmatch(text):
        back = timedelta(**{_SPAN_UNITS[found[2]]: int(found[1])})
        runs = reader.runs()
        if not runs or runs[-1].mode != "sandbox":
            return SystemClock().now() - back
        last = runs[-1].ended_at or runs[-1].started_at
        return max(last, reader.last_decision_at() or last) - back
    return moment_from(text)


@contextmanager
def written_to(option: str) -> Iterator[None]:
    """Turn what the system refuses into an OperatorMistake that names the option, and not that of
    the state folder.
    """
    try:
        yield
    except OSError as error:
        text = f"{option}: it can't be written ({(error.strerror or str(error)).lower()}). Name a"
        raise OperatorMistake.of(
            "E-SYS-001", f"{text} new folder, or one of yours with room", ExitCode.DATABASE
        ) from error
