"""Decoder and encoder of a payload, both made from the dataclass that it becomes.

A value's fields name types of `fields.py` or other such dataclasses; that is the whole table.
Reading is tolerant as the document asks: unknown fields are ignored, null is as good as absent,
numbers may be texts. A field without a default must be there: those that the document marks as
required, and what tells one row of a list from another. One that is missing, or anything in another
type, is MalformedAnswer naming call and field. Adapters are built when first used: there are about
a hundred.
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
    """How the payload of one call becomes a value, and a value the payload.

    `decode` raises MalformedAnswer. `encode` returns what `envelope.seal` takes: every field of the
    document, null where the value has none. `kind` is the type that `shaped` made both from, None
    where they are written by hand or the shape is not shown.
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
    """Return a value of JSON as `kind`, a dataclass or a model. Raises ValidationError."""
    found: T = _adapter(kind).validate_python(without_nulls(value))
    return found


def encoded(kind: type[T], value: T) -> Any:
    """Return what `envelope.seal` takes, under the names of the wire."""
    return _adapter(kind).dump_python(value, mode="json", by_alias=True)


_adapter: Final[Callable[[Any], TypeAdapter[Any]]] = cache(TypeAdapter)


def without_nulls(value: object) -> object:
    """Return the value without the members of objects that are null, at every depth."""
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
    """Says of a dataclass that numbers under names it does not know go into its field `name`.

    On the wire they stand beside the known fields. Anything else there is ignored.
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
"""Says of a dataclass that it is written without the fields that are null, empty text or empty
list: where the document says that a field is there for some only.
"""
