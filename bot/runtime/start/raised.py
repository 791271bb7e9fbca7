"""With real money a limit that allows more than in the last run is typed in by a person.

The journal has the limits of its last run. A start compares its own with them before it contacts
the broker, and ends if one that allows more was not typed: at the terminal, which asks for it, or
behind `--raised`. So three zeros too many in a file stop there. Unchanged or stricter limits, a
first start, and the first start of a strategy need nothing.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from bot.config.problems import ExitCode, OperatorMistake, Problem, shown_path
from bot.config.settings.engine_terms import engine_settings_of
from bot.config.settings.load import Loaded
from bot.config.settings.places import DEFAULT
from bot.config.settings.sources import is_of_one_terminal
from bot.domain.entry import LIMITS_NOTE, Numbers
from bot.domain.plan import StrategyPlan
from bot.engine.limit_changes import ACCOUNT, SETTINGS, Limit, limits_of, looser
from bot.engine.risk.codes import OF_ACCOUNT, OF_STRATEGIES, or_none, percent
from bot.engine.settings import LoadedStrategy
from bot.engine.state import tighter
from bot.journal.upkeep.verify import last_note
from bot.journal.writing.thread import in_time

_CODE: Final = "E-CFG-056"
_PPM: Final = "_ppm"
_LIVE: Final = "live"
_IN_SECONDS: Final = frozenset({"max_account_age", "last_entry"})
_SEPARATORS: Final = re.compile(r"[\s_,]")


@dataclass(frozen=True, slots=True)
class Raised:
    """A limit that allows more than in the last run: its key, both values as shown, its place."""

    key: str
    old: str
    new: str
    where: str

    def is_typed(self, typed: Mapping[str, str]) -> bool:
        """Return whether the new value was typed, by key; separators and case do not matter."""
        return self.key in typed and _bare(typed[self.key]) == _bare(self.new)


def last_limits(loaded: Loaded) -> Numbers:
    """Return the limits of the journal's last run; empty if it knows none, or without real money.

    Raises what the journal raises.
    """
    return last_note(loaded.journal_url, LIMITS_NOTE) if loaded.settings.mode == _LIVE else {}


def raised_limits(
    loaded: Loaded, strategies: Sequence[LoadedStrategy], before: Numbers
) -> tuple[Raised, ...]:
    """Return the limits that allow more than those of the last run, `before`.

    One of bot.yaml for several strategies is one limit; its old value is that of the first.
    """
    risk, plans = loaded.settings.risk, {each.plan.name: each.plan for each in strategies}
    limits = {name: tighter(plan.limits, risk.all_strategies) for name, plan in plans.items()}
    now = limits_of(engine_settings_of(loaded.settings), limits)
    found: dict[str, Raised] = {}
    for name, old, new in looser(before, now, {ACCOUNT, *plans}):
        owner, _, field = name.rpartition(".")
        is_shared = owner == ACCOUNT or name in SETTINGS
        plan = None if is_shared else plans[owner]
        key = name if name in SETTINGS else _key(loaded, plan, field, new)
        where = loaded.origin_of(key)
        if where == DEFAULT:
            where = f"the default: {shown_path(loaded.path)} sets none"
        if plan is not None:
            is_own = not key.startswith(OF_STRATEGIES)
            where = plan.source if is_own else f"{where}, for {owner}"
        if key in found:
            found[key] = replace(found[key], where=f"{found[key].where}, {owner}")
        else:
            found[key] = Raised(key, _shown(field, old), _shown(field, new), where)
    return tuple(found.values())


def _key(loaded: Loaded, plan: StrategyPlan | None, field: str, new: Limit) -> str:
    """Return the key of a limit as the file has it; of a strategy's the one that now holds."""
    written = f"{field}_s" if field in _IN_SECONDS else field.replace("_nav_ppm", "_of_nav")
    written = written.removesuffix(_PPM)
    if plan is None:
        return f"{OF_ACCOUNT}{written}"
    own = getattr(plan.limits, field, None)  # an earlier program may have had one more
    is_removed = new is None and written in loaded.settings.risk.limits.model_fields_set
    return f"{OF_STRATEGIES if own != new or is_removed else plan.name + '.'}{written}"


def _shown(field: str, value: Limit) -> str:
    return percent(value) if isinstance(value, int) and field.endswith(_PPM) else or_none(value)


def _bare(text: str) -> str:
    bare = _SEPARATORS.sub("", text).casefold()
    return "none" if bare == "null" else bare


async def require_typed(
    loaded: Loaded,
    strategies: Sequence[LoadedStrategy],
    typed: Mapping[str, str],
    exit_code: ExitCode = ExitCode.CONFIG,
) -> None:
    """Raise OperatorMistake for limits that allow more than in the last run and are not in `typed`.

    Raises what the journal raises.
    """
    before = await in_time(partial(last_limits, loaded))
    left = [each for each in raised_limits(loaded, strategies, before) if not each.is_typed(typed)]
    if not left:
        return
    problems = [
        Problem(
            _CODE,
            f"{each.key} is {each.new} ({each.where}) and was {each.old} in the last run"
            + (f"; typed was {typed[each.key]}" if each.key in typed else ""),
        )
        for each in left
    ]
    words = ["bot", "run", "-c", str(loaded.path.absolute())]
    if is_of_one_terminal(loaded.origin_of("state_dir")):
        words += ["--state-dir", str(loaded.state_dir)]
    run = shlex.join(words)
    values = " ".join(f"--raised {each.key}=VALUE" for each in left)
    text = (
        "with real money a limit that allows more than in the last run has to be typed in, so "
        "nothing starts, and no bot follows what is open at the broker. If it is meant: "
        f"{run}, on a terminal, asks for it; without a terminal: {run} {values}, each VALUE as "
        "you mean it. If not, put the file right"
    )
    raise OperatorMistake([*problems, Problem(_CODE, text)], exit_code)
