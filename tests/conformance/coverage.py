"""What covers each path of the API: client, sandbox, tests, conformance. See `docs/coverage.md`.

Everything in it is read from the tables that the code itself uses, and `test_coverage.py` compares
the page with them. To write it again: `python -m tests.conformance.coverage`.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from inspect import getclosurevars
from pathlib import Path
from types import FunctionType
from typing import Any, Final, get_args, get_origin

from bot.broker.client import BrokerClient
from bot.broker.writes import OrderWriter
from bot.conformance.data import ContentCase, Read, Refusal
from bot.protocol.accounts import decode_available_trade
from bot.protocol.calls import CODECS
from bot.protocol.endpoints import ENDPOINTS
from bot.protocol.endpoints.endpoint import Endpoint
from bot.protocol.shaped import Codec
from bot.runtime.api import READS
from bot.sandbox.api.call import Directory
from bot.sandbox.library.library import Library
from tests.protocol.test_calls import PATHS, route
from tests.sandbox.api import test_every_path
from tests.sandbox.client import bench

PAGE: Final = Path(__file__).parents[2] / "docs" / "coverage.md"
SHAPE_ASSERTIONS: Final = 2
"""Required fields, and types and words; a third, the names, where no others are to be expected."""
WRITES: Final[Mapping[str, tuple[Callable[..., Any], str]]] = {
    "place_order": (OrderWriter.prepare_place, "`orders`"),
    "amend_order": (OrderWriter.prepare_amend, "`orders`"),
    "cancel_order": (OrderWriter.prepare_cancel, "`orders`"),
    "request_otp": (BrokerClient.request_otp, "`two_factor`"),
    "verify_otp": (BrokerClient.verify_otp, "`two_factor`"),
    "revoke_token": (BrokerClient.revoke_token, "`two_factor`"),
}
BY_HAND: Final[Mapping[str, Callable[..., Any]]] = {
    "user": BrokerClient.user,
    "sub_accounts": BrokerClient.sub_accounts,
    "portfolio": BrokerClient.portfolio,
    "summary": BrokerClient.summary,
    "available_trade": decode_available_trade,
    "market_phase": BrokerClient.market_phase,
    "todays_orders": BrokerClient.todays_orders,
    "order_detail": BrokerClient.order,
}
TESTED: Final = {
    "a": test_every_path.READS,
    "b": test_every_path.TAKING,
    "n": test_every_path.NAMING,
    "r": test_every_path.DAY_RANGES,
}
TITLES: Final[Mapping[str, str]] = {
    "4.1": "Bootstrap (4.1)",
    "4.2": "Order execution (4.2)",
    "3": "Second factor (3)",
    "4.3": "Account data (4.3)",
    "4.4": "Unified quotes (4.4)",
    "4.5": "Indices (4.5)",
    "4.6": "Sectors (4.6)",
    "4.7": "Screener and statistics of a stock (4.7)",
    "4.8": "News, macro, calendar, financials (4.8)",
    "4.9": "Open-end funds (4.9)",
    "4.10": "Earlier paths that public clients still call (4.10)",
}
HEAD: Final = """\
# Coverage of the broker's API

Every path of the API's description (0.2.0-preview.3), the call of our client that makes it, the
module of the sandbox that answers it, its tests, and how many assertions `bot conformance` makes of
it. Written by `python -m tests.conformance.coverage` from the tables that the code uses.

*Call*: what `bot api` and `BrokerClient.read` take; order writes and 2FA name their method.
*Value*: the type of what comes back, `—` where no source shows the fields: then the checked payload
is kept as it is, and nothing is asserted but envelope and status. *Tests*, in
`tests/sandbox/api/test_every_path.py`: **a** a good answer has every field of the document, our
client reads it, and the same seed gives the same bytes; **b** bad and missing parameters are
refused; **n** unknown names are refused; **r** so are ranges of days the wrong way round.
`tests/broker/test_calls.py` makes each read through the client. **w** is in
`tests/sandbox/api/test_orders.py`, `test_two_factor.py` and `tests/broker/test_writes.py`."""


def coverage_markdown() -> str:
    """Return `docs/coverage.md`."""
    tables = (line for section, paths in PATHS.items() for line in _table(section, paths))
    return "\n".join([HEAD, "", _summary(), *tables, ""])


def _summary() -> str:
    shaped = sum(not _is_unshaped(name) for name in ENDPOINTS)
    made = sum(assertions().values())
    return (
        f"{len(ENDPOINTS)} paths, {len(READS)} of them reads; {shaped} with a type of their own, "
        f"{len(ENDPOINTS) - shaped} without a shown shape; {made} assertions of reads here, beside "
        "those of signing, tiers, orders and 2FA."
    )


def _table(section: str, paths: list[str]) -> Iterator[str]:
    yield from (
        "",
        f"## {TITLES[section]}",
        "",
        "| Path | Call | Value | Sandbox | Tests | Conformance |",
    )
    yield "|---|---|---|---|---|---|"
    for path in paths:
        endpoint = _by_route()[re.sub("{.*?}", "{}", path)]
        yield f"| {' | '.join((f'`{path}`', *_cells(endpoint)))} |"


def _cells(endpoint: Endpoint) -> tuple[str, ...]:
    name = endpoint.name
    if name in WRITES:
        method, made = WRITES[name]
        return f"`{method.__qualname__}`", _returned(method), _answered_by(name), "w", made
    tests = "".join(letter for letter, names in TESTED.items() if name in names) or "w"
    return f"`{name}`", _value(READS[name]), _answered_by(name), tests, str(assertions()[name])


def _value(codec: Codec[Any]) -> str:
    name = codec.endpoint.name
    if codec.kind is not None:
        return f"`{_named(codec.kind)}`"
    return "—" if _is_unshaped(name) else _returned(BY_HAND[name])


def _is_unshaped(name: str) -> bool:
    codec = CODECS.get(name)
    return codec is not None and codec.kind is None and name not in BY_HAND


def _returned(method: Callable[..., Any]) -> str:
    return f"`{_named(method.__annotations__['return'])}`"


def _named(kind: Any) -> str:
    """Write a type in short: the values of a list as `Value[]`."""
    while hasattr(kind, "__metadata__"):
        kind = get_args(kind)[0]
    origin, inner = get_origin(kind), [one for one in get_args(kind) if one is not ...]
    if origin is tuple:
        return f"{_named(inner[0])}[]"
    if origin is not None and inner and isinstance(origin, type) and origin.__module__ != "types":
        return f"{origin.__name__}[{_named(inner[0])}]"
    return str(getattr(kind, "__name__", kind)) if not inner else _named(inner[0])


@cache
def _by_route() -> Mapping[str, Endpoint]:
    return {route(one): one for one in ENDPOINTS.values()}


# ------------------------------------------------------------------------- the sandbox's modules


@cache
def _handlers() -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    sandbox = bench().sandbox
    return sandbox._handlers(), Library(sandbox._house, sandbox._gate).answers()


def _answered_by(name: str) -> str:
    """Name the module, past the functions that check a query or vary an answer."""
    handlers, library = _handlers()
    handler = handlers[name]
    while isinstance(handler, FunctionType):
        handler = getclosurevars(handler).nonlocals["handler"]
    home = library[name] if isinstance(handler, partial) else handler
    return f"`{home.__module__.removeprefix('bot.sandbox.')}`"


# ------------------------------------------------------------------------ conformance assertions


@cache
def assertions() -> Counter[str]:
    """How many assertions the data of the run has of each read."""
    counted: Counter[str] = Counter()
    for read in Read.rows():
        counted[read.call] += _assertions_of(read)
    directory = Directory(ENDPOINTS.values())
    for path in (*(row.path for row in Refusal.rows()), *(row.path for row in ContentCase.rows())):
        endpoint, _ = directory.find("GET", path)
        if endpoint is not None:
            counted[endpoint.name] += 1
    return counted


def _assertions_of(read: Read) -> int:
    always = 3
    if read.shape is None:
        return always
    return always + SHAPE_ASSERTIONS + (not read.is_free)


if __name__ == "__main__":
    PAGE.write_text(coverage_markdown(), "utf-8")
