"""Which fault strikes which request: the rules of a scenario, and those added while it runs.

A rule counts the requests that match its verb and path and its own strikes; both counts go to the
ledger, so that a restart neither repeats nor forgets a fault. Each rule has its own random stream,
so that rules do not influence each other.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from random import Random

from bot.sandbox.faults.script import FaultPoint, FaultScript, StaleRead, TooMany

StateOf = Callable[[str], str | None]
"""Path of a request -> status of the order in it, None if it names none."""


@dataclass(slots=True)
class Rule:
    """A fault with its counts. `first_struck` is the market time of its first strike.

    `noted` is the count of matching requests last written to the ledger.
    """

    number: int
    script: FaultScript
    chance: Random
    seen: int = 0
    noted: int = 0
    struck: int = 0
    first_struck: datetime | None = None
    is_ended: bool = False

    @property
    def is_spent(self) -> bool:
        """True if the rule has struck as often as it may, or was ended."""
        most = self.script.match.strikes_max
        return self.is_ended or (most > 0 and self.struck >= most)


class FaultRules:
    """The rules in force. `at_time` turns a time of the scenario's day into an instant."""

    def __init__(
        self, *, seed: int, at_time: Callable[[time], datetime], state_of: StateOf
    ) -> None:
        self._seed = seed
        self._at_time = at_time
        self._state_of = state_of
        self._rules: list[Rule] = []
        self._timers: list[Rule] = []
        self._by_point: dict[FaultPoint, list[Rule]] = {}
        self._changed: dict[int, Rule] = {}

    def add(self, script: FaultScript) -> Rule:
        """Put a rule in force; earlier rules strike first."""
        number = len(self._rules)
        rule = Rule(number, script, self._chance(number))
        self._rules.append(rule)
        here = self._by_point.setdefault(script.where, [])
        (self._timers if script.is_timer else here).append(rule)
        return rule

    def _chance(self, number: int) -> Random:
        return Random(f"{self._seed}|fault|{number}")

    def begin_again(self) -> None:
        """After a restart, restart the random streams and take the counts that the ledger has."""
        for rule in self._rules:
            rule.chance, rule.seen = self._chance(rule.number), rule.noted

    def has_rules_at(self, point: FaultPoint) -> bool:
        """Return whether there is any rule for a point, spent or not."""
        return point in self._by_point

    @property
    def is_empty(self) -> bool:
        """True while there is no rule for any point."""
        return not self._by_point

    @property
    def has_stale_reads(self) -> bool:
        """True if answers given now may be needed later as stale ones."""
        return any(
            isinstance(rule.script.action, StaleRead) and not rule.is_spent for rule in self._rules
        )

    def end_all(self) -> None:
        """End all rules; their numbers are not reused."""
        for rule in self._rules:
            rule.is_ended = True
        self._by_point.clear()

    def strike(self, point: FaultPoint, *, verb: str, path: str, at: datetime) -> Rule | None:
        """Return the first rule that strikes this request at this point, and count it."""
        hit = self.find(point, verb=verb, path=path, at=at)
        return hit and self.count(hit, at)

    def find(self, point: FaultPoint, *, verb: str, path: str, at: datetime) -> Rule | None:
        """Return the rule that would strike; only that the request came is counted."""
        here = self._by_point.get(point, ())
        matching = [rule for rule in here if rule.script.is_about(verb, path)]
        for rule in matching:
            rule.seen += 1
            if rule.script.match.nth is not None:
                self._changed[rule.number] = rule
        return next((rule for rule in matching if self._hits(rule, path, at)), None)

    def due_at(self) -> datetime | None:
        """Market time of the next fault that needs no request."""
        times = [at for rule in self._timers if (at := self._timer(rule)) is not None]
        return min(times, default=None)

    def pop_due(self, to: datetime) -> list[Rule]:
        """Return the faults that need no request and are due by `to`, and count them."""
        due = [r for r in self._timers if (at := self._timer(r)) is not None and at <= to]
        return [self.count(rule, to) for rule in due]

    def restore(
        self, number: int, *, seen: int, struck: int, first_struck: datetime | None
    ) -> None:
        """Set the counts of a rule from the ledger."""
        rule = self._rules[number]
        rule.seen = rule.noted = seen
        rule.struck, rule.first_struck = struck, first_struck

    def _timer(self, rule: Rule) -> datetime | None:
        """Return when a fault that needs no request happens: once, however often it may strike."""
        at = rule.script.match.at
        is_over = rule.is_spent or rule.struck > 0
        return self._at_time(at) if at and not is_over else None

    def _hits(self, rule: Rule, path: str, at: datetime) -> bool:
        match = rule.script.match
        if is_lasting(rule, at):
            return True
        return not rule.is_spent and all(
            (
                match.nth is None or match.nth <= rule.seen,
                match.at is None or self._at_time(match.at) <= at,
                match.until is None or at < self._at_time(match.until),
                match.state is None or self._state_of(path) == match.state,
                match.prob is None or rule.chance.random() < match.prob,
            )
        )

    def limits(self, at: datetime) -> bool:
        return any(is_lasting(rule, at) for rule in self._rules)

    def take_changed(self) -> list[Rule]:
        changed, self._changed = list(self._changed.values()), {}
        for rule in changed:
            rule.noted = rule.seen
        return changed

    def count(self, rule: Rule, at: datetime) -> Rule:
        """Count a strike; a 429 that still applies is no new one."""
        if is_lasting(rule, at):
            return rule
        self._changed[rule.number] = rule
        rule.struck += 1
        rule.first_struck = rule.first_struck or at
        return rule


def reset_at(rule: Rule, action: TooMany) -> datetime:
    """Return when the 429s of a rule that has struck end, in market time."""
    assert rule.first_struck is not None, "a rule that has not struck resets nothing"
    return rule.first_struck + timedelta(seconds=action.reset_s)


def is_lasting(rule: Rule, at: datetime) -> bool:
    """Return whether a 429 that struck earlier still applies."""
    action = rule.script.action
    if rule.is_ended or not isinstance(action, TooMany) or rule.first_struck is None:
        return False
    return at < reset_at(rule, action)
