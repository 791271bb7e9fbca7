"""One request to the sandbox: its endpoint, what its signature covers, and its arrival in both
clocks.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Any, Final, TypeVar, dataclass_transform
from urllib.parse import parse_qsl

from pydantic import JsonValue
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from bot.protocol.endpoints import ENDPOINTS
from bot.protocol.endpoints.endpoint import Endpoint, path_parameters
from bot.sandbox.faults.script import Action

_PATHS_KEPT: Final = 1_024
Found = tuple[Endpoint | None, Mapping[str, str]]


@dataclass(slots=True)
class _Branch:
    """`hole` is the branch of a path value; `endpoints` are those that end here, by method."""

    named: "dict[str, _Branch]" = field(default_factory=dict)
    hole: "_Branch | None" = None
    endpoints: dict[str, tuple[Endpoint, tuple[str, ...]]] = field(default_factory=dict)


class Directory:
    """Endpoints by method and path. A literal segment takes precedence over a path value.

    Starlette has a router, but it tries one regular expression after another: ten times as long for
    these 120 endpoints, at every request of a simulation. And it takes the first that matches, so
    whether a segment is literal would depend on the order of the table.
    """

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        self._root = _Branch()
        for endpoint in endpoints:
            branch = self._root
            for segment in endpoint.path.split("/"):
                if segment.startswith("{"):
                    branch.hole = branch.hole or _Branch()
                    branch = branch.hole
                else:
                    branch = branch.named.setdefault(segment, _Branch())
            branch.endpoints[endpoint.method] = endpoint, path_parameters(endpoint)
        self._found = lru_cache(_PATHS_KEPT)(self._search)

    def find(self, method: str, path: str) -> Found:
        """Return the endpoint of a decoded path and its values; None if there is none."""
        return self._found(method, path)

    def _search(self, method: str, path: str) -> Found:
        for branch, values in _ends(self._root, path.split("/"), ()):
            if method in branch.endpoints:
                endpoint, names = branch.endpoints[method]
                return endpoint, MappingProxyType(dict(zip(names, values, strict=True)))
        return None, MappingProxyType({})


def _ends(
    branch: _Branch, segments: Sequence[str], values: tuple[str, ...]
) -> Iterator[tuple[_Branch, tuple[str, ...]]]:
    """Yield the branches that the segments lead to, with their path values; a value
    is never empty.
    """
    if not segments:
        yield branch, values
        return
    first, rest = segments[0], segments[1:]
    if first in branch.named:
        yield from _ends(branch.named[first], rest, values)
    if first and branch.hole is not None:
        yield from _ends(branch.hole, rest, (*values, first))


JSON: Final = "application/json"
Kind = TypeVar("Kind")


@dataclass_transform(frozen_default=True)
def _seen(kind: type[Kind]) -> type[Kind]:
    """Make a value class without a repr, as it holds secrets; one is created with every request.

    Only type checkers see it as frozen, as with `exchange.order.fact`, and for the same reason.
    """
    return dataclass(slots=True, repr=False, eq=False)(kind)


@_seen
class Head:
    """A request whose body is not read yet. `target` is the exact text of the request line.

    `endpoint` is None for a path outside the API. `headers` are as received, names in lower case;
    path values and query are decoded.
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

    def header(self, name: str) -> str:
        """Return a header's value, empty when it is absent; the case of `name` does not matter."""
        return self.headers.get(_wire_name(name), b"").decode("latin-1")


@_seen
class Call(Head):
    """A whole request. `wire_at` is used for signatures, nonces, quota and tokens, `market_at` for
    the rest.

    `scripted` is what a fault wants done to the order itself.
    """

    body: bytes
    wire_at: datetime
    market_at: datetime
    scripted: Action | None = None


Handler = Callable[[Call], object]
"""Answers a call that passed the checks: returns the payload, or raises HttpRefusal."""


def input_line(kind: str, call: Call, **facts: JsonValue) -> dict[str, JsonValue]:
    """Return a call's effect as a line of the ledger."""
    at, wire = call.market_at.isoformat(), call.wire_at.isoformat()
    return {"kind": kind, "at": at, "wire": wire, **facts}


def by_endpoint(*parts: object) -> dict[str, Any]:
    """Map each call to its handler: the method of that name in one of the parts."""
    return {
        name: getattr(part, name)
        for part in parts
        for name in ENDPOINTS
        if hasattr(type(part), name)
    }


def read_head(scope: Scope, directory: Directory) -> Head:
    """Parse everything before the body; of repeated query values or headers the last counts.

    ASGI passes header names in lower case.
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
    """Return a header's name in its ASGI form; cached, as our code asks for few names."""
    return name.lower().encode("latin-1")


async def read_body(receive: Receive) -> bytes:
    """Read the whole body. Raises ClientDisconnect."""
    parts: list[bytes] = []
    is_more = True
    while is_more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        parts.append(message.get("body", b""))
        is_more = message.get("more_body", False)
    return b"".join(parts)


def exact_target(scope: Scope) -> str:
    """Return path and query as they were on the wire, undecoded."""
    raw_path: bytes = scope["raw_path"]
    query: bytes = scope["query_string"]
    return (raw_path + (b"?" + query if query else b"")).decode("ascii", "surrogateescape")
