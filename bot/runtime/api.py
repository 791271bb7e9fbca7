"""`bot api`: any read of the broker's API by the name of its call, with words from a command line.

The running bot answers over its control socket, so that its request budget counts these reads too;
without one a client of our own is opened. Either way one request is one page of one call, and what
comes back is the payload as the broker sent it, checked. Order writes and the 2FA exchange are not
among the calls.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from difflib import get_close_matches
from types import MappingProxyType
from typing import Final

from bot.broker.broker import Broker
from bot.broker.client import BrokerClient, ReadAnswer, check_query
from bot.broker.errors import BrokerError, Refused, WrongQuery, is_unknown, refuses_key
from bot.broker.paging import PAGE, PAGES_MAX, has_next, is_paged
from bot.config.problems import ExitCode, OperatorMistake, Problem
from bot.config.settings.load import Loaded
from bot.domain.account import SubAccount
from bot.domain.instrument import EXCHANGE_TZ
from bot.protocol.calls import CODECS
from bot.protocol.decode import decode_order_row, decode_todays_orders
from bot.protocol.endpoints import ENDPOINTS
from bot.protocol.endpoints.endpoint import Endpoint, path_parameters, with_defaults
from bot.protocol.envelope import Payload
from bot.protocol.query import Kind, Parameter
from bot.protocol.shaped import Codec
from bot.protocol.strict_json import compact
from bot.runtime.assemble import choose_account, connect_broker
from bot.runtime.control.socket import LINE_MAX, Reply, Request
from bot.runtime.worlds.environment import access_of
from bot.runtime.worlds.system import SystemEnvironment

REPLY_CHARACTERS_MAX: Final = LINE_MAX * 9 // 10
_SUGGESTIONS_MAX: Final = 3
_NO_DEPTH: Final = "ORDER_BOOK_NOT_SUPPORTED"
_FILLED_IN: Final = ("user_id", "sub_account_id")
"""Holes of paths that need not be given: they are the key's own user, the configured account."""
_ANYBODY: Final = SubAccount("", "", "")
_ANY_TIME: Final = datetime(2000, 1, 1, tzinfo=UTC)


def _checked_rows(payload: Payload) -> object:
    return decode_todays_orders(payload, account=_ANYBODY, requested_at=_ANY_TIME)


def _checked_row(payload: Payload) -> object:
    return decode_order_row(payload, account=_ANYBODY, requested_at=_ANY_TIME)


def _never(_: object) -> object:
    raise AssertionError("only the sandbox encodes")


READS: Final[Mapping[str, Codec[object]]] = MappingProxyType(
    {
        **CODECS,
        "todays_orders": Codec(ENDPOINTS["todays_orders"], _checked_rows, _never),
        "order_detail": Codec(ENDPOINTS["order_detail"], _checked_row, _never),
    }
)
"""Every read, by its name."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A read with its words sorted into path and query."""

    codec: Codec[object]
    path: Mapping[str, str]
    query: Mapping[str, str]

    @property
    def endpoint(self) -> Endpoint:
        """Which call it is."""
        return self.codec.endpoint

    @property
    def is_paged(self) -> bool:
        """Tell whether the call comes in pages."""
        return is_paged(self.endpoint)

    @property
    def page(self) -> int:
        """The page asked for, from 1."""
        return int(self.query.get(PAGE, 1))

    def at_page(self, page: int) -> "Asked":
        """The same at another page."""
        return replace(self, query={**self.query, PAGE: str(page)})

    def assumed(self) -> Mapping[str, str]:
        """What the broker will take where nothing was said."""
        full = with_defaults(self.endpoint, self.query)
        return {name: value for name, value in full.items() if name not in self.query}


AskPage = Callable[[Asked], Awaitable[Reply]]


# ------------------------------------------------------------------------------- what there is


def listed() -> list[dict[str, object]]:
    """Every read: name, method, path, tier and parameters, in the order of the document."""
    return [_row(READS[name].endpoint) for name in ENDPOINTS if name in READS]


def _row(endpoint: Endpoint) -> dict[str, object]:
    return {
        "name": endpoint.name,
        "method": endpoint.method,
        "path": endpoint.path,
        "tier": int(endpoint.tier),
        "parameters": [_parameter(one) for one in endpoint.takes],
    }


def _parameter(one: Parameter) -> dict[str, object]:
    return {
        "name": one.name,
        "kind": one.kind.value,
        "required": one.is_required,
        "default": one.default,
        "values": list(one.values),
    }


# ------------------------------------------------------------------------------ what is asked for


def asked_for(name: str, words: Mapping[str, str]) -> Asked:
    """Sort the words of a call; raises OperatorMistake that says what was likely meant."""
    codec = READS.get(name.replace("-", "_"))
    if codec is None:
        raise _mistake([Problem("E-API-001", _unknown(name))])
    holes = path_parameters(codec.endpoint)
    kinds = {one.name: one.kind for one in codec.endpoint.takes}
    path = {key: value for key, value in words.items() if key in holes}
    query = {
        key: _written(kinds.get(key, Kind.TEXT), value)
        for key, value in words.items()
        if key not in holes
    }
    _check(codec.endpoint, path, query)
    return Asked(codec, path, query)


def _unknown(name: str) -> str:
    if name.replace("-", "_") in ENDPOINTS:
        return f"'{name}' changes something, and bot api only reads; all it reads: bot api list"
    return f"no read '{name}'{_likely(name, READS)}"


def _check(endpoint: Endpoint, path: Mapping[str, str], query: Mapping[str, str]) -> None:
    assumed = {hole: "0" for hole in path_parameters(endpoint) if hole in _FILLED_IN}
    try:
        check_query(endpoint, {**assumed, **path}, tuple(query.items()))
    except WrongQuery as error:
        problems = list(_problems(endpoint, error))
        raise _mistake([*problems, Problem("E-API-003", f"usage: {usage(endpoint)}")]) from error


def _problems(endpoint: Endpoint, error: WrongQuery) -> Iterator[Problem]:
    known = [*path_parameters(endpoint), *(one.name for one in endpoint.takes)]
    for name, reason in error.faults:
        likely = "" if name in known else _likely(name, known)
        yield Problem("E-API-002", f"{endpoint.name} {name}: {reason}{likely}")


def usage(endpoint: Endpoint) -> str:
    """Return how a call is written: what is in brackets may be left out."""
    words = [f"[{h}=…]" if h in _FILLED_IN else f"{h}=…" for h in path_parameters(endpoint)]
    for one in endpoint.takes:
        word = f"{one.name}={one.default or '…'}"
        words.append(word if one.is_required else f"[{word}]")
    return " ".join(["bot api", endpoint.name, *words])


def _likely(name: str, known: Mapping[str, object] | list[str]) -> str:
    close = get_close_matches(name.replace("-", "_").lower(), list(known), n=_SUGGESTIONS_MAX)
    if not close:
        return "; all there are: bot api list" if isinstance(known, Mapping) else ""
    return f": did you mean {' or '.join(repr(one) for one in close)}?"


def _mistake(problems: list[Problem]) -> OperatorMistake:
    return OperatorMistake(problems, ExitCode.USAGE)


def _written(kind: Kind, text: str) -> str:
    """A day or an instant where the API wants Unix seconds; anything else is left as it is."""
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
    """Read one page and return it JSON-ready, or why not; `account` fills in a missing id."""
    try:
        path = await _filled(client, asked, account)
        heard = await client.ask(asked.codec, path, tuple(asked.query.items()))
    except BrokerError as error:
        return _refused(error, asked)
    return _reply(asked, heard)


async def _filled(client: BrokerClient, asked: Asked, account: str) -> Mapping[str, str]:
    missing = [hole for hole in path_parameters(asked.endpoint) if hole not in asked.path]
    found = dict(asked.path)
    if "user_id" in missing:
        found["user_id"] = str((await client.user()).user_id)
    if "sub_account_id" in missing:
        found["sub_account_id"] = (await choose_account(client, account)).id
    return found


def _refused(error: BrokerError, asked: Asked) -> Reply:
    if isinstance(error, Refused) and is_unknown(error):
        return _not_found(error, asked)
    code = "E-API-005" if refuses_key(error) else "E-NET-002"
    return {"ok": False, "code": code, "message": str(error)}


def _not_found(error: Refused, asked: Asked) -> Reply:
    """Say which name the broker does not know, or that it has no such read at all."""
    symbol = asked.path.get("symbol") or asked.query.get("symbol")
    if error.error_code == _NO_DEPTH:
        message = f"the broker has no order book of {symbol}"
        return {"ok": False, "code": "E-API-006", "message": message}
    if symbol is not None and len(asked.path) <= 1:
        return {"ok": False, "code": "E-SYM-001", "message": f"the broker knows no '{symbol}'"}
    names = " ".join(f"'{name}'" for name in asked.path.values())
    message = f"the broker knows no {names}" if names else f"{error}: it has no such read"
    return {"ok": False, "code": "E-API-006", "message": message}


def _reply(asked: Asked, heard: ReadAnswer[object]) -> Reply:
    raw = heard.payload.raw.decode("utf-8")
    payload = compact(heard.payload.value) if len(raw) <= REPLY_CHARACTERS_MAX else ""
    if len(payload) + len(raw) > REPLY_CHARACTERS_MAX:
        text = f"the answer has {len(raw):,} characters; ask for less: a page, a shorter range"
        return {"ok": False, "code": "E-API-004", "message": text}
    follows = is_paged(asked.endpoint) and has_next(heard.value, asked.page)
    return {
        "ok": True,
        "payload": payload,
        "raw": raw,
        "next_page": asked.page + 1 if follows else None,
        "drift": [str(each) for each in heard.drift],
    }


def asked_by(request: Request) -> Asked:
    """Return what a request of the control socket asks for; raises OperatorMistake."""
    words = request.get("words")
    given = words if isinstance(words, dict) else {}
    return asked_for(str(request.get("name")), {str(k): str(v) for k, v in given.items()})


async def follow(ask: AskPage, asked: Asked) -> AsyncIterator[Reply]:
    """Yield the page asked for and all that follow, until one is the same again."""
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
