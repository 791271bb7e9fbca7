"""The fault of a drill as `exercises.yaml` defines it, and its result row."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter

from bot.config.settings.model import Settings, SourceAges
from bot.config.yaml_file import read_yaml
from bot.sandbox.scenario import SymbolScript

FILE: Final = Path(__file__).with_name("exercises.yaml")
KILLS: Final = "kills"
HALT: Final = "halt"
SYMBOL: Final = "SYMBOL"
"""In a fault's path: stands for the symbol that the drill's own strategy trades."""
USUAL_DEPTH_S: Final = SourceAges().depth
SKEW: Final = "SKEW"
"""In the words for a fault: stands for its `skew_s`."""


class OutOfTime(Exception):
    """The time of the whole drill is over."""


@dataclass(frozen=True, slots=True)
class Exercise:
    """One fault, and the conditions to pass. Durations are seconds.

    `names` is a regular expression for what the bot has to report about a lasting fault within
    `named_within_s`, if it struck `named_from` times; empty: it need not report it, if it can do
    without. `is_of_age`: what shows it is that a depth gets old, after USUAL_DEPTH_S by default.
    `slip` multiplies every price of the symbol, `skew_s` puts the broker's clock behind ours,
    `lock_s` has another program lock the journal; they are added to the `faults`.
    """

    name: str
    broken: str
    stays: bool = False
    faults: tuple[dict[str, Any], ...] = ()
    names: str = ""
    named_from: int = 1
    named_within_s: int = 10
    is_of_age: bool = False
    slip: int = 0
    skew_s: int = 0
    lock_s: int = 0
    answers_code: bool = field(default=False)

    def fitted_to(self, settings: Settings) -> "Exercise":
        """Return it with what the user's settings allow: a clock that is off by less than where
        orders stop, and as much time to name old data as that may take.
        """
        skew_s = min(self.skew_s, settings.clock.max_offset_s - 1)
        more_s = settings.risk.max_source_age_s.depth - USUAL_DEPTH_S if self.is_of_age else 0
        within_s = self.named_within_s + max(more_s, 0)
        broken = self.broken.replace(SKEW, str(skew_s))
        return replace(self, skew_s=skew_s, named_within_s=within_s, broken=broken)

    def rules(self, symbol: SymbolScript) -> list[dict[str, Any]]:
        """Return the scenario's faults, for that symbol."""
        found = list[dict[str, Any]]()
        for fault in self.faults:
            path = fault["match"].get("path", "*").replace(SYMBOL, symbol.symbol)
            found.append({**fault, "match": {**fault["match"], "path": path}})
        if not self.slip:
            return found
        price = symbol.reference * self.slip
        prices = {"price": price, "reference": price}
        prices |= {"ceiling": price * 107 // 100, "floor": price * 93 // 100}
        action = {"do": "set_fields", "fields": prices}
        return [{**rule, "action": action} for rule in found]


@dataclass(frozen=True, slots=True)
class Row:
    """The result of an exercise: a row of the table.

    `did` is what the bot did, `problems` every broken promise: none means passed.
    """

    name: str
    broken: str
    did: str
    problems: Sequence[str]
    seconds: float

    @property
    def is_passed(self) -> bool:
        """Whether every promise was kept."""
        return not self.problems


@cache
def exercises() -> Sequence[Exercise]:
    """Return the faults of a drill, in order."""
    rows = read_yaml(FILE).data["exercises"]
    return TypeAdapter(tuple[Exercise, ...]).validate_python(rows)


def names() -> list[str]:
    """Return the names of a drill's parts: each fault, the kills and the halt."""
    return [*(each.name for each in exercises()), KILLS, HALT]
