"""The first call of a replay with another result: both sides, complete and in words.

Entries equal on both sides at the start and the end of the call are left out. Accounts are masked,
as this is shown.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from enum import StrEnum
from itertools import zip_longest
from typing import Final

from bot.domain.account import masked_account
from bot.domain.entry import CheckResult, Decision
from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.message import Command, Event, Record
from bot.domain.visible import visible

ABOUT: Final = frozenset(
    {"strategy", "symbol", "verdict", "code", "why", "intent_id", "order_id", "kind", "text"}
)
"""Fields that say what an entry is about."""
WORTH_SAYING: Final = ABOUT | {
    *("side", "quantity", "price", "limit_price", "state", "from_state", "to_state", "reason")
}
"""Fields reported to a person even if they do not differ."""
IN_FRONT: Final = frozenset(
    {"at", "strategy", "symbol", "verdict", "code", "why", "side", "quantity", "price"}
)
"""Fields of a decision with which its sentence begins."""
VALUE_MAX, TOLD_MAX = 80, 300
"""Longest value, and longest line for a person, in characters."""
_CAPITAL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_WRAPPED: Final = re.compile(r"^(?:intent|quote|depth|snapshot|numbers) (?=.)")
"""A path before a value that adds nothing for a person."""
_IN_UTC: Final = re.compile(r"[0-9-]{10}T[0-9:.]{8,15}\+00:00")


@dataclass(frozen=True, slots=True)
class Told:
    """A difference for a person: local times, and the figures that differ; long texts are cut."""

    event: str
    recorded: tuple[str, ...]
    now: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """The first call with another result: its input, and both sides, complete."""

    number: int
    at: datetime
    event: str
    recorded: tuple[str, ...]
    now: tuple[str, ...]
    told: Told


def difference_of(
    number: int,
    at: datetime,
    heard: Event | str,
    recorded: Sequence[Command],
    now: Sequence[Command],
    accounts: Collection[str],
) -> Difference:
    """Describe the difference; `heard` is an event, or the kind of a call without one. Masked are
    `accounts`, and those that the call itself names.
    """
    named = {
        value
        for each in (heard, *recorded, *now)
        for name, value in _leaves(each)
        if isinstance(value, str) and value and name.endswith("account")
    }

    def masked(text: str) -> str:
        for account in sorted(named.union(accounts), key=len, reverse=True):
            text = text.replace(account, masked_account(account))
        return text

    while recorded and now and recorded[0] == now[0]:
        recorded, now = recorded[1:], now[1:]
    while recorded and now and recorded[-1] == now[-1]:
        recorded, now = recorded[:-1], now[:-1]
    pairs = list(zip_longest(map(_entry_of, recorded), map(_entry_of, now)))
    back = [(other, one) for one, other in pairs]
    return Difference(
        number,
        at,
        masked(heard if isinstance(heard, str) else _shown(heard)),
        recorded=tuple(masked(_words_of(one, other)) for one, other in pairs if one is not None),
        now=tuple(masked(_words_of(one, other)) for one, other in back if one is not None),
        told=Told(
            heard.replace("_", " ") if isinstance(heard, str) else _told(heard, None, masked),
            tuple(_told(one, other, masked) for one, other in pairs if one is not None),
            tuple(_told(one, other, masked) for one, other in back if one is not None),
        ),
    )


def _entry_of(command: Command) -> object:
    return command.entry if isinstance(command, Record) else command


# --------------------------------------------------------------------------------- for a person


def _told(one: object, other: object, masked: Callable[[str], str]) -> str:
    """Return a sentence: what it is about and, compared with `other` of its kind, the figures that
    differ. Accounts are masked before a text is cut, so that no part of one is left.
    """
    leaves, others = dict(_leaves(one)), dict(_leaves(other))
    is_alike = type(one) is type(other)
    named = [
        f"{_WRAPPED.sub('', name).replace('_', ' ')} {_value(value, masked)}"
        for name, value in leaves.items()
        if value is not None and not (isinstance(one, Decision) and name in IN_FRONT)
        if not (is_alike and others.get(name) == value) or name.split()[-1] in WORTH_SAYING
    ]
    if isinstance(one, Decision):
        said = f"{_value(one.at, masked)} {one.strategy} {one.symbol} {verdict_words(one)}"
        said += f": {_value(one.why, masked)}" if one.why else ""
        said += f" ({', '.join(named)})" if named else ""
    else:
        said = f"{_CAPITAL.sub(' ', type(one).__name__).lower()}: {', '.join(named)}"
    return said if len(said) <= TOLD_MAX else f"{said[:TOLD_MAX]} …"


def verdict_words(decision: Decision) -> str:
    """`DENIED LOT BUY 150 at 27,000`, as far as it is about an order."""
    code = "" if decision.code == decision.verdict else f" {decision.code}"
    words = f"{decision.verdict}{code}"
    if decision.side is not None:
        words += f" {decision.side} {decision.quantity or 0:,}"
        words += f" at {decision.price:,}" if decision.price else ""
    return words


def _leaves(value: object, name: str = "") -> Iterator[tuple[str, object]]:
    """Yield the parts of a value, each with its path: `intent quantity`."""
    held: Iterator[tuple[object, object]]
    if isinstance(value, CheckResult):
        if value.passed:
            return  # the side on which it failed names it
        yield name, f"failed {value.text}".strip()
        held = iter(value.numbers.items())
    elif is_dataclass(value):
        held = ((each.name, getattr(value, each.name)) for each in fields(value))
    elif isinstance(value, Mapping):
        held = iter(value.items())
    elif isinstance(value, tuple | list):
        codes = (each.code if isinstance(each, CheckResult) else "" for each in value)
        held = (
            (code or at, each) for at, (code, each) in enumerate(zip(codes, value, strict=True), 1)
        )
    else:
        yield name, value
        return
    for key, each in held:
        yield from _leaves(each, f"{name} {key}".strip())


def _value(value: object, masked: Callable[[str], str]) -> str:
    if isinstance(value, datetime):
        return f"{value.astimezone(EXCHANGE_TZ):%H:%M:%S.%f}"[:-3].removesuffix(".000")
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    text = visible(masked(str(value)))
    if _IN_UTC.fullmatch(text):  # what a decision saw stores its times as text
        return _value(datetime.fromisoformat(text), masked)
    return text if len(text) <= VALUE_MAX else f"{text[:VALUE_MAX]}…"


# ------------------------------------------------------------------------------------- the whole


def _words_of(one: object, other: object) -> str:
    """Describe an entry by what it is about and, compared with `other` of its kind, by the
    differences.
    """
    assert is_dataclass(one), "commands and entries are frozen values"
    names = [each.name for each in fields(one)]
    if type(one) is type(other):
        names = [
            name for name in names if name in ABOUT or getattr(one, name) != getattr(other, name)
        ]
    said = ", ".join(f"{name}={_shown(getattr(one, name))}" for name in names)
    return f"{type(one).__name__}({said})"


def _shown(value: object) -> str:
    """Format a value: times in exchange time, without anything that is None."""
    if isinstance(value, StrEnum):
        return str(value)
    if isinstance(value, datetime):
        return value.astimezone(EXCHANGE_TZ).isoformat(" ", "milliseconds").removesuffix("+07:00")
    if isinstance(value, tuple):
        return f"({', '.join(map(_shown, value))})"
    if not is_dataclass(value):
        return repr(value)
    held = ((each.name, getattr(value, each.name)) for each in fields(value))
    said = ", ".join(f"{name}={_shown(found)}" for name, found in held if found is not None)
    return f"{type(value).__name__}({said})"
