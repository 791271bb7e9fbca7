"""A fault in a scenario file: when it strikes, at which point of a request, and what it does.

    faults:
      - {match: {at: "09:34:00"}, point: before_auth, action: {do: too_many, reset_s: 30}}
      - {match: {verb: POST, path: "*/orders", nth: 4}, action: {do: reject, code: "-900017"}}
      - {match: {at: "09:39:00"}, action: {do: drop_2fa, code: OTP_SESSION_EXPIRED}}

`drop_2fa` with `at` needs no request: it happens at that market time. An action has a default point
and some other allowed ones (`POINTS`). Before `after_apply`, an action that makes the answer
prevents the request's effect; from there on the request has had its effect. A fault that could
never strike is refused: it would look like one that was survived.
"""

from collections.abc import Mapping
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Annotated, Final, Literal, NamedTuple

from pydantic import AfterValidator, Field, JsonValue, field_validator, model_validator

from bot.protocol.endpoints import ENDPOINTS
from bot.protocol.status import STATUSES
from bot.protocol.strict_json import compact
from bot.sandbox.faults.garbage import GarbageKind
from bot.sandbox.scenario_part import LocalTime, Part

SECONDS_MAX: Final = 1_000_000
"""Longer than any day that is played, and no clock overflows."""
_OFFSET_MAX: Final = 1_000_000_000
Seconds = Annotated[float, Field(ge=0, le=SECONDS_MAX)]


def _can_be_sent(value: JsonValue) -> JsonValue:
    try:
        compact(value).encode()
    except ValueError as error:
        raise ValueError(f"an answer in JSON cannot hold it: {error}") from error
    return value


Sendable = Annotated[JsonValue, AfterValidator(_can_be_sent)]
"""What can be written into an answer: no NaN and no half of a character."""
HeaderName = Annotated[str, Field(pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")]
HeaderValue = Annotated[str, Field(pattern=r"^[\t\x20-\x7e\u{a0}-\u{ff}]*$")]
"""What can be put into a head at all: Latin-1, on one line."""


class FaultPoint(StrEnum):
    """Where in the handling of a request a fault strikes, in order.

    `accept` is when the head of the request has arrived and its body is not yet read, `mid_body`
    when half of the answer's body is out.
    """

    ACCEPT = "accept"
    BEFORE_AUTH = "before_auth"
    AFTER_AUTH = "after_auth"
    AFTER_APPLY = "after_apply"
    HEADERS_SENT = "headers_sent"
    MID_BODY = "mid_body"
    AFTER_BODY = "after_body"


class Match(Part):
    """Which requests a fault strikes; every condition that is given must hold.

    `path` is a pattern with `*` for the whole path. `nth` counts matching requests from 1, since
    the fault was added. `at` and `until` are market time. `prob` is drawn from the rule's own
    seeded stream. `state` is the status of the order that the path names. `times`: how often it
    strikes; 0 is without end (the default is once, and without end for `prob` and for `until`).
    """

    verb: Literal["GET", "POST", "PUT", "DELETE"] | None = None
    path: str = "*"
    nth: int | None = Field(default=None, ge=1)
    at: LocalTime | None = None
    until: LocalTime | None = None
    prob: float | None = Field(default=None, ge=0, le=1)
    state: str | None = None
    times: int | None = Field(default=None, ge=0)

    @field_validator("path")
    @classmethod
    def _is_whole(cls, path: str) -> str:
        paths = [each.path for each in ENDPOINTS.values()]
        is_call = any(fnmatchcase(each, path) for each in paths)
        is_end = not is_call and any(fnmatchcase(each, f"*{path}") for each in paths)
        if is_end or not path.startswith(("/", "*", "?", "[")):
            raise ValueError(f"{path} is no whole path, and never matches: perhaps *{path}")
        return path

    @field_validator("state")
    @classmethod
    def _is_a_status(cls, state: str | None) -> str | None:
        if state is not None and state not in STATUSES:
            raise ValueError(f"no order is ever {state}, but {', '.join(STATUSES)}")
        return state

    @model_validator(mode="after")
    def _has_a_while(self) -> "Match":
        if self.at is not None and self.until is not None and self.until <= self.at:
            raise ValueError(f"until {self.until} is not after at {self.at}: it never strikes")
        return self

    @property
    def strikes_max(self) -> int:
        """How often the rule may strike; 0 means without limit."""
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
    headers: dict[HeaderName, HeaderValue] = Field(default_factory=dict)


class TooMany(Part):
    """Answer 429 until `reset_s` seconds of market time after its first strike, with that reset."""

    do: Literal["too_many"]
    reset_s: int = Field(default=30, ge=0, le=SECONDS_MAX)


class Reject(Part):
    """Refuse the order inside HTTP 200."""

    do: Literal["reject"]
    code: str = "-900017"
    reason: str | None = None
    status: Literal["REJECTED", "FAILED"] = "REJECTED"


class DropTwoFactor(Part):
    """Make every token issued so far answer `code` from now on."""

    do: Literal["drop_2fa"]
    code: Literal[
        "OTP_SESSION_REQUIRED", "OTP_SESSION_EXPIRED", "OTP_SESSION_INVALID", "OTP_SESSION_REVOKED"
    ] = "OTP_SESSION_EXPIRED"


class Cut(Part):
    """Drop the connection: `rst` hard, `fin` in an orderly way."""

    do: Literal["rst", "fin"]


class Wait(Part):
    """Let `seconds` of wire time pass: `delay` then goes on, `hang` drops the connection."""

    do: Literal["delay", "hang"]
    seconds: Seconds


class Truncate(Part):
    """Send only the first `length` bytes of the body, then drop the connection."""

    do: Literal["truncate"]
    length: int = Field(ge=0)


class Trickle(Part):
    """Send only `bytes_per_s`: the whole answer from `after_apply` on, else the body."""

    do: Literal["trickle"]
    bytes_per_s: float = Field(default=1.0, gt=0)


class Garbage(Part):
    """Answer 200 with the good answer spoilt like this; before `after_apply`, with an empty one."""

    do: Literal["garbage"]
    kind: GarbageKind


class Huge(Part):
    """Answer 200 with `length` bytes of a text that never ends."""

    do: Literal["huge"]
    length: int = Field(default=10**9, gt=0)


class GzipBomb(Part):
    """Answer 200 with a megabyte of gzip that would unpack to a gigabyte."""

    do: Literal["gzip_bomb"]


class Redirect(Part):
    """Answer with a redirection to `to`."""

    do: Literal["redirect"]
    to: HeaderValue
    status: Literal[301, 302, 303, 307, 308] = 307


class DupRequest(Part):
    """Carry the request out a second time, as a proxy would, `delay` seconds of wire time later.

    The client gets the answer to the `first` or to the `second`. In process, where an answer is
    only delivered when everything is done, the first answer waits for the second.
    """

    do: Literal["dup_request"]
    delay: Seconds = 0
    answer: Literal["first", "second"] = "first"


class HideRow(Part):
    """Leave the placed order out of day order book and detail for `seconds` of market time."""

    do: Literal["hide_row"]
    seconds: float = Field(gt=0, le=SECONDS_MAX)


class StaleRead(Part):
    """Answer a read with an answer from `seconds` of market time ago.

    That is the newest answer to the same target of at least that age, else the oldest since the
    rule came into force, else the true one.
    """

    do: Literal["stale_read"]
    seconds: float = Field(gt=0, le=SECONDS_MAX)


class Reorder(Part):
    """Let another answer overtake this one, or shuffle the rows of a list.

    `answers` holds the answer until a later request that the rule matches has been answered, and
    for `seconds` of wire time at most.
    """

    do: Literal["reorder"]
    of: Literal["answers", "rows"] = "answers"
    seconds: float = Field(default=5.0, gt=0, le=SECONDS_MAX)


class DateHeader(Part):
    """Date the answer `offset` seconds off the sandbox's clock; null omits the header."""

    do: Literal["date_header"]
    offset: Annotated[float, Field(ge=-_OFFSET_MAX, le=_OFFSET_MAX)] | None


RowField = Literal["order_id", "account", "date", "symbol", "side", "quantity", "price", "type"]


class SwapRow(Part):
    """Answer with a row of another order: one `field` of the first row is changed.

    `value` replaces it, by default with something plausible. `rows` answers with no row or two rows
    instead.
    """

    do: Literal["swap_row"]
    field: RowField | None = None
    value: Sendable = None
    rows: Literal[0, 2] | None = None

    @model_validator(mode="after")
    def _says_one_thing(self) -> "SwapRow":
        if (self.field is None) is (self.rows is None):
            raise ValueError("swap_row takes a field or a number of rows")
        return self


class StatusOverride(Part):
    """Show this status in every row, with number `code`; null is sent as null."""

    do: Literal["status_override"]
    status: str | None
    code: str | None = None


class SetFields(Part):
    """Put these values into every row, or into the payload if it is one object."""

    do: Literal["set_fields"]
    fields: Annotated[dict[str, JsonValue], AfterValidator(_can_be_sent)] = Field(min_length=1)


Action = Annotated[
    Status
    | TooMany
    | Reject
    | DropTwoFactor
    | Cut
    | Wait
    | Truncate
    | Trickle
    | Garbage
    | Huge
    | GzipBomb
    | Redirect
    | DupRequest
    | HideRow
    | StaleRead
    | Reorder
    | DateHeader
    | SwapRow
    | StatusOverride
    | SetFields,
    Field(discriminator="do"),
]

_P = FaultPoint
_EARLY: Final = frozenset({_P.ACCEPT, _P.BEFORE_AUTH, _P.AFTER_AUTH, _P.AFTER_APPLY})
_LATE: Final = frozenset({_P.HEADERS_SENT, _P.MID_BODY, _P.AFTER_BODY})


class Points(NamedTuple):
    """The point where an action strikes by default, and where else it may."""

    usual: FaultPoint
    allowed: frozenset[FaultPoint]


POINTS: Final[Mapping[str, Points]] = {
    do: Points(usual, frozenset(allowed))
    for usual, allowed, actions in (
        (_P.BEFORE_AUTH, _EARLY, ("status", "too_many", "redirect", "drop_2fa")),
        (_P.AFTER_AUTH, {_P.AFTER_AUTH}, ("reject", "hide_row")),
        (_P.AFTER_APPLY, _EARLY | _LATE, ("rst", "fin", "delay", "hang")),
        (_P.AFTER_APPLY, _EARLY, ("garbage", "huge", "gzip_bomb")),
        (_P.MID_BODY, {_P.MID_BODY}, ("truncate",)),
        (_P.HEADERS_SENT, {_P.AFTER_APPLY, _P.HEADERS_SENT, _P.MID_BODY}, ("trickle",)),
        (_P.ACCEPT, {_P.ACCEPT}, ("dup_request", "date_header")),
        (_P.AFTER_APPLY, {_P.AFTER_APPLY}, ("stale_read", "reorder", "swap_row")),
        (_P.AFTER_APPLY, {_P.AFTER_APPLY}, ("status_override", "set_fields")),
    )
    for do in actions
}
"""Points by the action's `do`."""


class Requests(NamedTuple):
    """What an action strikes alone, however wide its match is."""

    verb: str
    path: str


ORDERS_PLACED: Final = Requests("POST", "*/orders")
ONLY: Final[Mapping[str, Requests]] = {
    "reject": ORDERS_PLACED,
    "hide_row": ORDERS_PLACED,
    "stale_read": Requests("GET", "*"),
}
"""By the action's `do`: anything else it would leave as it is."""


class FaultScript(Part):
    match: Match = Match()
    point: FaultPoint | None = None
    action: Action

    @model_validator(mode="after")
    def _strikes_where_it_can(self) -> "FaultScript":
        if self.where not in POINTS[self.action.do].allowed:
            raise ValueError(f"{self.action.do} cannot strike at {self.where}")
        return self

    @model_validator(mode="after")
    def _strikes_something(self) -> "FaultScript":
        match, do, only = self.match, self.action.do, ONLY.get(self.action.do)
        if only is not None and match.verb not in (None, only.verb):
            raise ValueError(f"{do} strikes {only.verb} {only.path} alone, never a {match.verb}")
        if only is ORDERS_PLACED and match.state is not None:
            raise ValueError(f"{do} strikes orders that are placed, which have no state yet")
        if self.is_timer and (match.nth, match.prob, match.state) != (None, None, None):
            raise ValueError(f"{do} at a time needs no request: nth, prob and state choose none")
        return self

    @property
    def where(self) -> FaultPoint:
        """The given point, else the action's default."""
        return self.point or POINTS[self.action.do].usual

    @property
    def is_timer(self) -> bool:
        """Whether it happens by itself: a 2FA drop at a time, with no request to match."""
        match = self.match
        is_narrow = match.verb is not None or match.path != "*"
        return isinstance(self.action, DropTwoFactor) and match.at is not None and not is_narrow

    def is_about(self, verb: str, path: str) -> bool:
        """Return whether it may strike a request, as far as verb and path go."""
        match, only = self.match, ONLY.get(self.action.do)
        if only is not None and not (verb == only.verb and fnmatchcase(path, only.path)):
            return False
        return match.verb in (None, verb) and fnmatchcase(path, match.path)
