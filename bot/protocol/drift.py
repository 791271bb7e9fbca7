"""Where an answer differs from the document without failing: added fields, missing fields.

Unknown fields are ignored when an answer is read; this is where they are kept aside, so that a
change of the API is reported before it becomes a failure. Only names are looked at,
never values. Of a call read by hand, of two shapes, or of a shape that no source shows, nothing
can be said.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field, is_dataclass
from functools import cache
from itertools import chain
from typing import Annotated, Any, Final, TypeVar, get_args, get_origin, get_type_hints

from bot.protocol.endpoints.endpoint import Shape
from bot.protocol.envelope import Payload
from bot.protocol.fields import Numbers
from bot.protocol.shaped import Codec, Rest, wire_names

_CONTAINERS: Final = frozenset({dict, list})

Place = str
"""The way to an object, empty at the top: `items[].` is where `items[].price` is."""


@dataclass(frozen=True, slots=True)
class Drift:
    """Names of fields, with the way to them: `items[].price`.

    `added` came and is in no document; `gone` is in the document and came in none of the objects
    where it belongs, which may be (most fields are optional).
    """

    added: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()


@dataclass(slots=True)
class _Names:
    """The objects and fields of a payload, by name; under `free` places any name is good."""

    places: set[Place] = field(default_factory=set)
    fields: set[str] = field(default_factory=set)
    free: set[Place] = field(default_factory=set)


def drift_of(codec: Codec[Any], payload: Payload) -> Drift:
    """Compare the names in a payload with those of the call's table."""
    if codec.kind is None or codec.endpoint.shape is Shape.EITHER:
        return Drift()
    kind: Any = codec.kind
    known, sent = _known(kind), _Names()
    _collect(payload.value, "", sent)
    free = tuple(known.free)
    added = {name for name in sent.fields - known.fields if not name.startswith(free)}
    outermost = {name for name in added if _place_of(name) in known.places}
    gone = {name for name in known.fields - sent.fields if _place_of(name) in sent.places}
    return Drift(tuple(sorted(outermost)), tuple(sorted(gone)))


def shape_of(value: object) -> Hashable:
    """Return the names in a payload and where they are: all that `drift_of` looks at.

    Payloads of one shape have one drift. Rows of the same names count once.
    """
    if type(value) is dict:
        inner = [(name, shape_of(one)) for name, one in value.items() if type(one) in _CONTAINERS]
        return (tuple(value), *inner)
    if type(value) is not list:
        return None
    if set(map(type, value)) == {dict} and _CONTAINERS.isdisjoint(
        map(type, chain.from_iterable(map(dict.values, value)))
    ):
        return frozenset(map(tuple, value))
    return frozenset([(shape_of(one),) for one in value if type(one) in _CONTAINERS])


def _place_of(name: str) -> Place:
    return name[: name.rfind(".") + 1]


def _collect(value: object, place: Place, names: _Names) -> None:
    """Note the names in a payload; what holds nothing more is not looked into, for speed."""
    if isinstance(value, dict):
        if value:
            names.places.add(place)
        for name, inner in value.items():
            names.fields.add(place + name)
            if isinstance(inner, dict | list):
                _collect(inner, f"{place}{name}.", names)
    elif isinstance(value, list):
        inside = _of_elements(place)
        for inner in value:
            _collect(inner, inside, names)


def _of_elements(place: Place) -> Place:
    return f"{place.removesuffix('.')}[]."


@cache
def _known(kind: Any) -> _Names:
    names = _Names()
    _learn(kind, "", {}, names)
    return names


def _learn(kind: Any, place: Place, bound: dict[Any, Any], names: _Names) -> None:
    """Collect the names of a type: a dataclass, or what is made of dataclasses."""
    kind = bound.get(kind, kind) if isinstance(kind, TypeVar) else kind
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        names.free.update(place for one in arguments if isinstance(one, Rest))
        _learn(arguments[0], place, bound, names)
    elif is_dataclass(origin or kind):
        parameters = getattr(origin, "__parameters__", ())
        of_fields = dict(zip(parameters, arguments, strict=True))
        hints = get_type_hints(origin or kind, include_extras=True)
        names.places.add(place)
        for ours, theirs in wire_names(origin or kind).items():
            # The mapping that takes the free names has no name of its own on the wire.
            if not (hints[ours] == Numbers and place in names.free):
                names.fields.add(place + theirs)
                _learn(hints[ours], f"{place}{theirs}.", of_fields, names)
    else:
        inner = _of_elements(place) if origin is tuple else place
        for one in arguments:
            _learn(one, inner, bound, names)
