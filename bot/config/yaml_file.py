"""Reads a YAML file as YAML 1.2, and remembers where everything stands.

`14:20`, `NO` and `on` are text, as they look. A plain number with a leading zero is text too: other
readers of YAML take `0123` for octal, so no number is made of it. Refused with line and column:
duplicate keys, tabs, tags, merge keys, many anchors, large and deep files. Lines that are quoted in
a message have what looks like a secret masked.
"""

import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    NodeEvent,
)
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from bot.config.masking import masked_line
from bot.config.problems import OperatorMistake, Problem

BYTES_MAX: Final = 200_000
"""With the limits below this keeps the worst file under a second of reading."""
ANCHORS_MAX: Final = 100
DEPTH_MAX: Final = 20
NODES_MAX: Final = 5_000

_CORE: Final = "tag:yaml.org,2002:"
_INTEGER: Final = re.compile(r"[-+]?(0|[1-9][0-9]*(_[0-9]+)*)")
_DECIMAL: Final = re.compile(
    r"[-+]?((0|[1-9][0-9]*)?\.[0-9]+|(0|[1-9][0-9]*)\.)([eE][-+]?[0-9]{1,3})?"
)
_WORDS: Final = {"": None, "~": None, "null": None, "true": True, "false": False}
_KNOWN_TAGS: Final = frozenset(
    _CORE + name
    for name in ["str", "int", "float", "bool", "null", "map", "seq", "timestamp", "value"]
)

Location = tuple[str | int, ...]
"""The keys and indexes that lead to a value, like `("order", "size", "shares")`."""


@dataclass(frozen=True, slots=True)
class Span:
    """Where a key or a value stands; line and column from 1."""

    line: int
    column: int
    width: int = 1


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """One file: its data (dict, list, str, int, float, bool, None) and where each part of it is."""

    name: str
    text: str
    data: dict[str, object]
    keys: Mapping[Location, Span] = field(default_factory=dict)
    values: Mapping[Location, Span] = field(default_factory=dict)

    def position(self, location: Location) -> tuple[int, int]:
        """Return line and column of a value; of what is missing, those of its parent's key."""
        span = self.values.get(location) or self._nearest_key(location)
        return span.line, span.column

    def at_key(self, code: str, message: str, location: Location, hint: str = "") -> Problem:
        """Return a problem that points at a key, or at its nearest parent."""
        return self._problem(code, message, self._nearest_key(location), hint)

    def at_value(self, code: str, message: str, location: Location, hint: str = "") -> Problem:
        """Return a problem that points at a value, or, when it is missing, at its parent's key."""
        if location in self.values:
            return self._problem(code, message, self.values[location], hint)
        return self.at_key(code, message, location, hint)

    def _nearest_key(self, location: Location) -> Span:
        """Return where the innermost part stands that is written: a key, or an item of a list."""
        parents = (location[:length] for length in range(len(location), 0, -1))
        found = (
            self.values.get(each) if isinstance(each[-1], int) else self.keys.get(each)
            for each in parents
        )
        return next((span for span in found if span is not None), Span(1, 1))

    def _problem(self, code: str, message: str, span: Span, hint: str) -> Problem:
        snippet = snippet_of(self.text, span, hint)
        return Problem(code, message, self.name, span.line, span.column, snippet)


def shown_path(path: Path) -> str:
    """Return a path as a message shows it: relative when it lies below the working directory."""
    absolute = path.absolute()
    here = Path.cwd()
    return str(absolute.relative_to(here)) if absolute.is_relative_to(here) else str(absolute)


def read_yaml(path: Path) -> YamlDocument:
    """Read a file that holds one mapping. Raises OperatorMistake with all that is wrong in it."""
    return parse_yaml(read_text(path), shown_path(path))


def read_text(path: Path) -> str:
    """Return the text of a file. Raises OperatorMistake when that cannot be had."""
    name = shown_path(path)
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise _mistake("E-CFG-001", "wanted a plain file; found a pipe or a device", name)
            raw = file.read(BYTES_MAX + 1)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise _mistake("E-CFG-001", f"cannot read this file: {reason}", name) from error
    if len(raw) > BYTES_MAX:
        message = f"too large: a configuration file has at most {BYTES_MAX:,} bytes"
        raise _mistake("E-CFG-007", message, name)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise _mistake("E-CFG-010", "not UTF-8 text; save it as UTF-8", name, line) from error


def _without_waiting(path: str, flags: int) -> int:
    """Open a file; a pipe that nobody writes to is not waited for."""
    return os.open(path, flags | os.O_NONBLOCK)


def parse_yaml(text: str, name: str) -> YamlDocument:
    """Parse text that holds one mapping. Raises OperatorMistake with all that is wrong in it."""
    try:
        root = _composed(_checked_events(text, name))
    except MarkedYAMLError as error:
        raise OperatorMistake((_syntax(error, text, name),)) from error
    except YAMLError as error:
        raise _mistake("E-CFG-002", f"not YAML: {_first_line(error)}", name, 1) from error
    if not isinstance(root, MappingNode):
        message = "wanted keys and values, like 'name: my-strategy'; found "
        found = "nothing" if root is None else "something else"
        raise _mistake("E-CFG-008", message + found, name, 1)
    return _Builder(text, name).document(root)


def snippet_of(text: str, span: Span, hint: str = "") -> str:
    """Return the line with the one before it, and carets under what is meant."""
    lines = ["", *text.replace("\t", " ").splitlines()]
    quoted = [
        f"{number:>4} | {masked_line(lines[number], lines[number - 1])}".rstrip()
        for number in (span.line - 1, span.line)
        if 1 <= number < len(lines) and (number == span.line or lines[number].strip())
    ]
    carets = " " * (span.column - 1) + "^" * span.width
    return "\n".join([*quoted, f"     | {carets} {hint}".rstrip()]) if quoted else ""


def _mistake(code: str, message: str, name: str, line: int | None = None) -> OperatorMistake:
    return OperatorMistake((Problem(code, message, name, line, line and 1),))


def _first_line(error: YAMLError) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _syntax(error: MarkedYAMLError, text: str, name: str) -> Problem:
    mark = error.problem_mark or error.context_mark
    span = Span(mark.line + 1, mark.column + 1) if mark else Span(1, 1)
    what = ", ".join(str(part) for part in (error.context, error.problem) if part)
    code, message = "E-CFG-002", f"not YAML: {what}"
    if "undefined alias" in what:
        message = "an alias (*name) without its anchor; text that begins with * goes in quotes"
    if "\\t" in what or _has_tab_indent(text, span.line):
        code, message = "E-CFG-004", "tab character: indent with spaces"
        span = _first_tab(text, span)
    return Problem(code, message, name, span.line, span.column, snippet_of(text, span))


def _has_tab_indent(text: str, line: int) -> bool:
    lines = text.splitlines()
    return line <= len(lines) and bool(re.match(r" *\t", lines[line - 1]))


def _first_tab(text: str, span: Span) -> Span:
    lines = text.splitlines()
    column = lines[span.line - 1].find("\t") if span.line <= len(lines) else -1
    return Span(span.line, column + 1) if column >= 0 else span


def _checked_events(text: str, name: str) -> list[Event]:
    """Walk the events, which takes no recursion, before anything is built of them."""
    depth = nodes = anchors = 0
    events: list[Event] = []
    for event in YAML(typ="safe", pure=True).parse(text):
        events.append(event)
        line = event.start_mark.line + 1
        if isinstance(event, DocumentStartEvent) and event.version not in {None, (1, 2)}:
            raise _mistake("E-CFG-002", "not YAML 1.2: take the %YAML line away", name, line)
        depth += isinstance(event, CollectionStartEvent)
        depth -= isinstance(event, CollectionEndEvent)
        nodes += isinstance(event, NodeEvent)
        anchors += isinstance(event, NodeEvent) and event.anchor is not None
        anchors -= isinstance(event, AliasEvent)
        if anchors > ANCHORS_MAX:
            raise _mistake("E-CFG-005", f"more than {ANCHORS_MAX} anchors", name, line)
        if depth > DEPTH_MAX:
            raise _mistake("E-CFG-007", f"more than {DEPTH_MAX} levels deep", name, line)
        if nodes > NODES_MAX:
            raise _mistake("E-CFG-007", f"more than {NODES_MAX:,} values", name, line)
    return events


def _composed(events: Sequence[Event]) -> Node | None:
    """Make nodes of the events; the text is not scanned a second time."""
    yaml = YAML(typ="safe", pure=True)
    yaml.Parser = partial(_Replay, events)
    root: Node | None = yaml.composer.get_single_node()
    return root


class _Replay:
    """Stands where a composer looks for a parser, and hands out events that are there already."""

    def __init__(self, events: Sequence[Event], *, loader: YAML) -> None:
        self.loader = loader
        self._events = events
        self._at = 0

    def check_event(self, *kinds: type[Event]) -> bool:
        """Tell whether the next event is of one of these kinds."""
        return isinstance(self._events[self._at], kinds)

    def peek_event(self) -> Event:
        """Return the next event and leave it there."""
        return self._events[self._at]

    def get_event(self) -> Event:
        """Return the next event."""
        self._at += 1
        return self._events[self._at - 1]


class _Builder:
    """Makes data of nodes; collects all problems on the way."""

    def __init__(self, text: str, name: str) -> None:
        self._text = text
        self._name = name
        self._keys: dict[Location, Span] = {}
        self._values: dict[Location, Span] = {}
        self._problems: list[Problem] = []
        self._nodes = 0

    def document(self, root: MappingNode) -> YamlDocument:
        data = self._mapping(root, ())
        if self._problems:
            raise OperatorMistake(self._problems)
        return YamlDocument(self._name, self._text, data, self._keys, self._values)

    def _value(self, node: Node, location: Location) -> object:
        self._nodes += 1
        if self._nodes > NODES_MAX or len(location) > DEPTH_MAX:
            message = f"its anchors unfold to more than {NODES_MAX:,} values or {DEPTH_MAX} levels"
            raise _mistake("E-CFG-005", message, self._name, _span(node).line)
        self._values[location] = _span(node)
        if str(node.tag) not in _KNOWN_TAGS:
            self._complain(
                "E-CFG-006", f"the tag {_tag(node)} is not allowed: plain values only", node
            )
            return None
        if isinstance(node, MappingNode):
            return self._mapping(node, location)
        if isinstance(node, SequenceNode):
            return [self._value(item, (*location, i)) for i, item in enumerate(node.value)]
        return _scalar(node)

    def _mapping(self, node: MappingNode, location: Location) -> dict[str, object]:
        data: dict[str, object] = {}
        for key, value in self._entries(node):
            here = (*location, key.value)
            if key.value in data:
                first = self._keys[here].line
                self._complain(
                    "E-CFG-003", f"duplicate key {key.value!r}: it is on line {first} already", key
                )
                continue
            self._keys[here] = _span(key)
            data[key.value] = self._value(value, here)
            if isinstance(value, ScalarNode) and value.style is None and value.value == "":
                mark = key.end_mark  # nothing stands there; the parser names what comes next
                self._values[here] = Span(mark.line + 1, mark.column + 2)
        return data

    def _entries(self, node: MappingNode) -> Iterable[tuple[ScalarNode, Node]]:
        for key, value in node.value:
            if not isinstance(key, ScalarNode):
                self._complain("E-CFG-002", "a key is a word, not a list or a mapping", key)
            elif key.tag == _CORE + "merge" and key.style is None:
                self._complain("E-CFG-005", "'<<' is not allowed: write the keys out", key)
            else:
                yield key, value

    def _complain(self, code: str, message: str, node: Node) -> None:
        span = _span(node)
        snippet = snippet_of(self._text, span)
        problem = Problem(code, message, self._name, span.line, span.column, snippet)
        self._problems.append(problem)


def _span(node: Node) -> Span:
    start, end = node.start_mark, node.end_mark
    is_one_line = isinstance(node, ScalarNode) and end.line == start.line
    width = max(1, end.column - start.column) if is_one_line else 1
    return Span(start.line + 1, start.column + 1, width)


def _tag(node: Node) -> str:
    return str(node.tag).replace(_CORE, "!!")


def _scalar(node: Node) -> object:
    text = str(node.value)
    if getattr(node, "style", None) is not None or node.tag == _CORE + "str":
        return text
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _DECIMAL.fullmatch(text) else text
