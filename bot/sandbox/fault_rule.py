"""What a fault in a scenario file looks like: when it strikes, where in a request, what it does.

    faults:
      - {match: {at: "09:34:00"}, point: before_auth, action: {do: too_many, reset_s: 30}}
      - {match: {verb: POST, path: "*/orders", nth: 4}, action: {do: reject, code: "-900017"}}
      - {match: {at: "09:39:00"}, action: {do: drop_2fa, code: OTP_SESSION_EXPIRED}}

`drop_2fa` with `at` needs no request: it happens at that market time.
"""

from datetime import time
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field

from bot.sandbox.scenario_part import Part


class FaultPoint(StrEnum):
    """Where in the handling of a request a fault strikes."""

    ACCEPT = "accept"
    BEFORE_AUTH = "before_auth"
    AFTER_AUTH = "after_auth"
    AFTER_APPLY = "after_apply"
    MID_BODY = "mid_body"


class Match(Part):
    """Which requests a fault strikes; every condition given must hold.

    `path` is a pattern with `*`. `nth` counts the matching requests from 1, since the
    fault was added. `at` and `until` are market time. `prob` is drawn from the rule's own seeded
    stream. `state` is the status of the order that the path names. `times`: how often it strikes;
    0 is without end (the default is once, and without end for `prob` and for `until`).
    """

    verb: Literal["GET", "POST", "PUT", "DELETE"] | None = None
    path: str = "*"
    nth: int | None = Field(default=None, ge=1)
    at: time | None = None
    until: time | None = None
    prob: float | None = Field(default=None, ge=0, le=1)
    state: str | None = None
    times: int | None = Field(default=None, ge=0)

    @property
    def strikes_max(self) -> int:
        """How often the rule may strike; 0 is without end."""
        if self.times is not None:
            return self.times
        return 0 if self.prob is not None or self.until is not None else 1


class Status(Part):
    """Answer with this HTTP status and, unless `body` is set, the error body of `code`."""

    do: Literal["status"]
    status: int = Field(ge=100, le=599)
    code: str | None = None
    message: str = "Scripted by the scenario"
    body: str | None = None
    headers: dict[str, str] = Field(default_factory=dict)


class TooMany(Part):
    """Answer 429 until `reset_s` seconds of market time after it struck first, and say so."""

    do: Literal["too_many"]
    reset_s: int = Field(default=30, ge=0)


class Reject(Part):
    """Refuse the order inside HTTP 200."""

    do: Literal["reject"]
    code: str = "-900017"
    reason: str | None = None
    status: Literal["REJECTED", "FAILED"] = "REJECTED"


class DropTwoFactor(Part):
    """Every token issued so far answers `code` from now on."""

    do: Literal["drop_2fa"]
    code: Literal[
        "OTP_SESSION_REQUIRED", "OTP_SESSION_EXPIRED", "OTP_SESSION_INVALID", "OTP_SESSION_REVOKED"
    ] = "OTP_SESSION_EXPIRED"


class Cut(Part):
    """Drop the connection: `rst` hard, `fin` politely."""

    do: Literal["rst", "fin"]


class Wait(Part):
    """Let `seconds` of wire time pass: `delay` then goes on, `hang` drops the connection."""

    do: Literal["delay", "hang"]
    seconds: float = Field(ge=0)


class Truncate(Part):
    """Send only the first `length` bytes of the body, then drop the connection."""

    do: Literal["truncate"]
    length: int = Field(ge=0)


class HideRow(Part):
    """Leave the order that is placed out of day book and detail for `seconds` of market time."""

    do: Literal["hide_row"]
    seconds: float = Field(gt=0)


_POINTS: Final = {
    "status": FaultPoint.BEFORE_AUTH,
    "too_many": FaultPoint.BEFORE_AUTH,
    "reject": FaultPoint.AFTER_AUTH,
    "drop_2fa": FaultPoint.BEFORE_AUTH,
    "hide_row": FaultPoint.AFTER_AUTH,
    "rst": FaultPoint.AFTER_APPLY,
    "fin": FaultPoint.AFTER_APPLY,
    "delay": FaultPoint.AFTER_APPLY,
    "hang": FaultPoint.AFTER_APPLY,
    "truncate": FaultPoint.MID_BODY,
}
Action = Annotated[
    Status | TooMany | Reject | DropTwoFactor | Cut | Wait | Truncate | HideRow,
    Field(discriminator="do"),
]


class FaultScript(Part):
    """One fault of a scenario."""

    match: Match = Match()
    point: FaultPoint | None = None
    action: Action

    @property
    def where(self) -> FaultPoint:
        """The point given, else the one that suits the action."""
        return self.point or _POINTS[self.action.do]
