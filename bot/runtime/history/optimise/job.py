"""What goes to a worker and comes back: plain data, for it may be another process or machine."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from bot.domain.plan import ParameterValue
from bot.sandbox.markets.mirror.model import FillName

Values = Mapping[str, ParameterValue]


@dataclass(frozen=True, slots=True)
class Job:
    """What every trial of a search has in common. Paths must mean the same on every worker.

    `code`: the hash of strategy file and plug-in; a worker with other files refuses. `config`: the
    bot's configuration, empty without one; `rules`: the hash of its risk settings; `base_dir`:
    where the strategy's Python is looked for, empty: in the project of its file.
    """

    strategy: str
    code: str
    data: tuple[str, ...]
    first: date
    last: date
    cash: int
    holdings: tuple[tuple[str, int], ...]
    fill: FillName
    config: str
    rules: str = ""
    base_dir: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a trial: the gain of each day (0.01 is 1 %), trades, and money in VND."""

    days: tuple[date, ...]
    gains: tuple[float, ...]
    profit: int
    trades: int
    costs: int


@dataclass(frozen=True, slots=True)
class Failure:
    """A trial that could not be played at all, in words for the operator: it ends the search."""

    problem: str
