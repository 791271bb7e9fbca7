"""Makes the decoder and encoder of a payload from the dataclass that it becomes.

A value's fields have types of `fields.py` or of other such dataclasses; nothing else is needed.
Reading is as tolerant as the document asks: unknown fields are ignored, null means absent, numbers
may be texts. Fields without a default are required: those that the document marks so, and those
that identify a row of a list. A missing field or a wrong type raises MalformedAnswer, naming call
and field. Adapters are built on first use, as there are about a hundred.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cache, partial
from typing import Any, Final, Generic, TypeVar, get_type_hints

from pydantic import GetCoreSchemaHandler, TypeAdapter, ValidationError, WrapSerializer
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, core_schema

from bot.protocol.endpoints.endpoint import Endpoint
from bot.protocol.envelope import Payload
from bot.protocol.errors import MalformedAnswer
from bot.protocol.fields import decimal_or_none, said_of

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Codec(Generic[T]):
    """Converts the payload of one call to a value and back.

    `decode` raises MalformedAnswer. `encode` returns what `envelope.seal` takes: every field of the
    document, null where the value has none. `kind` is the type both were made from, None where they
    are hand-written or the shape is undocumented.
    """

    endpoint: Endpoint
    decode: Callable[[Payload], T]
    encode: Callable[[T], object]
    kind: type[T] | None = None


def shaped(endpoint: Endpoint, kind: type[T]) -> Codec[T]:
    """Return the codec of a call whose payload is `kind`: a dataclass, or a tuple of them."""
    return Codec(endpoint, partial(decoded, kind), partial(encoded, kind), kind)


def decoded(kind: type[T], payload: Payload) -> T:
    """Return the payload as `kind`. Raises MalformedAnswer naming the call, the field and why."""
    try:
        return validated(kind, payload.value)
    except ValidationError as error:
        raise MalformedAnswer(payload.call, said_of(error), payload.raw) from None


def validated(kind: type[T], value: object) -> T:
    """Return a JSON value as `kind`, a dataclass or a model. Raises ValidationError."""
    found: T = _adapter(kind).validate_python(without_nulls(value))
    return found


def encoded(kind: type[T], value: T) -> Any:
    """Return what `envelope.seal` takes, with the names of the wire."""
    return _adapter(kind).dump_python(value, mode="json", by_alias=True)


_adapter: Final[Callable[[Any], TypeAdapter[Any]]] = cache(TypeAdapter)


def without_nulls(value: object) -> object:
    """Return the value without null members, at every depth."""
    if isinstance(value, dict):
        return {name: without_nulls(inner) for name, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [without_nulls(inner) for inner in value]
    return value


def wire_names(kind: type[Any]) -> Mapping[str, str]:
    """Return the wire's name of every field of a dataclass."""
    hints = get_type_hints(kind, include_extras=True)

    def alias(field: str) -> str | None:
        of_field = getattr(hints[field], "__metadata__", ())
        return next(
            (one.alias for one in of_field if isinstance(one, FieldInfo) and one.alias), None
        )

    return {field.name: alias(field.name) or field.name for field in fields(kind)}


# ------------------------------------------------------------------- what a table cannot list


@dataclass(frozen=True, slots=True)
class Rest:
    """Marks a dataclass whose field `name` collects numbers under unknown names.

    On the wire they are beside the known fields; other unknown values there are ignored.
    """

    name: str

    def __get_pydantic_core_schema__(
        self, source: type[Any], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        known = frozenset(wire_names(source).values()) - {self.name}

        def gathered(value: object) -> object:
            if not isinstance(value, dict):
                return value
            named = {key: one for key, one in value.items() if key in known}
            others = ((key, one) for key, one in value.items() if key not in known)
            rest = {key: one for key, one in others if decimal_or_none(one) is not None}
            return {**named, self.name: rest}

        def spread(value: object, write: Callable[[object], dict[str, Any]]) -> object:
            written = write(value)
            free = written.pop(self.name)
            return {**written, **free}

        return core_schema.no_info_before_validator_function(
            gathered,
            handler(source),
            serialization=core_schema.wrap_serializer_function_ser_schema(spread),
        )


def _without_empty(value: object, write: Callable[[object], dict[str, Any]]) -> object:
    return {name: inner for name, inner in write(value).items() if inner not in (None, "", [])}


SPARSE: Final = WrapSerializer(_without_empty)
"""Marks a dataclass written without its fields that are null, an empty text or an empty list, where
the document says that a field is present for some only.
"""
