"""Which endpoint a request means: a tree of path segments, so that a hundred paths cost as one.

Starlette's router tries the regular expression of one route after another, decodes values its own
way and wants an application a path; these lines answer one look a segment and keep what they found.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from bot.protocol.endpoints.endpoint import Endpoint, path_parameters

_PATHS_KEPT: Final = 1_024
Found = tuple[Endpoint | None, Mapping[str, str]]


@dataclass(slots=True)
class _Branch:
    """`hole` is where a path value leads; `endpoints` are those that end here, by method."""

    named: "dict[str, _Branch]" = field(default_factory=dict)
    hole: "_Branch | None" = None
    endpoints: dict[str, tuple[Endpoint, tuple[str, ...]]] = field(default_factory=dict)


class Directory:
    """Endpoints by method and path. A segment written out goes before a path value."""

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
        """Return the endpoint of a decoded path and its values; None when there is none."""
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
    """Yield where the segments lead, with the path values on the way; a value is never empty."""
    if not segments:
        yield branch, values
        return
    first, rest = segments[0], segments[1:]
    if first in branch.named:
        yield from _ends(branch.named[first], rest, values)
    if first and branch.hole is not None:
        yield from _ends(branch.hole, rest, (*values, first))
