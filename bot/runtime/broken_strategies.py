"""What a run does about strategies that are broken: it leaves them out, and says so until they are
mended.

A typing mistake in one file must not leave what the others hold to itself. With real money that is
for a person to decide: the broken one may be the one that was to sell.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from bot.config.problems import OperatorMistake, Problem
from bot.config.settings.load import Loaded
from bot.config.strategies.load import BrokenFile, SortedOut, load_sound
from bot.domain.recovery import Recovery
from bot.engine.control_state import Standing


def strategies_to_run(loaded: Loaded, only: Sequence[str]) -> SortedOut:
    """Return the strategies of a run, and the broken ones that it leaves out.

    Raises OperatorMistake where none can run; with real money also for a broken one, unless `only`
    names those that are wanted.
    """
    found = load_sound(loaded, only=only)
    if found.broken and loaded.settings.mode == "live":
        names = " ".join(f"--only {shlex.quote(each.plan.name)}" for each in found.strategies)
        text = (
            "with real money nothing runs while a strategy is broken: it may be the one that was "
            "to sell. What is open at the broker stays open, and the bot does not follow it. Mend "
            f"the file, or take it out; to run without it knowingly: bot run {names}"
        )
        problems = [problem for each in found.broken for problem in each.problems]
        raise OperatorMistake([*problems, Problem("E-CFG-052", text)])
    return found


@dataclass(slots=True)
class Broken:
    """The broken strategies of a run. `alerts`: what stays wrong until the next start, one each."""

    files: Sequence[BrokenFile]
    alerts: tuple[Standing, ...] = ()

    def found(self, recovery: Recovery) -> tuple[Standing, ...]:
        """Return the alerts, with what the journal knows of the shares that nobody looks after."""
        self.alerts = tuple(_alert(each, recovery) for each in self.files)
        return self.alerts


def _alert(each: BrokenFile, recovery: Recovery) -> Standing:
    known, what = recovery.strategies.get(each.name), each.problems[0].head
    positions = known.positions.items() if known else ()
    held = ", ".join(f"{symbol} {shares:,}" for symbol, (shares, _) in positions if shares)
    kept = (
        f"Its shares ({held}) stay: nothing sells them, a flatten neither, and the day's sum "
        "leaves them out."
        if held
        else "By the journal it holds no shares."
    )
    text = (
        f"{each.name} does not run, its file is broken: {what}. It decides nothing; its open "
        "orders are followed, the other strategies go on. "
        f"{kept} Mend it, then start the bot again. Everything that is wrong: "
        f"bot strategy check {each.file}"
    )
    facts = {"strategy": each.name, "what": what, "file": each.file, "held": held or "0"}
    return Standing("STRATEGY_BROKEN", text, facts)
