"""Saves the state of a sandbox to disk, so that a start does not replay its whole ledger.

A checkpoint is a file beside its ledger and records the part it covers: the number of lines and
bytes, and their SHA-256. It is written under another name, synced and renamed; the previous one is
kept. A start loads the newest good one and replays the rest of the ledger. One that is torn, or of
another ledger, scenario, rulebook, program or Python, is ignored and logged: the ledger alone is
authoritative, and it gives the same state.

The state is pickled. Objects of the scenario and the rulebook are stored by name only, so the file
contains no secret. Unpickling may create only our own classes and a few standard library values and
calls nothing else: nothing that our modules import, that our classes inherit from others, or that
touches the disk or the network. A faster start is not worth running code that a file names.

A checkpoint only saves time: if none can be read or written, the ledger works without it.
"""

import io
import json
import logging
import os
import pickle
import sys
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, is_dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import cache, cached_property, partial
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from random import Random
from types import MethodType
from typing import Any, Final, Generic, TypeVar
from zoneinfo import ZoneInfo

from bot.domain.rulebook import Rulebook
from bot.sandbox.house.ledger import Mark, digest_of
from bot.sandbox.house.two_factor import Given
from bot.sandbox.scenario import Scenario

CHECKPOINT_EVERY: Final = 5_000
"""Minimum number of ledger lines between two checkpoints: half a second of replay."""
_PART_MIN: Final = 8
"""A checkpoint takes longer the larger the state, so the next one waits for an eighth of the
ledger.
"""
CODE: Final = "code"
"""Name of the external object that the code issuer was given."""
_MAGIC: Final = b"vnbot sandbox checkpoint 1\n"
_DIGEST_BYTES: Final = sha256().digest_size
_PARTS: Final = ("sandbox", "domain", "protocol")
"""The parts of the program whose classes occur in a state."""
_OURS: Final = tuple(f"bot.{part}." for part in _PARTS)
_NO_STATE: Final = ("bot.sandbox.api.", "bot.sandbox.house.ledger", "bot.sandbox.serve", __name__)
"""Modules of these parts whose classes touch the disk or the network."""
_VALUES: Final[Mapping[tuple[str, str], object]] = {
    (kind.__module__, kind.__qualname__): kind
    for kind in (
        range,
        date,
        datetime,
        time,
        timedelta,
        timezone,
        Decimal,
        Fraction,
        Random,
        partial,
        deque,
    )
}
_UNREADABLE: Final = (
    *(OSError, pickle.UnpicklingError, ArithmeticError, AttributeError, EOFError, ImportError),
    *(LookupError, MemoryError, TypeError, ValueError),
)
"""What unpickling a file that this program has not written may raise."""
T = TypeVar("T")
_LOG: Final = logging.getLogger(__name__)


class _Ignored(Exception):
    """A checkpoint that is not used; the text says why."""


@dataclass(frozen=True, slots=True)
class Kept(Generic[T]):
    """A state, and the place in the ledger to which it belongs."""

    state: T
    mark: Mark


class Checkpoints(Generic[T]):
    """The checkpoints of one ledger. The pickled state refers to `outside` objects by name only."""

    def __init__(
        self,
        ledger: Path,
        outside: Mapping[str, object],
        *,
        identity: Callable[[], str],
        every: int,
    ) -> None:
        self._ledger = ledger
        self._newest = ledger.with_name(ledger.name + ".checkpoint")
        self._older = ledger.with_name(ledger.name + ".checkpoint.old")
        self._unfinished = ledger.with_name(ledger.name + ".checkpoint.new")
        self._outside = outside
        self._make_identity = identity
        self._every = every
        self._last = 0

    @cached_property
    def _identity(self) -> str:
        """Computed on first use: a short demo never needs it."""
        return self._make_identity()

    def is_due(self, lines: int) -> bool:
        """Return whether a ledger of so many lines has grown enough since the last checkpoint."""
        return lines - self._last >= max(self._every, lines // _PART_MIN)

    def load(self) -> Kept[T] | None:
        """Return the newest good checkpoint."""
        for path in (self._newest, self._older):
            if not path.exists():
                continue
            try:
                found = self._read(path)
            except (_Ignored, *_UNREADABLE) as why:
                _LOG.warning("checkpoint_ignored file=%s why=%s", path.name, why)
            else:
                self._last = found.mark.lines
                return found
        return None

    def _read(self, path: Path) -> Kept[T]:
        content = path.read_bytes()
        body = content[:-_DIGEST_BYTES]
        if not body.startswith(_MAGIC) or sha256(body).digest() != content[-_DIGEST_BYTES:]:
            raise _Ignored("torn or damaged")
        head, _, state = body[len(_MAGIC) :].partition(b"\n")
        said = json.loads(head)
        if said.pop("identity") != self._identity:
            raise _Ignored("of another scenario, rulebook or program")
        mark = Mark(**said)
        if digest_of(self._ledger, mark.size) != mark.sha256:
            raise _Ignored("of another ledger")
        return Kept(_Reader(state, self._outside).load(), mark)

    def save(self, state: T, mark: Mark) -> None:
        """Write a checkpoint if the disk allows; the ledger up to `mark` is already on disk."""
        self._last = mark.lines
        try:
            self._write(state, mark)
        except OSError as error:
            _LOG.warning("checkpoint_not_written why=%s", error.strerror)
            with suppress(OSError):
                self._unfinished.unlink(missing_ok=True)

    def _write(self, state: T, mark: Mark) -> None:
        head = json.dumps({"identity": self._identity, **asdict(mark)})
        written = io.BytesIO()
        written.write(_MAGIC + head.encode() + b"\n")
        _Writer(written, self._outside).dump(state)
        written.write(sha256(written.getbuffer()).digest())
        writing = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with os.fdopen(os.open(self._unfinished, writing, 0o600), "wb") as file:
            file.write(written.getvalue())
            file.flush()
            os.fsync(file.fileno())
        if self._newest.exists():
            self._newest.replace(self._older)
        self._unfinished.replace(self._newest)
        folder = os.open(self._newest.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def clear(self) -> None:
        """Remove the checkpoints of a ledger that no longer exists."""
        for path in (self._newest, self._older, self._unfinished):
            path.unlink(missing_ok=True)


# ------------------------------------------------------------------------------------ identity


def identity_of(scenario: Scenario, rulebook: Rulebook, version: int) -> str:
    """Return a digest of everything that must be unchanged for a checkpoint to be used."""
    facts = (
        scenario.model_dump_json(),
        scenario.recording.digest,
        _canonical(rulebook),
        _program(),
        sys.version,
        str(version),
    )
    return sha256("\n".join(facts).encode()).hexdigest()


def _canonical(value: object) -> str:
    """Return a text that is the same in every process, whatever the order of sets."""
    match value:
        case Enum():
            return repr(value.value)
        case Mapping():
            return str(sorted((_canonical(key), _canonical(each)) for key, each in value.items()))
        case frozenset() | set():
            return str(sorted(map(_canonical, value)))
        case tuple() | list():
            return str(list(map(_canonical, value)))
    if is_dataclass(value):
        own = ((field.name, _canonical(getattr(value, field.name))) for field in fields(value))
        return type(value).__name__ + str(list(own))
    return repr(value)


@cache
def _program() -> str:
    """Return a digest of the modules whose classes a state contains, as they are now."""
    root, found = Path(__file__).parents[2], sha256()
    for part in _PARTS:
        for path in sorted((root / part).rglob("*.py")):
            found.update(path.read_bytes())
    return found.hexdigest()


# ------------------------------------------------------------------------------ reading, writing


class _Writer(pickle.Pickler):
    def __init__(self, file: io.BytesIO, outside: Mapping[str, object]) -> None:
        super().__init__(file, protocol=5)
        self._names = {id(each): name for name, each in outside.items()}

    def reducer_override(self, value: object) -> Any:
        name = CODE if isinstance(value, Given) else self._names.get(id(value))
        if name is not None:
            return _named, (name,)
        if isinstance(value, MethodType):
            return _method, (value.__self__, value.__name__)
        if isinstance(value, ZoneInfo):
            return _zone, (value.key,)
        if isinstance(value, Enum):  # CPython 3.11.2 would have it found by getattr
            return type(value), (value.value,)
        return NotImplemented


class _Reader(pickle.Unpickler):
    """Creates our own classes and a few values, and nothing else."""

    def __init__(self, content: bytes, outside: Mapping[str, object]) -> None:
        super().__init__(io.BytesIO(content))
        self._outside = outside

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _VALUES:
            return _VALUES[module, name]
        found: object = None
        if module == __name__:
            makers = {"_named": self._outside.__getitem__, "_method": _method, "_zone": _zone}
            found = makers.get(name)
        elif module.startswith(_OURS) and not module.startswith(_NO_STATE):
            found = getattr(import_module(module), name, None)
            if not isinstance(found, type) or found.__module__ != module:
                found = None
        if found is None:
            raise pickle.UnpicklingError(f"{module}.{name} has no place in a checkpoint")
        return found


def _named(_: str) -> object:
    raise AssertionError("a reader puts what is outside in this one's place")


def _method(owner: object, name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(owner, name)
    if not isinstance(found, MethodType) or not found.__func__.__module__.startswith(_OURS):
        raise pickle.UnpicklingError(f"{name} is no method of ours")
    return found


def _zone(key: str) -> ZoneInfo:
    return ZoneInfo(key)
