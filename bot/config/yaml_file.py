"""Reads a YAML file as YAML 1.2, and records the place of everything in it.

`14:20`, `NO` and `on` are text, as they look. A plain number with a leading zero is text too: other
YAML readers take `0123` for octal, so it never becomes a number; nor does one with a `_` that is
not between thousands. Duplicate keys, tabs, tags, merge keys, many anchors, and large or deep files
are refused with line and column. Lines quoted in a message have possible secrets masked.
"""

import math
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
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
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceStartEvent,
)

from bot.config.field_types import INTEGER
from bot.config.masking import LINE_MAX, masked_line
from bot.config.problems import OperatorMistake, Problem, shown_path

BYTES_MAX: Final = 200_000
"""Together with the limits below, this keeps the worst file under a second of reading."""
ANCHORS_MAX: Final = 100
DEPTH_MAX: Final = 20
NODES_MAX: Final = 5_000
DIGITS_MAX: Final = 40
"""Longest number in digits; anything longer is text, as Python refuses to convert thousands."""

_CORE: Final = "tag:yaml.org,2002:"
_DECIMAL: Final = re.compile(
    r"[-+]?((0|[1-9][0-9]*)?\.[0-9]+|(0|[1-9][0-9]*)\.)([eE][-+]?[0-9]{1,3})?"
)
_THOUSANDS: Final = re.compile(r"[0-9]{3}")
_WORDS: Final = {"": None, "~": None, "null": None, "true": True, "false": False}
_PLAIN: Final = ("str", "int", "float", "bool", "null", "map", "seq", "timestamp", "value")
_KNOWN_TAGS: Final = frozenset({None, "!", *(_CORE + name for name in _PLAIN)})
"""None means no tag, `!` the default tag of the kind."""

Location = tuple[str | int, ...]
"""The keys and indexes that lead to a value, like `("order", "size", "shares")`."""


@dataclass(frozen=True, slots=True)
class Span:
    """Where a key or a value is; line and column from 1."""

    line: int
    column: int
    width: int = 1


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """One file: its data (dict, list, str, int, float, bool, None) and the place of each part."""

    name: str
    text: str
    data: dict[str, object]
    keys: Mapping[Location, Span] = field(default_factory=dict)
    values: Mapping[Location, Span] = field(default_factory=dict)
    empty: frozenset[Location] = frozenset()
    """Keys with nothing behind the colon; their data is None, as it is for a written null."""

    def position(self, location: Location) -> tuple[int, int]:
        """Return line and column of a value; if it is missing, those of its parent's key."""
        span = self.values.get(location) or self._nearest_key(location)
        return span.line, span.column

    def at_key(self, code: str, message: str, location: Location, hint: str = "") -> Problem:
        """Return a problem that points at a key, or at its nearest parent."""
        return _problem(code, message, self.name, self.text, self._nearest_key(location), hint)

    def at_value(self, code: str, message: str, location: Location, hint: str = "") -> Problem:
        """Return a problem that points at a value or, if it is missing, at its parent's key."""
        span = self.values.get(location) or self._nearest_key(location)
        return _problem(code, message, self.name, self.text, span, hint)

    def _nearest_key(self, location: Location) -> Span:
        """Return the location of the innermost part that exists: a key, or an item of a list."""
        for length in range(len(location), 0, -1):
            part = location[:length]
            span = (self.values if isinstance(part[-1], int) else self.keys).get(part)
            if span is not None:
                return span
        return Span(1, 1)


def read_yaml(path: Path) -> YamlDocument:
    """Read a file that holds one mapping. Raises OperatorMistake with all its problems."""
    return parse_yaml(read_text(path), shown_path(path))


def read_text(path: Path) -> str:
    """Return the text of a file. Raises OperatorMistake if it cannot be read."""
    name = shown_path(path)
    try:
        # O_NONBLOCK: do not wait on a pipe that nobody writes to.
        with open(path, "rb", opener=lambda file, flags: os.open(file, flags | os.O_NONBLOCK)) as f:
            if not stat.S_ISREG(os.fstat(f.fileno()).st_mode):
                raise _mistake("E-CFG-001", "wanted a regular file; found a pipe or a device", name)
            raw = f.read(BYTES_MAX + 1)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        if isinstance(error, IsADirectoryError):
            reason += f". Name the files in it, like {name}/*.yaml"
        elif isinstance(error, FileNotFoundError):
            alike = [path.with_suffix(end) for end in (".yaml", ".yml")]
            reason += "".join(f"; did you mean {each.name}?" for each in alike if each.is_file())
        raise _mistake("E-CFG-001", f"cannot read this file: {reason}", name) from error
    if len(raw) > BYTES_MAX:
        message = f"too large: a configuration file has at most {BYTES_MAX:,} bytes"
        raise _mistake("E-CFG-007", message, name)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise _mistake("E-CFG-010", "not UTF-8 text; save it as UTF-8", name, line) from error


def parse_yaml(text: str, name: str) -> YamlDocument:
    """Parse text that holds one mapping. Raises OperatorMistake with all its problems."""
    try:
        root = _tree(text, name)
    except MarkedYAMLError as error:
        what = ", ".join(str(part) for part in (error.context, error.problem) if part)
        mark, opened = error.problem_mark or error.context_mark, error.context_mark
        starts = ("unexpected end", "<stream end>", "a simple key")
        if opened and any(words in what for words in starts):
            mark = opened  # something never closed, or never a key, is reported where it begins
            what += "; a key is followed by a colon and a space" if "a simple key" in what else ""
        elif opened and mark and "a flow " in what and opened.line != mark.line:
            what += f"; it begins on line {opened.line + 1}"
        span = Span(mark.line + 1, mark.column + 1) if mark else Span(1, 1)
        code, message, lines = "E-CFG-002", f"not YAML: {what}", text.splitlines()
        line = lines[span.line - 1] if span.line <= len(lines) else ""
        if "\\t" in what or re.match(r" *\t", line):
            code, message = "E-CFG-004", "tab character: indent with spaces"
            span = Span(span.line, line.find("\t") + 1) if "\t" in line else span
        raise OperatorMistake([_problem(code, message, name, text, span)]) from error
    except YAMLError as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise _mistake("E-CFG-002", f"not YAML: {first}", name, 1) from error
    if root is None or not isinstance(root.event, MappingStartEvent):
        message = "wanted keys and values, like 'name: my-strategy'; found "
        found = "nothing" if root is None else "something else"
        raise _mistake("E-CFG-008", message + found, name, 1)
    return _Builder(text, name).document(root)


def snippet_of(text: str, span: Span, hint: str = "") -> str:
    """Return the line with the one before it, and carets under the part in question."""
    lines = ["", *text.replace("\t", " ").splitlines()]
    quoted = [
        f"{number:>4} | {masked_line(lines[number], lines[number - 1])}".rstrip()
        for number in (span.line - 1, span.line)
        if 1 <= number < len(lines) and (number == span.line or lines[number].strip())
    ]
    if span.column > LINE_MAX:
        return "\n".join(quoted)
    carets = " " * (span.column - 1) + "^" * span.width
    return "\n".join([*quoted, f"     | {carets} {hint}".rstrip()]) if quoted else ""


def _problem(code: str, message: str, name: str, text: str, span: Span, hint: str = "") -> Problem:
    return Problem(code, message, name, span.line, span.column, snippet_of(text, span, hint))


def _mistake(code: str, message: str, name: str, line: int | None = None) -> OperatorMistake:
    return OperatorMistake((Problem(code, message, name, line, line and 1),))


# ------------------------------------------------------------------------------------ the values


_Written = ScalarEvent | SequenceStartEvent | MappingStartEvent


@dataclass(frozen=True, slots=True)
class _Node:
    """A value as written; `parts` are a list's items, or a mapping's keys and values in turn."""

    event: _Written
    parts: list["_Node"] = field(default_factory=list)


def _span(event: Event) -> Span:
    start, end = event.start_mark, event.end_mark
    is_one_line = isinstance(event, ScalarEvent) and end.line == start.line
    width = max(1, end.column - start.column) if is_one_line else 1
    return Span(start.line + 1, start.column + 1, width)


def _bounded_events(text: str, name: str) -> Iterator[Event]:
    """Yield the parser's events as long as they are within the bounds."""
    depth = nodes = anchors = 0
    for event in YAML(typ="safe", pure=True).parse(text):
        line = event.start_mark.line + 1
        if isinstance(event, DocumentStartEvent) and event.version not in {None, (1, 2)}:
            raise _mistake("E-CFG-002", "not YAML 1.2: remove the %YAML line", name, line)
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
        yield event


def _tree(text: str, name: str) -> _Node | None:
    """Build the tree from the events; None if the text holds no value.

    An alias is the same node as its anchor. The library's own composer would scan the text again
    after the bounds were checked, and recurse without limit.
    """
    root: _Node | None = None
    opened: list[_Node] = []
    anchored: dict[str, _Node] = {}
    for event in _bounded_events(text, name):
        if isinstance(event, DocumentStartEvent) and root is not None:
            message = "a second document begins here: a file has only one"
            raise OperatorMistake([_problem("E-CFG-002", message, name, text, _span(event))])
        if isinstance(event, AliasEvent) and event.anchor not in anchored:
            message = "an alias (*name) without its anchor; text that begins with * needs quotes"
            raise OperatorMistake([_problem("E-CFG-002", message, name, text, _span(event))])
        if isinstance(event, AliasEvent):
            node = anchored[event.anchor]
        elif isinstance(event, _Written):
            node = _Node(event)
            if event.anchor is not None:
                anchored[event.anchor] = node
        else:
            if isinstance(event, CollectionEndEvent):
                opened.pop()
            continue
        if opened:
            opened[-1].parts.append(node)
        else:
            root = node
        if isinstance(event, CollectionStartEvent):
            opened.append(node)
    return root


class _Builder:
    """Builds data from nodes, collecting all problems on the way."""

    def __init__(self, text: str, name: str) -> None:
        self._text = text
        self._name = name
        self._keys: dict[Location, Span] = {}
        self._values: dict[Location, Span] = {}
        self._empty: set[Location] = set()
        self._problems: list[Problem] = []
        self._nodes = 0

    def document(self, root: _Node) -> YamlDocument:
        data = self._mapping(root, ())
        if self._problems:
            raise OperatorMistake(self._problems)
        empty = frozenset(self._empty)
        return YamlDocument(self._name, self._text, data, self._keys, self._values, empty)

    def _value(self, node: _Node, location: Location) -> object:
        self._nodes += 1
        if self._nodes > NODES_MAX or len(location) > DEPTH_MAX:
            message = f"its anchors expand to more than {NODES_MAX:,} values or {DEPTH_MAX} levels"
            raise _mistake("E-CFG-005", message, self._name, _span(node.event).line)
        event = node.event
        self._values[location] = _span(event)
        if event.tag not in _KNOWN_TAGS:
            tag = str(event.tag).replace(_CORE, "!!")
            self._complain("E-CFG-006", f"the tag {tag} is not allowed: plain values only", node)
            return None
        if isinstance(event, MappingStartEvent):
            return self._mapping(node, location)
        if isinstance(event, SequenceStartEvent):
            return [self._value(item, (*location, i)) for i, item in enumerate(node.parts)]
        text = str(event.value)
        if event.style is not None or event.tag == _CORE + "str":
            return text
        if text.lower() in _WORDS:
            return _WORDS[text.lower()]
        if len(text) > DIGITS_MAX:
            return text
        if INTEGER.fullmatch(text):
            return int(text)
        is_number = _DECIMAL.fullmatch(text) and math.isfinite(float(text))
        return float(text) if is_number else text

    def _mapping(self, node: _Node, location: Location) -> dict[str, object]:
        data: dict[str, object] = {}
        for key, value in zip(node.parts[::2], node.parts[1::2], strict=True):
            if not isinstance(key.event, ScalarEvent):
                self._complain("E-CFG-002", "a key must be a word, not a list or a mapping", key)
                continue
            name, here = key.event.value, (*location, key.event.value)
            if name == "<<" and key.event.tag is None and key.event.style is None:
                self._complain("E-CFG-005", "'<<' is not allowed: write the keys out", key)
                continue
            is_empty = isinstance(value.event, ScalarEvent) and value.event.value == ""
            if key.event.style is None and is_empty and _THOUSANDS.fullmatch(name):
                message = "a comma ends a value here: write a large number like 20_000_000"
                self._complain("E-CFG-002", message, key)
                break
            if name in data:
                line = self._keys[here].line
                message = f"duplicate key {name!r}: already on line {line}"
                self._complain("E-CFG-003", message, key)
                continue
            self._keys[here] = _span(key.event)
            data[name] = self._value(value, here)
            event = value.event
            if isinstance(event, ScalarEvent) and event.style is None and event.value == "":
                mark = key.event.end_mark  # the parser gives the position of the next token
                self._values[here] = Span(mark.line + 1, mark.column + 2)
                self._empty.add(here)
        return data

    def _complain(self, code: str, message: str, node: _Node) -> None:
        self._problems.append(_problem(code, message, self._name, self._text, _span(node.event)))
