"""Errors of the domain, faults that nobody foresaw, and the invariants that always hold.

DomainError
├─ RuleDataError     a rule file holds something that is not a valid rule
├─ NoRule            the exchange has no such rule for this instrument
└─ CalendarEnds      a day outside the years of the calendar

There are twenty invariants. Each is checked next to its data, and unlike an `assert` also under
`python -O`. A broken invariant means a bug of ours or another writer of our data: entries are
halted until a person has looked, cancels continue, and a report that names the invariant keeps the
state.

One ends the run as well (`OF_THE_JOURNAL`): after a commit in doubt the journal ends with neither
what was there before nor what we wrote. Repeating that commit could store it twice, and what is
decided next would rest on entries that nobody here has seen. The halt and the alert leave first,
the halt beside the journal; the next start, halted, goes on from journal and broker.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Final


class DomainError(Exception):
    """Root of the errors of the domain."""


class RuleDataError(DomainError):
    """A rule file cannot be used. `place` is the path to the bad value, like `closed[0].date`."""

    def __init__(self, place: str, wanted: str, found: object) -> None:
        super().__init__(f"{place or 'the file'}: wanted {wanted}, found {found!r}")
        self.place = place
        self.wanted = wanted
        self.found = found


class NoRule(DomainError):
    """No such rule exists. `what` names it, like `tick size of CW on UPCOM`."""

    def __init__(self, what: str) -> None:
        super().__init__(f"no rule for the {what}")
        self.what = what


class CalendarEnds(DomainError):
    """`day` lies outside the calendar; it may be neither open nor closed."""

    def __init__(self, day: date) -> None:
        super().__init__(
            f"the trading calendar does not cover {day}: "
            "install a release that knows that year, or add it to the calendar override"
        )
        self.day = day


@dataclass(frozen=True, slots=True)
class Fault:
    """An unforeseen exception, as the code that caught it passes it on; the run continues.

    Equal faults share one `kind`: the exception's type and the line of code. `error` is one line,
    `trace` the whole traceback; neither holds a secret. `report` is the file that keeps the trace,
    empty when it could not be written. `invariant` is the code of the broken invariant, if any.
    """

    kind: str
    error: str
    trace: str
    report: str = ""
    invariant: str = ""


@dataclass(frozen=True, slots=True)
class Invariant:
    """`held_by` is the module that checks it."""

    sentence: str
    held_by: str


INVARIANTS: Final[Mapping[str, Invariant]] = {
    "I1": Invariant(
        "no byte of an order leaves before its attempt is stored", "bot/runtime/order_manager.py"
    ),
    "I2": Invariant("an intent is sent by one POST, ever", "bot/engine/invariants.py"),
    "I3": Invariant("an intent has at most one open order", "bot/engine/invariants.py"),
    "I4": Invariant(
        "no nonce and no order of a day is stored twice, nor is one given to two intents",
        "bot/journal/database/tables.py",
    ),
    "I5": Invariant(
        "that an order was never placed is said with its proof", "bot/engine/orders/orders.py"
    ),
    "I6": Invariant(
        "an intent moves only as the table of send states allows", "bot/engine/invariants.py"
    ),
    "I7": Invariant(
        "an order's executed quantity never falls, and is from 0 to its quantity",
        "bot/engine/invariants.py",
    ),
    "I8": Invariant(
        "all that may still trade is reserved in full, unknown orders too",
        "bot/engine/invariants.py",
    ),
    "I9": Invariant(
        "no order takes a strategy or an account beyond its limits", "bot/engine/invariants.py"
    ),
    "I10": Invariant(
        "of equal orders at most one is on its way or unknown", "bot/engine/invariants.py"
    ),
    "I11": Invariant(
        "nothing but cancels and reads leaves while the bot is halted", "bot/engine/invariants.py"
    ),
    "I12": Invariant("an order of another day is never changed", "bot/engine/invariants.py"),
    "I13": Invariant(
        "an order is taken for accepted only when the answer repeats it",
        "bot/engine/invariants.py",
    ),
    "I14": Invariant(
        "a send is stored only by the holder of the newest lease", "bot/journal/writing/storing.py"
    ),
    "I15": Invariant(
        "a nonce proves nothing later than 270 s after it was signed",
        "bot/runtime/fence.py",
    ),
    "I16": Invariant("a nonce is tried by a read that cannot trade", "bot/broker/writes.py"),
    "I17": Invariant(
        "each entry of the journal follows the one before", "bot/journal/writing/storing.py"
    ),
    "I18": Invariant("the bytes that are sent are those that were signed", "bot/broker/writes.py"),
    "I19": Invariant(
        "our shares and the owner's are the broker's, or the difference is known",
        "bot/engine/invariants.py",
    ),
    "I20": Invariant("no two own orders can trade with each other", "bot/engine/invariants.py"),
}
"""Source of all: `order-safety.md`, section 10."""

OF_THE_JOURNAL: Final = "I17"
"""The one after which nothing can be stored any more."""


class InvariantBroken(Exception):
    """An invariant does not hold. `found` says what was found instead, with the numbers."""

    def __init__(self, code: str, found: str) -> None:
        super().__init__(f"{code}: {INVARIANTS[code].sentence}; but {found}")
        self.code = code
        self.found = found


def require(is_so: object, code: str, found: str) -> None:
    """Raise InvariantBroken if the condition is false."""
    if not is_so:
        raise InvariantBroken(code, found)
