"""`bot api`: any read of the broker's API by the name of its call, with parameters from a command
line.

The running bot answers over its control socket, so that its request budget counts these reads too;
without a bot we open a client of our own. Either way one request is one page of one call, and the
result is the broker's payload, checked. Order writes and the 2FA exchange are not among the calls.
"""

from collections import ChainMap
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import partial
from types import MappingProxyType
from typing import Final

from bot.broker.broker import Broker
from bot.broker.client import BrokerClient, check_query
from bot.broker.errors import BrokerError, Refused, WrongQuery, is_unknown, refuses_key
from bot.broker.paging import PAGE, PAGES_MAX, has_next, is_paged
from bot.config.problems import ExitCode, OperatorMistake, Problem
from bot.config.settings.load import Loaded
from bot.domain.account import SubAccount
from bot.domain.instrument import EXCHANGE_TZ
from bot.protocol.calls import CODECS
from bot.protocol.day_order_book import decode_order_row, decode_todays_orders
from bot.protocol.endpoints import ENDPOINTS
from bot.protocol.endpoints.endpoint import Endpoint, path_parameters, with_defaults
from bot.protocol.query import Kind
from bot.protocol.shaped import Codec
from bot.protocol.strict_json import compact
from bot.runtime.control.socket import LINE_MAX, Reply, Request, refused
from bot.runtime.start.broker import choose_account, connect_broker
from bot.runtime.worlds.environment import access_of
from bot.runtime.worlds.system import SystemEnvironment

REPLY_CHARACTERS_MAX: Final = LINE_MAX * 9 // 10
_SUGGESTIONS_MAX: Final = 3
_NO_DEPTH: Final = "ORDER_BOOK_NOT_SUPPORTED"
_FILLED_IN: Final = ("user_id", "sub_account_id")
"""Path parameters that may be omitted: the key's own user and the configured account."""
_ANYBODY: Final = SubAccount("", "", "")
_ANY_TIME: Final = datetime(2000, 1, 1, tzinfo=UTC)


def _checked(name: str, decode: Callable[..., object]) -> Codec[object]:
    def never(_: object) -> object:
        raise AssertionError("only the sandbox encodes")

    checked = partial(decode, account=_ANYBODY, requested_at=_ANY_TIME)
    return Codec(ENDPOINTS[name], checked, never)


READS: Final[Mapping[str, Codec[object]]] = MappingProxyType(
    ChainMap(
        {
            "todays_orders": _checked("todays_orders", decode_todays_orders),
            "order_detail": _checked("order_detail", decode_order_row),
        },
        CODECS,  # type: ignore[arg-type]  # it is only read
    )
)
"""Every read, by name."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A read with its arguments sorted into path and query."""

    codec: Codec[object]
    path: Mapping[str, str]
    query: Mapping[str, str]

    @property
    def endpoint(self) -> Endpoint:
        """Which call it is."""
        return self.codec.endpoint

    @property
    def is_paged(self) -> bool:
        return is_paged(self.endpoint)

    @property
    def page(self) -> int:
        """The requested page, from 1."""
        return int(self.query.get(PAGE, 1))

    def at_page(self, page: int) -> "Asked":
        """Return the same request for another page."""
        return replace(self, query={**self.query, PAGE: str(page)})

    def assumed(self) -> Mapping[str, str]:
        """The defaults that the broker will assume."""
        full = with_defaults(self.endpoint, self.query)
        return {name: value for name, value in full.items() if name not in self.query}


AskPage = Callable[[Asked], Awaitable[Reply]]


# ---------------------------------------------------------------------------------- all reads


def listed() -> list[dict[str, object]]:
    """Every read: name, method, path, tier and parameters, in the order of the document."""
    return [
        {
            "name": endpoint.name,
            "method": endpoint.method,
            "path": endpoint.path,
            "tier": int(endpoint.tier),
            "parameters": [
                {
                    "name": one.name,
                    "kind": one.kind.value,
                    "required": one.is_required,
                    "default": one.default,
                    "values": list(one.values),
                }
                for one in endpoint.takes
            ],
        }
        for endpoint in (READS[name].endpoint for name in ENDPOINTS if name in READS)
    ]


# ------------------------------------------------------------------------------ what is asked for


def asked_for(name: str, words: Mapping[str, str]) -> Asked:
    """Sort the arguments of a call; raises OperatorMistake that says what was likely meant."""
    known = name.replace("-", "_")
    if known not in READS:
        text = f"no read '{name}'{_likely(name, READS)}"
        if known in ENDPOINTS:
            text = f"'{name}' changes something, and bot api only reads; for a list: bot api list"
        raise OperatorMistake([Problem("E-API-001", text)], ExitCode.USAGE)
    codec = READS[known]
    endpoint = codec.endpoint
    holes, kinds = path_parameters(endpoint), {one.name: one.kind for one in endpoint.takes}
    path = {key: value for key, value in words.items() if key in holes}
    query = {
        key: _written(kinds.get(key, Kind.TEXT), value)
        for key, value in words.items()
        if key not in holes
    }
    assumed = {hole: "0" for hole in holes if hole in _FILLED_IN}
    try:
        check_query(endpoint, {**assumed, **path}, tuple(query.items()))
    except WrongQuery as error:
        names = [*holes, *kinds]
        problems = [
            Problem(
                "E-API-002",
                f"{endpoint.name} {word}: {reason}{'' if word in names else _likely(word, names)}",
            )
            for word, reason in error.faults
        ]
        problems.append(Problem("E-API-003", f"usage: {usage(endpoint)}"))
        raise OperatorMistake(problems, ExitCode.USAGE) from error
    return Asked(codec, path, query)


def usage(endpoint: Endpoint) -> str:
    """Return how a call is written: parts in brackets are optional."""
    words = [f"[{h}=…]" if h in _FILLED_IN else f"{h}=…" for h in path_parameters(endpoint)]
    for one in endpoint.takes:
        word = f"{one.name}={one.default or '…'}"
        words.append(word if one.is_required else f"[{word}]")
    return " ".join(["bot api", endpoint.name, *words])


def _likely(name: str, known: Mapping[str, object] | list[str]) -> str:
    close = get_close_matches(name.replace("-", "_").lower(), list(known), n=_SUGGESTIONS_MAX)
    if not close:
        return "; for a list: bot api list" if isinstance(known, Mapping) else ""
    return f": did you mean {' or '.join(repr(one) for one in close)}?"


def _written(kind: Kind, text: str) -> str:
    """Convert a day or an instant where the API wants Unix seconds; leave anything
    else unchanged.
    """
    if kind is not Kind.UNIX_SECONDS or text.isdigit():
        return text
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return text
    zoned = at if at.tzinfo else at.replace(tzinfo=EXCHANGE_TZ)
    return str(int(zoned.timestamp()))


# ------------------------------------------------------------------------------------ the answer


async def answer(client: BrokerClient, asked: Asked, account: str) -> Reply:
    """Read one page and return it ready for JSON, or why not; `account` fills in a missing id."""
    path = dict(asked.path)
    missing = [hole for hole in path_parameters(asked.endpoint) if hole not in path]
    try:
        if "user_id" in missing:
            path["user_id"] = str((await client.user()).user_id)
        if "sub_account_id" in missing:
            path["sub_account_id"] = (await choose_account(client, account)).id
        reply = await client.ask(asked.codec, path, tuple(asked.query.items()))
    except BrokerError as error:
        if isinstance(error, Refused) and is_unknown(error):
            return _not_found(error, asked)
        return refused("E-API-005" if refuses_key(error) else "E-NET-002", str(error))
    raw = reply.payload.raw.decode("utf-8")
    payload = compact(reply.payload.value) if len(raw) <= REPLY_CHARACTERS_MAX else ""
    if len(payload) + len(raw) > REPLY_CHARACTERS_MAX:
        text = f"the answer has {len(raw):,} characters; ask for less: a page, a shorter range"
        return refused("E-API-004", text)
    follows = is_paged(asked.endpoint) and has_next(reply.value, asked.page)
    return {
        "ok": True,
        "payload": payload,
        "raw": raw,
        "next_page": asked.page + 1 if follows else None,
        "drift": [str(each) for each in reply.drift],
    }


def _not_found(error: Refused, asked: Asked) -> Reply:
    """Say which name the broker does not know, or that it has no such read at all."""
    symbol = asked.path.get("symbol") or asked.query.get("symbol")
    names = " ".join(f"'{name}'" for name in asked.path.values())
    code, message = "E-API-006", f"the broker knows no {names}"
    if error.error_code == _NO_DEPTH:
        message = f"the broker has no order book of {symbol}"
    elif symbol is not None and len(asked.path) <= 1:
        code, message = "E-SYM-001", f"the broker knows no '{symbol}'"
    elif not names:
        message = f"{error}: it has no such read"
    return refused(code, message)


def asked_by(request: Request) -> Asked:
    """Parse a request of the control socket; raises OperatorMistake."""
    words = request.get("words")
    given = words if isinstance(words, dict) else {}
    return asked_for(str(request.get("name")), {str(k): str(v) for k, v in given.items()})


async def follow(ask: AskPage, asked: Asked) -> AsyncIterator[Reply]:
    """Yield the requested page and all that follow, until one repeats."""
    before: object = None
    for _ in range(PAGES_MAX):
        reply = await ask(asked)
        if reply.get("payload") == before:
            return
        yield reply
        before, page = reply.get("payload"), reply.get("next_page")
        if not isinstance(page, int):
            return
        asked = asked.at_page(page)


# ------------------------------------------------------------------------------- a client of ours


@asynccontextmanager
async def own_broker(loaded: Loaded) -> AsyncIterator[Broker]:
    """Open a client to the configured broker. Raises OperatorMistake without address or key."""
    access = access_of(loaded)
    broker = connect_broker(loaded, access, SystemEnvironment(access), lambda _: None)
    try:
        yield broker
    finally:
        await broker.close()
