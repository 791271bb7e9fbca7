"""Removes secrets, by value and by form, from errors and from what libraries log.

Python's report of an uncaught exception shows no variables, but its message may quote anything.
Libraries log requests and statements at detailed levels; that is never allowed, whatever level a
plug-in sets for itself.
"""

import base64
import logging
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from datetime import date
from functools import cache
from types import TracebackType
from typing import Final
from urllib.parse import quote

from bot.domain.account import masked_account, masked_scope
from bot.protocol.secret import HIDDEN, Secret, redact

LOUD: Final = (
    *("httpx", "httpcore", "h11", "sqlalchemy", "sqlalchemy.engine", "sqlalchemy.pool"),
    *("psycopg", "alembic", "asyncio", "apscheduler", "uvicorn", "uvicorn.access"),
)
"""Loggers that log requests, statements and their values at INFO or DEBUG."""
SHORTEST: Final = 4
"""Shortest secret searched for: a shorter one occurs in every other word."""

_MASKED: Final = {"account": masked_account, "scope": masked_scope}
"""Fields that name an account."""

Secrets = Callable[[], Iterable[Secret | None]]
Write = Callable[[str], object]


class Hiding:
    """Makes values fit for logging. `known` returns the present secrets; a code used an hour ago is
    still secret, so everything known once stays hidden until the end.
    """

    def __init__(self, known: Secrets) -> None:
        self._known = known
        self._forms: dict[str, tuple[str, ...]] = {}

    def plain(self, value: object, name: str = "") -> object:
        """Return a value for JSON, with no secret in any text of it."""
        self._learn()
        return self._plain(value, name)

    def text(self, text: str) -> str:
        """Return a text without secrets."""
        self._learn()
        return self._hidden(text)

    def _plain(self, value: object, name: str = "") -> object:
        if isinstance(value, str):
            masked = _MASKED.get(name, str)
            return self._hidden(masked(value))
        if value is None or isinstance(value, int | float):
            return value
        if isinstance(value, date):
            return value.isoformat()
        if isinstance(value, Mapping):
            return {self._hidden(str(key)): self._plain(it, str(key)) for key, it in value.items()}
        if is_dataclass(value) and not isinstance(value, type):
            return {it: self._plain(getattr(value, it), it) for it in _names_of(type(value))}
        if isinstance(value, Sequence | frozenset | set):
            return [self._plain(each) for each in value]
        return self._hidden(str(value))

    def _learn(self) -> None:
        """Take in the present secrets; forms are computed once for each value."""
        for secret in self._known():
            value = secret.reveal() if secret is not None else ""
            if len(value) >= SHORTEST and value not in self._forms:
                self._forms[value] = tuple(forms_of(value))

    def _hidden(self, text: str) -> str:
        for value, forms in tuple(self._forms.items()):  # another thread may add one meanwhile
            if len(value) > len(text):
                continue  # no form of it is shorter than the secret itself
            for form in forms:
                if form in text:
                    text = text.replace(form, HIDDEN)
        return redact(text)


@cache
def _names_of(kind: type) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind))


def forms_of(value: str) -> Iterator[str]:
    """Return a secret as it is, and as headers, addresses and dumps write it."""
    raw = value.encode()
    yield value
    for encoded in (base64.b64encode(raw), base64.urlsafe_b64encode(raw)):
        yield encoded.decode()
        yield encoded.decode().rstrip("=")
    yield raw.hex()
    yield raw.hex().upper()
    yield quote(value, safe="")


class HidesValues(logging.Filter):
    """Removes known secrets from every record, including its traceback. Lets all records pass."""

    def __init__(self, secrets: Secrets) -> None:
        super().__init__()
        self._hiding = Hiding(secrets)

    def filter(self, record: logging.LogRecord) -> bool:
        """Rewrite the record: its text and traceback are final here."""
        try:
            text = record.getMessage()
        except (TypeError, ValueError, KeyError):  # its values do not fit: no log call may raise
            text = f"{record.msg} {record.args}"
        record.msg, record.args = self._hiding.text(text), None
        if record.exc_info and record.exc_info[1] is not None:
            record.exc_text = self._hiding.text(trace_of(record.exc_info[1]))
        return True


@contextmanager
def hiding(secrets: Secrets) -> Iterator[None]:
    """Keep these secrets out of everything logged meanwhile; `secrets` returns the present ones."""
    hides, handlers = HidesValues(secrets), tuple(logging.getLogger().handlers)
    for handler in handlers:
        handler.addFilter(hides)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(hides)


def trace_of(error: BaseException) -> str:
    """Return the traceback of an exception, without secrets of a known form."""
    return redact("".join(traceback.format_exception(error)))


def words_of(error: BaseException) -> str:
    """Return kind and message of an exception, without secrets of a known form."""
    return redact(f"{type(error).__name__}: {error}")


def tell_without_secrets(write: Write) -> None:
    """From here on uncaught exceptions go to `write`, line by line, and noisy loggers
    are capped.
    """

    def told(
        kind: type[BaseException], error: BaseException | None, _: TracebackType | None
    ) -> None:
        text = trace_of(error) if error is not None else kind.__name__
        for line in text.splitlines():
            write(f"  {line}")

    def found_elsewhere(found: "threading.ExceptHookArgs | sys.UnraisableHookArgs") -> None:
        told(found.exc_type, found.exc_value, found.exc_traceback)

    sys.excepthook, threading.excepthook = told, found_elsewhere
    sys.unraisablehook = found_elsewhere
    for name in LOUD:
        logging.getLogger(name).setLevel(logging.WARNING)
