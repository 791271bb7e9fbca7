"""Notices: messages to a person who is away from the screen, and how urgent each kind is."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum, StrEnum
from typing import Final


class Severity(IntEnum):
    """How urgent a notice is; the higher is sent first and dropped last."""

    INFO = 1
    WARNING = 2
    CRITICAL = 3


class NoticeKind(StrEnum):
    """What notices are about: the words under `notify.kinds`."""

    TWO_FACTOR = "two_factor"
    HALTED = "halted"
    UNKNOWN_ORDER = "unknown_order"
    REJECTION = "rejection"
    DIFFERENCE = "difference"
    HELD_DATA = "held_data"
    LIMIT = "limit"
    TROUBLE = "trouble"
    RESTART = "restart"
    STATE = "state"
    FILL = "fill"
    SUMMARY = "summary"
    ALIVE = "alive"


class Volume(StrEnum):
    """How a channel delivers a kind: with a sound, silently where the service can, or not
    at all.
    """

    ON = "on"
    SILENT = "silent"
    OFF = "off"


SEVERITIES: Final[Mapping[NoticeKind, Severity]] = {
    NoticeKind.TWO_FACTOR: Severity.CRITICAL,
    NoticeKind.HALTED: Severity.CRITICAL,
    NoticeKind.UNKNOWN_ORDER: Severity.CRITICAL,
    NoticeKind.REJECTION: Severity.WARNING,
    NoticeKind.DIFFERENCE: Severity.WARNING,
    NoticeKind.HELD_DATA: Severity.WARNING,
    NoticeKind.LIMIT: Severity.WARNING,
    NoticeKind.TROUBLE: Severity.WARNING,
    NoticeKind.RESTART: Severity.WARNING,
    NoticeKind.STATE: Severity.INFO,
    NoticeKind.FILL: Severity.INFO,
    NoticeKind.SUMMARY: Severity.INFO,
    NoticeKind.ALIVE: Severity.INFO,
}
CRITICAL_KINDS: Final = frozenset(
    kind for kind, severity in SEVERITIES.items() if severity is Severity.CRITICAL
)
"""These always reach somebody: they cannot be muted, held overnight, or off on every channel."""
MUTE_MAX: Final = timedelta(hours=24)
"""How long the others can be muted."""


@dataclass(frozen=True, slots=True)
class Notice:
    """One message. Notices of one `group` that come shortly after each other are sent together.

    `text` is what happened, `money` what it means in money, `do` the command to type.
    """

    at: datetime
    kind: NoticeKind
    group: str
    text: str
    money: str = ""
    do: str = ""

    @property
    def severity(self) -> Severity:
        return SEVERITIES[self.kind]
