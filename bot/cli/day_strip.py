"""The trading day of each exchange as one strip of letters, with a mark at now. Pure."""

from collections.abc import Iterator, Sequence
from datetime import datetime, time, timedelta
from typing import Final

from bot.domain.calendar import day_words
from bot.domain.instrument import EXCHANGE_TZ, PHASE_WORDS, Exchange, Phase
from bot.domain.rulebook import Rulebook

FIRST_HOUR: Final = 9
LAST_HOUR: Final = 15
COLUMN: Final = timedelta(minutes=5)
"""What one letter stands for."""
_NAME: Final = 8
_HOUR: Final = timedelta(hours=1) // COLUMN
_COLUMNS: Final = (LAST_HOUR - FIRST_HOUR) * _HOUR

LETTERS: Final = {
    Phase.OPEN: "O",
    Phase.PROGRESS: "=",
    Phase.BREAK: ".",
    Phase.PRE_CLOSED: "C",
    Phase.POST_SESSION: "P",
    Phase.PUT_THROUGH: "-",
    Phase.CA: "A",
    Phase.CLOSED: " ",
}


def day_strip(rulebook: Rulebook, exchanges: Sequence[Exchange], at: datetime) -> list[str]:
    """Draw the day of `at` by the rules, one line for each exchange, and what the letters mean.

    A day without trading is said in words.
    """
    start = datetime.combine(at.astimezone(EXCHANGE_TZ).date(), time(FIRST_HOUR), EXCHANGE_TZ)
    if not rulebook.calendar.is_trading_day(start.date()):
        return [day_words(rulebook.calendar, start.date())]
    phases = {
        exchange: [rulebook.phase_at(exchange, start + COLUMN * i) for i in range(_COLUMNS)]
        for exchange in exchanges
    }
    rows = [f"{name:<{_NAME}} {_letters(found)}".rstrip() for name, found in phases.items()]
    return [_hours(), *rows, *_now(at - start), _legend(_seen(list(phases.values())))]


def _seen(days: Sequence[list[Phase]]) -> list[Phase]:
    """The phases that occur, in the order of `LETTERS`."""
    seen = {phase for day in days for phase in day}
    return [phase for phase in LETTERS if phase in seen and phase is not Phase.CLOSED]


def _letters(phases: Sequence[Phase]) -> str:
    return "".join(LETTERS[phase] for phase in phases)


def _hours() -> str:
    hours = "".join(f"{hour:<{_HOUR}}" for hour in range(FIRST_HOUR, LAST_HOUR + 1))
    return f"{'':<{_NAME}} {hours}".rstrip()


def _now(elapsed: timedelta) -> Iterator[str]:
    column = elapsed // COLUMN
    if 0 <= column < _COLUMNS:
        yield f"{'':<{_NAME}} {'':<{column}}^ now"


def _legend(phases: Sequence[Phase]) -> str:
    words = {phase: PHASE_WORDS[phase].partition(" (")[0] for phase in phases}
    return "  ".join(f"{LETTERS[phase]} {words[phase]}" for phase in phases)
