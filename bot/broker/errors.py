"""Why a read of the broker failed. A write never raises: its outcome is a value.

    BrokerError                 a request to the broker failed
    ├── Unreachable             no connection, or it broke before the answer was whole
    ├── Timeout                 no complete answer within the deadline
    ├── Malformed               an unusable answer; `raw` keeps it, redacted
    ├── NotNow                  `retry_at` says until when
    │   ├── RateLimited         the request quota is used up
    │   └── KeyRefused          not sent: the broker has refused our key twice
    ├── Refused                 the broker refused; see `http_status` and `error_code`
    ├── WrongQuery              not sent: the broker would answer these parameters with 400
    └── ForbiddenAddress        a base URL that requests may not go to

Messages name the call and the reason, never a secret, token or account number.
"""

from datetime import datetime
from http import HTTPStatus


class BrokerError(Exception):
    """A call that failed. `call` is the endpoint's name, `reason` one sentence without a secret."""

    def __init__(self, call: str, reason: str) -> None:
        super().__init__(f"{call.replace('_', ' ')}: {reason}")
        self.call = call
        self.reason = reason


class Unreachable(BrokerError):
    """The broker could not be reached, or the connection broke. `is_sent` is False only when no
    byte of the request was written.
    """

    def __init__(self, call: str, reason: str, *, is_sent: bool = True) -> None:
        super().__init__(call, reason)
        self.is_sent = is_sent


class Timeout(BrokerError):
    """The deadline passed before the answer was complete; `is_sent` as in Unreachable."""

    def __init__(self, call: str, reason: str, *, is_sent: bool = True) -> None:
        super().__init__(call, reason)
        self.is_sent = is_sent


class Malformed(BrokerError):
    """The answer is not what the API promises. `raw` is redacted and at most 16 kB."""

    def __init__(self, call: str, reason: str, raw: str = "") -> None:
        super().__init__(call, reason)
        self.raw = raw


class NotNow(BrokerError):
    """Retrying makes sense from `retry_at` on."""

    def __init__(self, call: str, reason: str, retry_at: datetime) -> None:
        super().__init__(call, reason)
        self.retry_at = retry_at


class RateLimited(NotNow):
    """The quota is used up; `retry_at` is on the budget's clock."""


class KeyRefused(NotNow):
    """Not sent, because the broker answered our key or signature with 401."""


class Refused(BrokerError):
    """The broker refused. `error_code` is its own code, `http_status` the HTTP status."""

    def __init__(self, call: str, reason: str, *, http_status: int, error_code: str) -> None:
        super().__init__(call, reason)
        self.http_status = http_status
        self.error_code = error_code


class WrongQuery(BrokerError):
    """Not sent: `faults` are the parameters and what is wrong with each."""

    def __init__(self, call: str, faults: tuple[tuple[str, str], ...]) -> None:
        super().__init__(call, "; ".join(f"{name}: {reason}" for name, reason in faults))
        self.faults = faults


class ForbiddenAddress(BrokerError):
    """Requests go only to https, or to http on this machine."""


def refuses_key(error: BrokerError) -> bool:
    """Return whether the broker rejects our key, or anything signed with its secret."""
    is_unauthorised = isinstance(error, Refused) and error.http_status == 401
    return is_unauthorised or isinstance(error, KeyRefused)


def is_unsent(error: BrokerError) -> bool:
    """Return whether the broker has not looked at the request: no byte of it has left, or the
    quota or the key kept it back.
    """
    if isinstance(error, Unreachable | Timeout):
        return not error.is_sent
    return isinstance(error, NotNow)


def is_forbidden(error: BrokerError) -> bool:
    """Return whether the broker knows our key and does not allow the call: no permission, an
    address that is not on its list, or a missing 2FA token.
    """
    return isinstance(error, Refused) and error.http_status == HTTPStatus.FORBIDDEN


def is_unknown(error: BrokerError) -> bool:
    """Return whether the broker does not know the name: a symbol that is not listed, an id."""
    return isinstance(error, Refused) and error.http_status == 404
