"""Values of a call's type, made from the same table that reads and writes them."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache
from string import ascii_uppercase, digits
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from hypothesis import strategies as st
from pydantic import AfterValidator, BeforeValidator

from bot.protocol import fields as wire
from bot.protocol.shaped import Rest, wire_names
from bot.protocol.values import news

ROWS_MAX = 2

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=8)
words = st.text(f"{ascii_uppercase}{digits}_", min_size=1, max_size=8)
numbers = st.decimals(-(10**9), 10**9, allow_nan=False, allow_infinity=False, places=4)
wholes = st.integers(-(10**14), 10**14)
days = st.dates(date(2000, 1, 1), date(2090, 1, 1))
seconds = st.integers(0, 4 * 10**9).map(
    lambda s: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=s)
)
milliseconds = st.integers(0, 4 * 10**12).map(
    lambda ms: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
)
figures = numbers.map(str)
json_values = st.recursive(
    st.none() | st.booleans() | wholes | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=5,
)

_OF_TYPE: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (wire.Number, numbers),
    (wire.NumberOrNone, st.none() | numbers),
    (wire.Vnd, wholes),
    (wire.VndOrNone, st.none() | wholes),
    (wire.Truth, st.booleans()),
    (wire.Day, days),
    (wire.DayOrNone, st.none() | days),
    (wire.Stamp, milliseconds),
    (wire.StampOrNone, st.none() | milliseconds),
    (wire.UnixSeconds, seconds),
    (wire.UnixMs, milliseconds),
    (wire.SlashedDay, st.none() | days),
    (wire.CommaPercent, st.none() | numbers),
    (wire.Texts, st.lists(texts, max_size=ROWS_MAX).map(tuple)),
    (wire.Text, texts),
    (wire.Code, texts),
    (wire.Named, words),
    (wire.Symbol, words),
    (wire.Word, words),
    (wire.Floored, wholes),
    (news.Figure, st.none() | figures),
]
READERS: dict[Callable[..., Any], st.SearchStrategy[Any]] = {
    get_args(kind)[1].func: strategy for kind, strategy in _OF_TYPE
}
"""What a field holds, by the function that reads it."""


@cache
def values_for(kind: Any) -> st.SearchStrategy[Any]:
    """Return values of a call's type."""
    return values_of(kind)


def values_of(kind: Any, bound: dict[Any, Any] | None = None) -> st.SearchStrategy[Any]:
    """Return values of a dataclass of the tables, or of what is made of them."""
    kind = (bound or {}).get(kind, kind) if isinstance(kind, TypeVar) else kind
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _annotated(arguments[0], arguments[1:], bound)
    if is_dataclass(origin or kind):
        return _built(origin or kind, dict(zip(_parameters(origin), arguments, strict=True)))
    if origin is tuple:
        return st.lists(values_of(arguments[0], bound), max_size=ROWS_MAX).map(tuple)
    if origin in {Union, UnionType}:
        return st.one_of([values_of(one, bound) for one in arguments])
    return {type(None): st.none(), bool: st.booleans()}[kind]


def _annotated(kind: Any, notes: tuple[Any, ...], bound: Any) -> st.SearchStrategy[Any]:
    for note in notes:
        if isinstance(note, BeforeValidator) and note.func in READERS:
            return READERS[note.func]
        if isinstance(note, Rest):
            return _with_rest(kind, note.name)
    found = values_of(kind, bound)
    for note in notes:
        if isinstance(note, AfterValidator):
            arranged: Callable[[Any], Any] = cast("Any", note.func)
            found = found.map(arranged)
    return found


def _with_rest(kind: Any, name: str) -> st.SearchStrategy[Any]:
    free = words.filter(lambda word: word not in wire_names(kind).values())
    return _built(kind, {}, **{name: st.dictionaries(free, numbers, max_size=3)})


def _built(kind: Any, bound: dict[Any, Any], **given: Any) -> st.SearchStrategy[Any]:
    hints = get_type_hints(kind, include_extras=True)
    names = (one.name for one in fields(kind) if one.name not in given)
    parts = {name: values_of(hints[name], bound) for name in names}
    made = st.builds(kind, **parts, **given)
    fitting = _FITTING.get(kind.__name__, _as_it_is)
    return fitting(made)


def _parameters(origin: Any) -> tuple[Any, ...]:
    return getattr(origin, "__parameters__", ())


def _as_it_is(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return values


def _one_when_single(boards: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return boards.filter(lambda board: not board.is_single or len(board.stocks) == 1)


def _above_zero(levels: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return levels.filter(lambda level: level.price != 0)


_FITTING: dict[str, Callable[[st.SearchStrategy[Any]], st.SearchStrategy[Any]]] = {
    "StockBoard": _one_when_single,
    "PriceLevel": _above_zero,
}
"""What holds between the fields of some values."""
