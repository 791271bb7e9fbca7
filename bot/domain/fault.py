"""An exception that nobody foresaw, as whatever has caught it hands it on.

It halts entries and ends nothing: `bot.engine.gate` says what is done about it.
"""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Fault:
    """What was raised. Equal faults have one `kind`: the exception's type and the line of code.

    `error` is one line, `trace` the whole traceback; neither holds a secret. `report` is the file
    that keeps the trace; empty when none could be written.
    """

    kind: str
    error: str
    trace: str
    report: str = ""


@dataclass(frozen=True, slots=True)
class FaultFound:
    """Something outside the engine has raised; `where` names it."""

    at: datetime
    where: str
    fault: Fault
