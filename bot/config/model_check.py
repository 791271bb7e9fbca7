"""Checks the data of a file against its model, and reports what is wrong as `Problem`s.

A problem points at an unknown key, at a wrong value, or at the parent's key if something is
missing.
"""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Final, get_args

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from bot.config.field_types import shown
from bot.config.problems import Problem
from bot.config.yaml_file import YamlDocument

_QUOTED: Final = re.compile(r"'([^']*)'")
_WANTED: Final[Mapping[str, str]] = {
    "dict_type": "keys and values",
    "model_type": "keys and values",
    "model_attributes_type": "keys and values",
    "list_type": "a list, like [a, b]",
    "tuple_type": "a list, like [a, b]",
    "frozen_set_type": "a list, like [a, b]",
}


class Section(BaseModel):
    """A mapping with fixed keys; no message quotes a secret in it."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class FileModel(Section):
    """The keys of a whole file. `not_yet` names keys of a later release and why they are refused
    today: accepting a key that nothing reads would be misleading.
    """

    not_yet: ClassVar[Mapping[str, str]] = {}


def problems_in(
    error: ValidationError, model: type[BaseModel], document: YamlDocument
) -> list[Problem]:
    """Return the problems of a failed check, in the order of the file's lines."""
    details = error.errors(include_url=False)
    return in_order(problem_of(detail, model, document) for detail in details)


def in_order(problems: Iterable[Problem]) -> list[Problem]:
    """Return problems of one file in the order of its lines."""
    return sorted(problems, key=lambda problem: (problem.line or 0, problem.column or 0))


def problem_of(detail: ErrorDetails, model: type[BaseModel], document: YamlDocument) -> Problem:
    location, kind = detail["loc"], detail["type"]
    code, message, hint = describe(detail, model)
    if kind == "extra_forbidden":
        return document.at_key(code, message, location, hint)
    if kind == "missing":
        return document.at_key(code, message, location[:-1], hint)
    return document.at_value(code, message, location, hint)


def describe(detail: ErrorDetails, model: type[BaseModel]) -> tuple[str, str, str]:
    """Return code, message and hint of one error."""
    location, kind = detail["loc"], detail["type"]
    name = dotted(location)
    if kind == "missing":
        return "E-CFG-011", f"missing key {str(location[-1])!r}{_under(location[:-1])}", ""
    later = model.not_yet if issubclass(model, FileModel) else {}
    if kind == "extra_forbidden" and len(location) == 1 and name in later:
        message = f"{name!r} has no effect in this release: {later[name]}"
        return "E-CFG-028", message, "remove this key"
    if kind == "extra_forbidden":
        hint = did_you_mean(str(location[-1]), known_keys(model, location[:-1]))
        known = ", ".join(known_keys(model, location[:-1]))
        where = _under(location[:-1])
        return "E-CFG-012", f"unknown key {str(location[-1])!r}{where}", hint or f"known: {known}"
    if kind in {"literal_error", "enum"}:
        words = _QUOTED.findall(str(detail.get("ctx", {}).get("expected", "")))
        found = detail["input"]
        message = f"{name!r}: wanted one of {', '.join(words)}; found {shown(found)}"
        return "E-CFG-014", message, did_you_mean(str(found), words)
    if kind.startswith("E-"):
        return kind, f"{name!r}: {detail['msg']}" if name else detail["msg"], ""
    wanted = _WANTED.get(kind, detail["msg"])
    return "E-CFG-013", f"{name!r}: wanted {wanted}; found {shown(detail['input'])}", ""


def dotted(location: Sequence[str | int]) -> str:
    """Return `order.size.shares`, `symbols[1]`."""
    name = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in location)
    return name.removeprefix(".")


def did_you_mean(word: str, known: Sequence[str]) -> str:
    """Return a suggestion if a known word is close; else empty.

    Two swapped letters (FTP) are the likeliest typo; otherwise a word of three letters has many
    equally close neighbours.
    """
    by_lower, word = {each.lower(): each for each in known}, word.lower()
    places = reversed(range(len(word) - 1))
    swapped = (word[:at] + word[at + 1] + word[at] + word[at + 2 :] for at in places)
    close = [each for each in swapped if each in by_lower]
    close = close or difflib.get_close_matches(word, list(by_lower), n=1, cutoff=0.6)
    return f"did you mean {by_lower[close[0]]!r}?" if close else ""


def known_keys(model: type[BaseModel], location: Sequence[str | int]) -> tuple[str, ...]:
    """Return the keys that the model has at a place."""
    for step in location:
        if isinstance(step, int):
            continue
        if step not in model.model_fields:
            return ()
        inner = _model_in(model.model_fields[step].annotation)
        if inner is None:
            return ()
        model = inner
    return tuple(field.alias or name for name, field in model.model_fields.items())


def _model_in(annotation: object) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = (_model_in(argument) for argument in get_args(annotation))
    return next((each for each in found if each is not None), None)


def _under(location: Sequence[str | int]) -> str:
    return f" under {dotted(location)!r}" if location else ""
