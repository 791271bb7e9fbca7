"""Watches every answer for added, missing and renamed fields, and reports each of them once.

Unknown fields are ignored when an answer is read, and optional ones may be missing; neither is a
failure. But a change of the API shows here first, and should be noticed before it causes one. Only
names are looked at, never values. Calls with two shapes or an undocumented one are not watched.

A call's table comes from the type of its codec (`protocol/calls.py`); calls with hand-written
decoders have their names listed here. Source: broker open API 0.2.0-preview.3, bootstrap and
account data.
"""

from collections import ChainMap
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, is_dataclass, make_dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from functools import cache
from itertools import chain
from types import GenericAlias, MappingProxyType
from typing import Annotated, Any, Final, TypeVar, cast, get_args, get_origin, get_type_hints

from bot.protocol.calls import CODECS
from bot.protocol.endpoints import ENDPOINTS
from bot.protocol.endpoints.endpoint import Shape
from bot.protocol.envelope import Payload
from bot.protocol.fields import FIDELITY, Numbers
from bot.protocol.secret import redact
from bot.protocol.shaped import Codec, Rest, wire_names

KNOWN_MAX: Final = 1_000
"""Fields remembered; bounds what a payload of endless new names can cost."""
ADDED_MAX: Final = 50
"""New fields reported per answer: each is compared with every missing one."""
NAME_CHARACTERS_MAX: Final = 100
SHAPES_MAX: Final = 256
"""Sets of names whose drift is cached."""
SHAPE_CHARACTERS_MAX: Final = 8_192
"""Characters of the names in one cached set: the longest table has a quarter of this."""
_LIKENESS_MIN: Final = 0.6
_SELDOM: Final[Mapping[str, tuple[str, ...]]] = {
    # The screener sends only the chosen fields, the order's row a strategy mainly in detail.
    "screener": ("items[].",),
    "todays_orders": ("[].strategy_id",),
    # KRX only, according to the document.
    "index_realtime": tuple(
        f"[].{name}"
        for name in ("advancesArr", "declinesArr", "nochangesArr", "ceilings", "floors")
    ),
    # Indicators have varying keys, a yield-only bond has no prices, gold has a price of its own.
    "stock_technicals": ("indicators[].",),
    "bond_history": ("series[].",),
    "earlier_financial_data": ("[].values[].",),
}
"""Prefixes of names that may be missing in a good answer."""


class Change(StrEnum):
    """What became of a field."""

    ADDED = "added"
    GONE = "gone"
    RENAMED = "renamed"
    UNTOLD = "are not told"


@dataclass(frozen=True, slots=True)
class Drifted:
    """A field that differs from the document: `field` with its path, `was` its old name."""

    call: str
    change: Change
    field: str
    was: str = ""

    def __str__(self) -> str:
        renamed = f" (was {self.was})" if self.was else ""
        return f"{self.call} {self.field} {self.change}{renamed}"


_FULL: Final = Drifted("the broker's API", Change.UNTOLD, "further differences")
"""The last thing that is remembered and told."""

OnDrift = Callable[[tuple[Drifted, ...]], None]
"""Called with new drift found in one answer."""


class DriftWatch:
    """Remembers drifted fields, each call and field once, oldest first.

    Answers of one shape are analysed once, as drift depends on names alone.
    """

    def __init__(self, on_drift: OnDrift | None = None) -> None:
        self._on_drift = on_drift
        self._seen: dict[tuple[str, str], Drifted] = {}
        self._of_shape: dict[tuple[str, Hashable], tuple[Drifted, ...]] = {}

    @property
    def seen(self) -> tuple[Drifted, ...]:
        """Everything that has drifted so far."""
        return tuple(self._seen.values())

    def found_in(self, payload: Payload) -> tuple[Drifted, ...]:
        """Like `drifted_in`, cached by shape."""
        shape = (payload.call, shape_of(payload.value))
        found = self._of_shape.get(shape)
        if found is None:
            found = drifted_in(payload)
            if len(repr(shape)) <= SHAPE_CHARACTERS_MAX:
                if len(self._of_shape) >= SHAPES_MAX:
                    self._of_shape.clear()
                self._of_shape[shape] = found
        return found

    def note(self, found: tuple[Drifted, ...]) -> None:
        """Remember what differs in an answer, and report what is new, at last that no more is."""
        news = tuple(each for each in found if (each.call, each.field) not in self._seen)
        room = KNOWN_MAX - 1 - len(self._seen)
        if not news or room < 0:
            return
        self._tell(news[:room])
        if len(news) > room:
            self._tell((_FULL,))

    def _tell(self, news: tuple[Drifted, ...]) -> None:
        self._seen.update({(each.call, each.field): each for each in news})
        if news and self._on_drift is not None:
            self._on_drift(news)


def drifted_in(payload: Payload) -> tuple[Drifted, ...]:
    """Return what differs in one payload from the table of its call; empty without a table.

    The paper broker's own field is not in the document but is not drift.
    """
    table = TABLES.get(payload.call)
    if table is None:
        return ()
    drift = drift_of(table, payload)
    if not drift.added and not drift.gone:
        return ()
    seldom = _SELDOM.get(payload.call, ())
    gone = tuple(name for name in drift.gone if not (seldom and name.startswith(seldom)))
    added = tuple(name for name in drift.added if not name.endswith(FIDELITY))[:ADDED_MAX]
    return tuple(_named(payload.call, added, list(gone)))


def _named(call: str, added: Iterable[str], gone: list[str]) -> Iterator[Drifted]:
    """Pair new and missing fields: a new field that resembles a missing one in the same place is a
    rename.
    """
    for name in added:
        shown, place = redact(name)[:NAME_CHARACTERS_MAX], name.rpartition(".")[0]
        alike = {old: _likeness(name, old) for old in gone if old.rpartition(".")[0] == place}
        best = max(alike, key=lambda old: alike[old], default="")
        if best and alike[best] >= _LIKENESS_MIN:
            gone.remove(best)
            yield Drifted(call, Change.RENAMED, shown, was=best)
        else:
            yield Drifted(call, Change.ADDED, shown)
    yield from (Drifted(call, Change.GONE, name) for name in gone)


def _likeness(one: str, other: str) -> float:
    first, second = (name.replace("_", "").lower() for name in (one, other))
    return SequenceMatcher(None, first, second).ratio()


_SUB_ACCOUNT: Final = (
    "id cust_id name depository_number product_type_name sub_account_ext type"  # 4.1
)
_ORDER_ROW: Final = """
    orderid odorderid rootorderid txdate txtime odtimestamp symbol side side_ side_code price
    limitprice pricetype qtty quoteqtty execqtty execprice execamt remainqtty remainamt cancelqtty
    adjustqtty status status_ status_code allowcancel allowamend feedbackmsg hosesession
    matchtype_code matchtype_ timetype timetypevalue isdisposal via via_ via_code tlname username
    custodycd custid afacctno afacctno_ext producttypename strategy_id
"""
_HOLDING: Final = """
    sub_account_id symbol custodycd securities_type total available blocked mortgage vsd_mortgage
    restrict receiving_right receiving_t0 receiving_t1 receiving_t2 sending_t0 sending_t1 sending_t2
    matching_amount withdraw cost_price basic_price close_price cost_price_amount
    basic_price_amount pnl_amount pnl_rate total_pnl is_sellable has_newest_news trade
"""
_SUMMARY: Final = """
    balance ci_balance td_balance interest_balance ca_receiving receiving_t1 receiving_t2
    receiving_t3 receiving_amt securities_amt total_debt_amt debt_amt secure_amt trf_buy_amt
    margin_amt t0_debt_amt advanced_amt advance_max_amt_fee df_debt_amt td_debt_amt cidepo_fee
    cidepo_fee_acr sms_fee_amt ibroker_fee_amt net_asset_value mrcr_limit mrcr_limit_max margin_rate
    mri_rate mrm_rate hold_balance emk_amt td_int_amt add_vnd add_vnd_1 core_bank bankacct_no
    bank_name baldefovd
"""
_AVAILABLE_TRADE: Final = """
    pp0 trade ppse maxqtty balance cash_pending_send mortgage marginrate mrratioloan
"""


def _object(names: str, **inner: type[object]) -> type[object]:
    """Make an object type with these fields; `inner` are fields with an inner shape."""
    plain = [(name, object) for name in names.split()]
    return make_dataclass("Named", [*plain, *inner.items()])


def _list_of(element: type[object]) -> type[object]:
    return cast("type[object]", GenericAlias(tuple, (element, ...)))


_KINDS: Final[Mapping[str, type[object]]] = {
    "sub_accounts": _list_of(_object(_SUB_ACCOUNT)),
    "todays_orders": _list_of(_object(_ORDER_ROW)),
    "order_detail": _object(_ORDER_ROW),
    "portfolio": _object("is_snapshot", portfolio=_list_of(_object(_HOLDING))),
    "summary": _object(_SUMMARY),
    "available_trade": _object(_AVAILABLE_TRADE),
    "market_phase": _object("exchange exchange_session available_order_types"),
}


def _unread(value: object) -> object:
    return value


_BY_HAND: Final = {
    name: Codec(ENDPOINTS[name], _unread, _unread, kind) for name, kind in _KINDS.items()
}

TABLES: Final[Mapping[str, Codec[object]]] = MappingProxyType(
    ChainMap(_BY_HAND, CODECS)  # type: ignore[arg-type]  # it is only read
)
"""Every call whose answer has known fields, by name."""


_CONTAINERS: Final = frozenset({dict, list})

ObjectPath = str
"""Where an object is, empty at the top: that of `items[].price` is `items[].`."""


@dataclass(frozen=True, slots=True)
class Drift:
    """Names of fields, with their paths: `items[].price`.

    `added` fields came but are not in the document; `gone` fields are in the document but came in
    none of the objects where they belong, which is legal, as most fields are optional.
    """

    added: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()


@dataclass(slots=True)
class _Names:
    """The objects and fields of a payload, by name; under `free` paths any name is fine."""

    paths: set[ObjectPath] = field(default_factory=set)
    fields: set[str] = field(default_factory=set)
    free: set[ObjectPath] = field(default_factory=set)


def drift_of(codec: Codec[Any], payload: Payload) -> Drift:
    """Compare the names in a payload with those of the call's table."""
    if codec.kind is None or codec.endpoint.shape is Shape.EITHER:
        return Drift()
    kind: Any = codec.kind
    known, sent = _known(kind), _Names()
    _collect(payload.value, "", sent)
    free = tuple(known.free)
    added = {name for name in sent.fields - known.fields if not name.startswith(free)}
    outermost = {name for name in added if _path_of(name) in known.paths}
    gone = {name for name in known.fields - sent.fields if _path_of(name) in sent.paths}
    return Drift(tuple(sorted(outermost)), tuple(sorted(gone)))


def shape_of(value: object) -> Hashable:
    """Return the names in a payload and their paths: all that `drift_of` looks at.

    Payloads of one shape have the same drift. Rows with the same names count once.
    """
    if type(value) is dict:
        inner = [(name, shape_of(one)) for name, one in value.items() if type(one) in _CONTAINERS]
        return (tuple(value), *inner)
    if type(value) is not list:
        return None
    if set(map(type, value)) == {dict} and _CONTAINERS.isdisjoint(
        map(type, chain.from_iterable(map(dict.values, value)))
    ):
        return frozenset(map(tuple, value))
    return frozenset([(shape_of(one),) for one in value if type(one) in _CONTAINERS])


def _path_of(name: str) -> ObjectPath:
    return name[: name.rfind(".") + 1]


def _collect(value: object, path: ObjectPath, names: _Names) -> None:
    """Collect the names in a payload; for speed, containers without further objects are skipped."""
    if isinstance(value, dict):
        if value:
            names.paths.add(path)
        for name, inner in value.items():
            names.fields.add(path + name)
            if isinstance(inner, dict | list):
                _collect(inner, f"{path}{name}.", names)
    elif isinstance(value, list):
        inside = _of_elements(path)
        for inner in value:
            _collect(inner, inside, names)


def _of_elements(path: ObjectPath) -> ObjectPath:
    return f"{path.removesuffix('.')}[]."


@cache
def _known(kind: Any) -> _Names:
    names = _Names()
    _learn(kind, "", {}, names)
    return names


def _learn(kind: Any, path: ObjectPath, bound: dict[Any, Any], names: _Names) -> None:
    """Collect the names of a type: a dataclass, or a type made of dataclasses."""
    kind = bound.get(kind, kind) if isinstance(kind, TypeVar) else kind
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        names.free.update(path for one in arguments if isinstance(one, Rest))
        _learn(arguments[0], path, bound, names)
    elif is_dataclass(origin or kind):
        parameters = getattr(origin, "__parameters__", ())
        of_fields = dict(zip(parameters, arguments, strict=True))
        hints = get_type_hints(origin or kind, include_extras=True)
        names.paths.add(path)
        for ours, theirs in wire_names(origin or kind).items():
            # The mapping that takes the free names has no name of its own on the wire.
            if not (hints[ours] == Numbers and path in names.free):
                names.fields.add(path + theirs)
                _learn(hints[ours], f"{path}{theirs}.", of_fields, names)
    else:
        inner = _of_elements(path) if origin is tuple else path
        for one in arguments:
            _learn(one, inner, bound, names)
