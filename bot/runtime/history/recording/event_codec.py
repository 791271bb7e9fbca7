"""Encodes events and commands for a recording, and reads them back exactly.

It is derived from the annotations of the frozen dataclasses: a value is the list of its fields,
preceded by the class name if the annotation allows several. The fields of each class are stored
beside the recording (`Shapes`), so a field added later takes its default. Unsupported annotations
are refused when the codec is made, not when a value is written.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import date, datetime, time, timedelta
from enum import Enum
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

Shapes = Mapping[str, tuple[str, ...]]
"""The fields of each class, as they were when something was written."""
Way = Callable[[Any], Any]

_MICROSECOND: Final = timedelta(microseconds=1)
_PLAIN: Final = frozenset({NoneType, bool, int, float, str})
_TEXTS: Final[Mapping[type, Way]] = {
    datetime: datetime.fromisoformat,
    date: date.fromisoformat,
    time: time.fromisoformat,
}
"""Types written as ISO 8601, and how they are read."""


class UnknownShape(Exception):
    """Something was written with a class or a field that this release lacks."""


class Codec:
    """Writes and reads values of one annotation, which may be a union of classes.

    `shapes` None: those of this release. Raises UnknownShape if it cannot read the given ones.
    """

    def __init__(self, hint: Any, shapes: Shapes | None = None) -> None:
        self._given = shapes
        self.shapes: dict[str, tuple[str, ...]] = {}
        self._known: dict[type, tuple[Way, Way]] = {}
        self._write, self._read = self._ways(hint)

    def write(self, value: object) -> str:
        """Return the value as JSON; NaN is written as Python does."""
        return _encode(self._write(value))

    def read(self, text: str) -> Any:
        """Return the value that was written."""
        return self._read(json.loads(text))

    # --------------------------------------------------------------------------- by annotation

    def _ways(self, hint: Any) -> tuple[Way, Way]:
        """Return how a value of an annotation is converted to JSON values and back."""
        origin, arguments = get_origin(hint), get_args(hint)
        if origin in (Union, UnionType):
            return self._of_union(arguments)
        if origin is tuple and arguments[-1:] == (...,):
            write, read = self._ways(arguments[0])
            if write is _same:
                return list, tuple
            return lambda items: list(map(write, items)), lambda items: tuple(map(read, items))
        if origin is tuple:
            return self._of_row([self._ways(each) for each in arguments])
        if origin is frozenset:
            write, read = self._ways(arguments[0])
            return (
                lambda items: sorted(map(write, items)),
                lambda items: frozenset(map(read, items)),
            )
        if origin is not None and issubclass(origin, Mapping):
            # JSON only has text keys: others become pairs. The order of keys is kept.
            key, value = self._ways(arguments[0]), self._ways(arguments[1])
            if arguments[0] is str and value[0] is _same:
                return dict, _same
            write, read = self._of_row([key, value])
            return (
                lambda mapping: list(map(write, mapping.items())),
                lambda pairs: dict(map(read, pairs)),
            )
        return self._of_class(hint)

    def _of_class(self, hint: Any) -> tuple[Way, Way]:
        if hint in _PLAIN:
            return _same, _same
        if hint in _TEXTS:
            return lambda value: value.isoformat(), _TEXTS[hint]
        if hint is timedelta:
            return lambda span: span // _MICROSECOND, lambda count: timedelta(microseconds=count)
        if hint is range:
            return lambda span: [span.start, span.stop, span.step], lambda three: range(*three)
        if isinstance(hint, type) and issubclass(hint, Enum):
            return lambda member: member.value, hint
        if is_dataclass(hint) and isinstance(hint, type):
            return self._of_dataclass(hint)
        raise TypeError(f"{hint} can't be recorded: say in its codec how")

    @staticmethod
    def _of_row(ways: list[tuple[Way, Way]]) -> tuple[Way, Way]:
        writes, reads = [write for write, _ in ways], [read for _, read in ways]
        return (
            lambda row: [write(value) for write, value in zip(writes, row, strict=True)],
            lambda row: tuple(read(value) for read, value in zip(reads, row, strict=True)),
        )

    def _of_union(self, options: tuple[Any, ...]) -> tuple[Way, Way]:
        """JSON values stay as they are; dataclasses are told apart by name."""
        kinds = [each for each in options if each not in _PLAIN]
        if not kinds:
            return _same, _same
        plain = set(options) - set(kinds) - {NoneType}
        if plain or (len(kinds) > 1 and not all(map(is_dataclass, kinds))):
            raise TypeError(f"{options}: JSON can't tell these apart")
        if len(kinds) == 1 and not _below(kinds[0]):
            write, read = self._ways(kinds[0])
            return (
                lambda value: None if value is None else write(value),
                lambda plain: None if plain is None else read(plain),
            )
        every = dict.fromkeys(each for kind in kinds for each in (kind, *_below(kind)))
        ways = {each: self._of_dataclass(each) for each in every}
        names = {each.__name__: read for each, (_, read) in ways.items()}

        def write_named(value: object) -> object:
            if value is None:
                return None
            return [type(value).__name__, *ways[type(value)][0](value)]

        def read_named(plain: Any) -> object:
            if plain is None:
                return None
            if plain[0] not in names:
                raise UnknownShape(f"a {plain[0]}")
            return names[plain[0]](plain[1:])

        return write_named, read_named

    # ---------------------------------------------------------------------------- a dataclass

    def _of_dataclass(self, kind: type) -> tuple[Way, Way]:
        if kind not in self._known:
            self._known[kind] = (_same, _same)  # none of our types contains itself
            self._known[kind] = self._made(kind)
        return self._known[kind]

    def _made(self, kind: type) -> tuple[Way, Way]:
        hints, own = get_type_hints(kind), [each for each in fields(kind) if each.init]
        names = tuple(each.name for each in own)
        needed = {e.name for e in own if e.default is MISSING and e.default_factory is MISSING}
        assert self.shapes.setdefault(kind.__name__, names) == names, f"two are called {kind}"
        stored = names if self._given is None else self._given.get(kind.__name__, names)
        ways = {name: self._ways(hints[name]) for name in names}
        if unknown := [name for name in stored if name not in names]:
            raise UnknownShape(f"a {kind.__name__} with {', '.join(unknown)}")
        if missing := [name for name in names if name in needed and name not in stored]:
            raise UnknownShape(f"a {kind.__name__} without {', '.join(missing)}")
        special = [(at, ways[name][0]) for at, name in enumerate(names) if ways[name][0] != _same]
        get = attrgetter(*names) if len(names) > 1 else None
        reads = [(name, ways[name][1]) for name in stored]

        def write(value: object) -> list[object]:
            row = list(get(value)) if get else [getattr(value, names[0])]
            for at, write_one in special:
                row[at] = write_one(row[at])
            return row

        def read(row: list[object]) -> object:
            pairs = zip(reads, row, strict=True)
            return kind(**{name: read_one(plain) for (name, read_one), plain in pairs})

        return write, read


def _same(value: Any) -> Any:
    return value


def _below(kind: Any) -> tuple[type, ...]:
    """The concrete classes that a value of a dataclass may have."""
    found = kind.__subclasses__() if is_dataclass(kind) and isinstance(kind, type) else ()
    return tuple(each for direct in found for each in (direct, *_below(direct)))


_encode: Final = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
