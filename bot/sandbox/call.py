"""One request as the sandbox sees it: what the signature covers, and the two times it came at."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from starlette.requests import Request

from bot.protocol.endpoints import Endpoint
from bot.sandbox.fault_rule import Action


@dataclass(frozen=True, slots=True, repr=False)
class Call:
    """A request. `target` is the exact text of the request line; header names are lower case.

    `endpoint` is None for a path that is none of the API's. `wire_at` judges signatures, nonces,
    quota and tokens, `market_at` everything else.
    """

    endpoint: Endpoint | None
    method: str
    target: str
    path_values: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    wire_at: datetime
    market_at: datetime
    scripted: Action | None = None
    """What a fault wants done to the order itself."""

    @property
    def path(self) -> str:
        """The target without its query, still encoded."""
        return self.target.partition("?")[0]

    def header(self, name: str) -> str:
        """Return a header's value, empty when it is absent; the case of `name` does not matter."""
        return self.headers.get(name.lower(), "")


Handler = Callable[[Call], object]
"""What answers a call that was let through: returns the payload, or raises HttpRefusal."""


async def read_call(
    request: Request, endpoint: Endpoint | None, *, wire_at: datetime, market_at: datetime
) -> Call:
    """Read a request whole."""
    return Call(
        endpoint=endpoint,
        method=request.method,
        target=exact_target(request),
        path_values={name: str(value) for name, value in request.path_params.items()},
        query=dict(request.query_params),
        headers={name.lower(): value for name, value in request.headers.items()},
        body=await request.body(),
        wire_at=wire_at,
        market_at=market_at,
    )


def exact_target(request: Request) -> str:
    """Return path and query as they stood on the wire, undecoded."""
    raw_path: bytes = request.scope["raw_path"]
    query: bytes = request.scope["query_string"]
    return (raw_path + (b"?" + query if query else b"")).decode("ascii", "surrogateescape")
