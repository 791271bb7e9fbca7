"""One request as the sandbox sees it: what the signature covers, and the two times it came at."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Final
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from bot.protocol.endpoints.endpoint import Endpoint
from bot.sandbox.api.directory import Directory
from bot.sandbox.faults.rule import Action

JSON: Final = "application/json"


@dataclass(frozen=True, slots=True, repr=False)
class Head:
    """A request whose body is not read yet. `target` is the exact text of the request line.

    `endpoint` is None for a path that is none of the API's. `headers` are as they came, names in
    lower case; a Call reads them.
    """

    endpoint: Endpoint | None
    method: str
    target: str
    path_values: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[bytes, bytes]

    @property
    def path(self) -> str:
        """The target without its query, still encoded."""
        return self.target.partition("?")[0]


@dataclass(frozen=True, slots=True, repr=False)
class Call:
    """A request. `wire_at` judges signatures, nonces, quota and tokens, `market_at` everything
    else.
    """

    head: Head
    body: bytes
    wire_at: datetime
    market_at: datetime
    scripted: Action | None = None
    """What a fault wants done to the order itself."""

    @property
    def endpoint(self) -> Endpoint | None:
        """What is called, None for a path that is none of the API's."""
        return self.head.endpoint

    @property
    def method(self) -> str:
        """The verb."""
        return self.head.method

    @property
    def target(self) -> str:
        """The exact text of the request line: path and query, still encoded."""
        return self.head.target

    @property
    def path(self) -> str:
        """The target without its query, still encoded."""
        return self.head.path

    @property
    def path_values(self) -> Mapping[str, str]:
        """What stands in the holes of the endpoint's path, decoded."""
        return self.head.path_values

    @property
    def query(self) -> Mapping[str, str]:
        """The query's values, decoded."""
        return self.head.query

    def header(self, name: str) -> str:
        """Return a header's value, empty when it is absent; the case of `name` does not matter."""
        return self.head.headers.get(_wire_name(name), b"").decode("latin-1")


Handler = Callable[[Call], object]
"""What answers a call that was let through: returns the payload, or raises HttpRefusal."""


def read_head(scope: Scope, directory: Directory) -> Head:
    """Read what came before the body; of a query's or header's several values the last counts.

    ASGI hands header names over in lower case.
    """
    endpoint, path_values = directory.find(scope["method"], scope["path"])
    query = scope["query_string"].decode("latin-1")
    return Head(
        endpoint=endpoint,
        method=scope["method"],
        target=exact_target(scope),
        path_values=path_values,
        query=dict(parse_qsl(query, keep_blank_values=True)) if query else {},
        headers=dict(scope["headers"]),
    )


@cache
def _wire_name(name: str) -> bytes:
    """Return a header's name as ASGI has it; the names are those few that our code asks for."""
    return name.lower().encode("latin-1")


async def read_body(receive: Receive) -> bytes:
    """Read the body whole. Raises ClientDisconnect."""
    message = await receive()
    parts = [_part(message)]
    while message.get("more_body", False):
        message = await receive()
        parts.append(_part(message))
    return b"".join(parts)


def _part(message: Mapping[str, object]) -> bytes:
    if message["type"] == "http.disconnect":
        raise ClientDisconnect
    part = message.get("body", b"")
    assert isinstance(part, bytes), "the server hands over bytes"
    return part


def exact_target(scope: Scope) -> str:
    """Return path and query as they stood on the wire, undecoded."""
    raw_path: bytes = scope["raw_path"]
    query: bytes = scope["query_string"]
    return (raw_path + (b"?" + query if query else b"")).decode("ascii", "surrogateescape")
