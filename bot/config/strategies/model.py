"""The strategy file and its keys: one definition that checks files and describes them.

The JSON schema for editors is made from these models, so what an editor accepts and what the bot
accepts cannot drift apart. The docstring under a key is what the editor shows.
"""

import json
import re
from dataclasses import dataclass
from datetime import time, timedelta
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import ConfigDict, Field
from pydantic.json_schema import JsonSchemaValue

from bot.config.field_types import interval, local_time, reader, text, whole, wrong
from bot.config.limits import SHARES, VND, LimitsSection
from bot.config.model_check import FileModel, Section
from bot.domain.order import MARKET_TYPES, OrderType
from bot.domain.plan import ParameterValue, PriceBasis, StrategyMode

SYMBOLS_MAX: Final = 50
TITLE: Final = "vnbot strategy file"
_PRICE: Final = re.compile(r"(bid|ask|last|mid)(?: ([+-])([1-9][0-9]?) ticks?)?")
_BETWEEN: Final = re.compile(r"(\S+) ?- ?(\S+)")
_NAME: Final = r"(?!account$)[a-z0-9][a-z0-9_-]{0,39}"
"""The journal keeps the account's limits under its own name, `account`."""
_SYMBOL: Final = r"[A-Z0-9]*[A-Z][A-Z0-9]*"
_SYMBOL_LENGTH_MAX: Final = 12
_INTERVAL: Final = interval()
_Length = Annotated[timedelta | None, _INTERVAL]


@dataclass(frozen=True, slots=True)
class PriceChoice:
    """A basis with a shift in ticks, or a market type without a price of its own."""

    basis: PriceBasis | None
    ticks: int = 0
    market: OrderType | None = None


@reader({"type": "string", "pattern": f"^({_PRICE.pattern}|{'|'.join(MARKET_TYPES)})$"})
def order_price(value: object) -> PriceChoice:
    """`ask`, `ask +1 tick`, or a market type like MTL."""
    if isinstance(value, str) and value in MARKET_TYPES:
        return PriceChoice(None, market=OrderType(value))
    found = _PRICE.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        wanted = "bid, ask, last or mid, optionally with '+1 tick', or a market type like MTL"
        raise wrong("E-CFG-019", wanted, value)
    sign = -1 if found[2] == "-" else 1
    return PriceChoice(PriceBasis(found[1]), sign * int(found[3] or 0))


@reader({"type": "string", "pattern": r"^\d?\d:\d\d(:\d\d)? ?- ?\d?\d:\d\d(:\d\d)?$"})
def time_range(value: object) -> tuple[time, time]:
    """`09:20 - 14:20`: two times of one day, the first before the second."""
    found = _BETWEEN.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise wrong("E-CFG-016", "two times of day, like 09:20 - 14:20", value)
    start, end = local_time.read(found[1]), local_time.read(found[2])
    if start >= end:
        raise wrong("E-CFG-016", "a start before its end, like 09:20 - 14:20", value)
    return start, end


@reader(
    {"anyOf": [local_time.schema, {"type": "array", "items": local_time.schema, "minItems": 1}]}
)
def times(value: object) -> tuple[time, ...]:
    """A time of day, or a list of them; in order of the day, each once."""
    items = value if isinstance(value, list | tuple) else [value]
    return tuple(sorted({local_time.read(each) for each in items}))


@reader({"type": ["boolean", "null"]})
def presence(value: object) -> bool:
    """A key that is there or not: `session` and `session: true` both say yes."""
    if value is None or isinstance(value, bool):
        return value is not False
    raise wrong("E-CFG-013", "true, or nothing", value)


@reader({"type": "string", "pattern": "^(drop|hold [1-9][0-9]{0,5}[smhd])$"})
def hold_time(value: object) -> timedelta | None:
    """`drop`, or `hold 120s`; None means drop."""
    if value == "drop":
        return None
    if isinstance(value, str) and value.startswith("hold "):
        return _INTERVAL.read(value.removeprefix("hold "))
    raise wrong("E-CFG-020", "'drop', or 'hold' with a length of time, like 'hold 120s'", value)


@reader({"type": "string", "pattern": f"^{_SYMBOL}$", "maxLength": _SYMBOL_LENGTH_MAX})
def symbol(value: object) -> str:
    """A symbol in capitals. In YAML 1.2 `NO` and `ON` are text, and tickers like any other."""
    is_short = isinstance(value, str) and len(value) <= _SYMBOL_LENGTH_MAX
    if isinstance(value, str) and is_short and re.fullmatch(_SYMBOL, value):
        return value
    like = "FPT (or 'TRUE' in quotes)"
    if isinstance(value, str):
        begun = re.match(_SYMBOL, value.upper())
        like = begun[0] if begun and len(begun[0]) <= _SYMBOL_LENGTH_MAX else "FPT"
    raise wrong("E-CFG-024", f"a symbol in capitals, like {like}", value)


@reader({"type": ["integer", "number", "string", "boolean"]})
def parameter(value: object) -> ParameterValue:
    """A number, a text, or true or false."""
    if isinstance(value, int | float | str):
        return value
    raise wrong("E-CFG-034", "a number, text, or true or false", value)


class _Section(Section):
    model_config = ConfigDict(use_attribute_docstrings=True)


class WakeSection(_Section):
    """What wakes the strategy. Everything is polled, for the broker's API has no stream."""

    bar: Annotated[timedelta | None, interval(timedelta(seconds=10))] = None
    """A bar of this width has closed, like 1m or 1d; built from at least six quotes."""
    quote: _Length = None
    """A quote has been read, at this interval."""
    depth: _Length = None
    """The depth has been read, at this interval."""
    timer: Annotated[tuple[time, ...], times] = ()
    """A time of day, or a list of them."""
    session: Annotated[bool, presence] = False
    """The phase of the exchange has changed."""


PhaseWord = Literal["ato", "continuous", "atc", "post"]


class WhenSection(_Section):
    """Where in the day orders may be made; Asia/Ho_Chi_Minh."""

    sessions: tuple[PhaseWord, ...] = ()
    """ato, continuous, atc, post; left out: any that takes orders."""
    between: Annotated[tuple[time, time] | None, time_range] = None
    """From and to, like 09:20 - 14:20."""


class SizeSection(_Section):
    """How much. Exactly one of the three; rounded down to what the exchange takes."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    shares: Annotated[int | None, SHARES] = None
    """Shares: a multiple of 100, or 1 to 99 as an odd lot (LIMIT only)."""
    cash: Annotated[int | None, VND] = None
    """VND to spend on one order."""
    percent: Annotated[int | None, whole(1, 100, "a percentage")] = None
    """Percent of the cash of the account."""


class OrderSection(_Section):
    """How an order is made when the strategy names no size or price."""

    size: SizeSection
    """How much."""
    type: Literal["LIMIT", "MARKET"] = "LIMIT"
    """LIMIT, or MARKET with a market type as its price."""
    price: Annotated[PriceChoice, order_price] = PriceChoice(PriceBasis.LAST)
    """bid, ask, last (the default) or mid, perhaps with '+1 tick'; with MARKET: a type like MTL."""
    expire: _Length = None
    """After this the unmatched part is cancelled; left out: never."""


class StrategyFile(FileModel):
    """A strategy of vnbot: what to run, on which symbols, when, how much, within which limits."""

    model_config = ConfigDict(use_attribute_docstrings=True, title=TITLE)
    not_yet: ClassVar = {
        "account": "every strategy trades on 'broker.account' of bot.yaml",
        "approve": "orders cannot wait for your approval yet",
        "notify": "notices are of the whole bot, see 'notify' in bot.yaml and notify.yaml",
    }

    name: Annotated[str, text(_NAME, "a-z, 0-9, _ and -, at most 40; not account", "E-CFG-024")]
    """Shown in every order, notice and report."""
    use: Annotated[str, text(r"[A-Za-z0-9_./:-]{1,200}", "a strategy's name, or path.py:Class")]
    """A strategy's name in snake_case, or its file and class: mystrategies/sma.py:SmaCross."""
    symbols: Annotated[
        tuple[Annotated[str, symbol], ...],
        Field(json_schema_extra={"minItems": 1, "maxItems": SYMBOLS_MAX}),
    ]
    """What it trades; the strategy runs once for each."""
    mode: StrategyMode = StrategyMode.TRADE
    """trade, or watch: decides and journals, and never orders."""
    params: dict[str, Annotated[ParameterValue, parameter]] = Field(default_factory=dict)
    """Parameters, checked against the strategy's own."""
    wake: WakeSection
    """What wakes it."""
    when: WhenSection = WhenSection()
    """Where in the day it may order."""
    order: OrderSection
    """How its orders are made."""
    limits: LimitsSection = LimitsSection()
    """Its limits."""
    on_2fa: Annotated[timedelta | None, hold_time] = timedelta(seconds=120)
    """drop, or hold 120s: what happens to an order that a missing 2FA token blocked."""


_WAKE = WakeSection()
_ORDER = OrderSection(size=SizeSection())
STAND_INS: Final = {"name": "x", "use": "x", "symbols": ("X",), "wake": _WAKE, "order": _ORDER}
"""Put in place of a required key that is missing or wrong, so that the rest can be checked."""


def schema() -> JsonSchemaValue:
    """Return the JSON schema of a strategy file, for editors and tests.

    Made-up titles and defaults in our own types mean nothing to its readers and are left out.
    """

    def plain(part: object) -> Any:
        if isinstance(part, list):
            return [plain(each) for each in part]
        if not isinstance(part, dict):
            return part
        return {
            key: {name: plain(inner) for name, inner in value.items()}
            if key in {"properties", "$defs"} and isinstance(value, dict)
            else plain(value)
            for key, value in part.items()
            if key != "default" and not (key == "title" and value != TITLE)
        }

    made = plain(StrategyFile.model_json_schema())
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made}


def schema_text() -> str:
    """Return the JSON schema as a file holds it."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"
