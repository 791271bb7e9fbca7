"""What the doctor says of one thing: how it is, what was found, and what to do about it."""

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """How one thing is. A run is refused or soon in trouble with FAIL; WARN is for a person."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    SKIPPED = "skipped"
    """Not looked at: offline, or something that it needs has failed."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One row. `fix` is empty where nothing has to be done."""

    name: str
    verdict: Verdict
    found: str
    fix: str = ""


def ok(name: str, found: str) -> Finding:
    return Finding(name, Verdict.OK, found)


def warn(name: str, found: str, *, fix: str) -> Finding:
    return Finding(name, Verdict.WARN, found, fix)


def fail(name: str, found: str, *, fix: str) -> Finding:
    return Finding(name, Verdict.FAIL, found, fix)


def skipped(name: str, why: str) -> Finding:
    return Finding(name, Verdict.SKIPPED, why)
