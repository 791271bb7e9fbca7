"""Decides which notices are sent, when, and to whom. Pure: all times are passed in.

The first notice of a group is sent at once. Those that follow within `group_s` are counted and sent
as one summary at the end of that time; during a storm the time doubles, up to an hour. In quiet
hours, or while a person has muted the notices, all but critical ones are kept and sent together
afterwards. Every list is bounded; what did not fit is counted and reported.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from typing import Final

from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.notice import SEVERITIES, Notice, NoticeKind, Severity

SPAN_MAX: Final = timedelta(hours=1)
GROUPS_MAX: Final = 500
"""Groups remembered; the oldest is reported and dropped."""
LISTED_MAX: Final = 5
"""Notices that a summary shows in words; the others are only counted."""


@dataclass(frozen=True, slots=True)
class Ready:
    """Notices of one kind to be sent now, in one message.

    `count` is how many there were in all, of which `notices` are the last ones. `is_late`: they
    have waited for the end of quiet hours.
    """

    at: datetime
    kind: NoticeKind
    notices: tuple[Notice, ...]
    count: int
    is_late: bool = False


@dataclass(slots=True)
class _Group:
    """Notices to be sent together, since the first of them was sent."""

    kind: NoticeKind
    until: datetime
    span: timedelta
    count: int = 0
    last: list[Notice] = field(default_factory=list)

    def add(self, notice: Notice) -> None:
        self.count += 1
        self.last = [*self.last, notice][-LISTED_MAX:]


class Policy:
    """Takes notices and returns what is to be sent, both in time order."""

    def __init__(
        self, *, group: timedelta, quiet_hours: Mapping[Severity, tuple[time, time]]
    ) -> None:
        self._span = group
        self._quiet_hours = quiet_hours
        self._groups: dict[str, _Group] = {}
        self._kept: dict[NoticeKind, _Group] = {}
        self._muted_until: datetime | None = None

    def mute(self, until: datetime | None) -> None:
        """Hold back all but critical notices until then; None ends it."""
        self._muted_until = until

    def take(self, notice: Notice) -> list[Ready]:
        """Add one notice; return what is to be sent now."""
        ready = self.due(notice.at)
        group = self._groups.get(notice.group)
        if group is not None:
            group.add(notice)
            return ready
        if len(self._groups) >= GROUPS_MAX:
            ready += self._told(self._groups.pop(next(iter(self._groups))), notice.at)
        until = notice.at + self._span
        self._groups[notice.group] = _Group(notice.kind, until, self._span)
        return ready + self._out(Ready(notice.at, notice.kind, (notice,), 1))

    def due(self, at: datetime) -> list[Ready]:
        """Return what has waited long enough: summaries, and notices held in quiet hours."""
        ready = list[Ready]()
        if self._muted_until is not None and at >= self._muted_until:
            self._muted_until = None
        for name in [name for name, group in self._groups.items() if group.until <= at]:
            group = self._groups.pop(name)
            if group.count:
                ready += self._told(group, at)
                span = min(2 * group.span, max(SPAN_MAX, self._span))
                self._groups[name] = _Group(group.kind, at + span, span)
        for kind in [kind for kind in self._kept if not self._is_quiet(kind, at)]:
            kept = self._kept.pop(kind)
            ready.append(Ready(at, kind, tuple(kept.last), kept.count, is_late=True))
        return ready

    def all_left(self, at: datetime) -> list[Ready]:
        """Return everything that waits, as the end is near."""
        ready = [each for group in self._groups.values() for each in self._told(group, at)]
        late = [Ready(at, k, tuple(g.last), g.count, is_late=True) for k, g in self._kept.items()]
        self._groups, self._kept = {}, {}
        return [*ready, *late]

    def _told(self, group: _Group, at: datetime) -> list[Ready]:
        if not group.count:
            return []
        return self._out(Ready(at, group.kind, tuple(group.last), group.count))

    def _out(self, ready: Ready) -> list[Ready]:
        """Send it, or keep it during quiet hours."""
        if not self._is_quiet(ready.kind, ready.at):
            return [ready]
        kept = self._kept.setdefault(ready.kind, _Group(ready.kind, ready.at, self._span))
        kept.count += ready.count
        kept.last = [*kept.last, *ready.notices][-LISTED_MAX:]
        return []

    def _is_quiet(self, kind: NoticeKind, at: datetime) -> bool:
        severity = SEVERITIES[kind]
        if severity is Severity.CRITICAL:
            return False
        if self._muted_until is not None and at < self._muted_until:
            return True
        hours = self._quiet_hours.get(severity)
        return hours is not None and is_within(hours, at)


def is_within(hours: tuple[time, time], at: datetime) -> bool:
    """Return whether an instant is within hours of the exchange's day, which may span midnight."""
    begin, end = hours
    now = at.astimezone(EXCHANGE_TZ).time()
    return begin <= now < end if begin < end else now >= begin or now < end
