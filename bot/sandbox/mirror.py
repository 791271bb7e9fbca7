"""The paper broker: simulated account and orders in a real broker's relayed market.

`MirrorShell` is the ASGI application. The real broker's answers are passed back unchanged: status,
body, rate limit. Everything other than a GET of market data is handled by the sandbox; no order can
get further.

`Watch` keeps the mirrored market current: what was seen, how old it is, and what to read next. It
uses every relayed answer; an answer becomes an input of the mirror only if an order of ours works
in that symbol and it differs from the last, so that the ledger stays small. If depth or phase get
too old, or the broker's phase is not the timetable's, the mirror is blind: nothing is matched and
new orders are held until it can see again. The market is read before an order is taken.
"""

import hmac
import json
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.utils import formatdate
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

from pydantic import JsonValue
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bot.clock import Clock
from bot.domain.instrument import Exchange, Phase
from bot.domain.quote import Depth, Quote
from bot.domain.rulebook import Rulebook
from bot.protocol.endpoints import ENDPOINTS
from bot.protocol.endpoints.endpoint import Endpoint, Tier, build_target
from bot.protocol.endpoints.trading import (
    AMEND_ORDER,
    MARKET_PHASE,
    PLACE_ORDER,
    STOCK_DEPTH,
    STOCK_QUOTE,
)
from bot.protocol.envelope import Answer, NoAnswer, open_envelope, rate_limit_reset, seal_error
from bot.protocol.errors import BrokerRefusal, MalformedAnswer
from bot.protocol.quotes import decode_depth, decode_market_phase, decode_quote
from bot.protocol.signing import HEADER_API_KEY
from bot.protocol.values.border import MarketPhase
from bot.sandbox.api.call import JSON, Directory, exact_target, read_body
from bot.sandbox.errors import NotRelayed
from bot.sandbox.exchange.day import AUCTIONS
from bot.sandbox.markets.mirror.market import depth_facts, quote_facts
from bot.sandbox.sandbox import Sandbox

DEPTH_AGE_MAX: Final = timedelta(seconds=15)
"""In market time: no order is matched on an older depth."""
PHASE_AGE_MAX: Final = timedelta(seconds=150)
FRESH: Final = timedelta(seconds=1)
"""Before a new order, data no older than this is not read again."""
LOOK_EVERY: Final = timedelta(seconds=5)
"""How often quote and depth are read while an order works, unless the bot polls them."""
PHASE_EVERY: Final = timedelta(seconds=60)
LOOKS_AT_ONCE: Final = 4
QUOTA_WINDOW: Final = timedelta(seconds=60)
BACKGROUND_PERCENT: Final = 80
"""How much of the quota the watch may use by itself; a new order may use all of it."""
WATCHED: Final = AUCTIONS | {Phase.PROGRESS}
UNTRADED: Final = frozenset({Phase.BREAK, Phase.CLOSED})
"""What is displayed then is of before: an order that waits would meet it when trading begins."""

RELAYED: Final[Mapping[str, Endpoint]] = MappingProxyType(
    {
        name: endpoint
        for name, endpoint in ENDPOINTS.items()
        if endpoint.method == "GET" and endpoint.tier is Tier.ONE and not endpoint.is_write
    }
)
"""The only calls relayed to the real broker, by name: reads that need only the API key (broker open
API 0.2.0-preview.3, tiers). They include no account, order or 2FA call.
"""
Relay = Callable[[Endpoint, str], Awaitable[Answer | NoAnswer]]
"""Sends one read of the table to the real broker, by endpoint and exact target."""

Value = TypeVar("Value")
Look = tuple[Endpoint, str]


def relayed(endpoint: Endpoint) -> Endpoint:
    """Return the table's own endpoint of that name; raises NotRelayed for any other call."""
    found = RELAYED.get(endpoint.name)
    if found is None or found != endpoint:
        raise NotRelayed(endpoint.method, endpoint.path)
    return found


@dataclass(frozen=True, slots=True)
class Seen(Generic[Value]):
    """Something that the broker reported, and when (market time)."""

    value: Value
    at: datetime


@dataclass(frozen=True, slots=True)
class Clocks:
    """Market time is for the age of data; the quota is counted in wire time."""

    market: Clock
    wire: Clock


class Watch:
    """Sits between the relay and a sandbox with a mirrored market. `quota` is requests a minute."""

    def __init__(
        self, sandbox: Sandbox, relay: Relay, clocks: Clocks, *, rulebook: Rulebook, quota: int
    ) -> None:
        self._sandbox = sandbox
        self._relay = relay
        self._clocks = clocks
        self._rulebook = rulebook
        self._quota = quota
        self._exchanges = {each.symbol: each.exchange for each in sandbox.scenario.symbols}
        self._quotes: dict[str, Seen[Quote]] = {}
        self._depths: dict[str, Seen[Depth]] = {}
        self._phases: dict[Exchange, Seen[MarketPhase]] = {}
        self._observed: dict[tuple[str, str], Mapping[str, object]] = {}
        """The last input of each kind and symbol."""
        self._asked: deque[datetime] = deque()
        self._closed_until: datetime | None = None
        sandbox.before_moving = self._before_moving

    async def ask(self, endpoint: Endpoint, target: str) -> Answer | NoAnswer:
        """Relay one read and use its answer. Raises NotRelayed."""
        relayed(endpoint)
        self._asked.append(self._clocks.wire.now())
        answer = await self._relay(endpoint, target)
        if isinstance(answer, Answer):
            if answer.http_status == 429:
                reset = rate_limit_reset(answer)
                self._closed_until = reset or self._clocks.wire.now() + QUOTA_WINDOW
            with suppress(BrokerRefusal, MalformedAnswer):
                self._learn(endpoint, answer)
        return answer

    async def tick(self) -> None:
        """Bring the market up to its clock, go blind where data is too old, and read again."""
        self._sandbox.advance(self._clocks.market.now())
        self._check()
        wanted: list[Look] = []
        for symbol in sorted(self._sandbox.working_symbols()):
            if (
                self._rulebook.phase_at(self._exchanges[symbol], self._clocks.market.now())
                in WATCHED
            ):
                wanted += self._looks(symbol, LOOK_EVERY, PHASE_EVERY)
        for endpoint, target in wanted[:LOOKS_AT_ONCE]:
            if self._has_room(self._quota * BACKGROUND_PERCENT // 100):
                await self.ask(endpoint, target)

    async def prepare(self, symbol: str) -> None:
        """Read a symbol's market before an order in it is taken or changed, as it is matched on
        this.
        """
        if symbol not in self._exchanges:
            return
        for endpoint, target in list(self._looks(symbol, FRESH, PHASE_EVERY)):
            if self._has_room(self._quota):
                await self.ask(endpoint, target)
        if symbol in self._quotes:
            self._observe("mirror_quote", quote_facts(self._quotes[symbol].value), repeat=True)
        self._observe_depth(symbol, repeat=True)

    def _has_room(self, most: int) -> bool:
        """Return whether another read of our own fits the key's quota for a minute."""
        now = self._clocks.wire.now()
        while self._asked and self._asked[0] <= now - QUOTA_WINDOW:
            self._asked.popleft()
        is_open = self._closed_until is None or now >= self._closed_until
        return is_open and len(self._asked) < most

    def _looks(self, symbol: str, age_max: timedelta, phase_age_max: timedelta) -> Iterator[Look]:
        exchange, now = self._exchanges[symbol], self._clocks.market.now()
        phase = self._phases.get(exchange)
        is_expected = phase is not None and self._is_in_step(phase.value, now)
        if _is_older(phase, phase_age_max if is_expected else FRESH, now):
            yield MARKET_PHASE, build_target(MARKET_PHASE, {}, (("exchange", exchange.value),))
        for endpoint, seen in ((STOCK_QUOTE, self._quotes), (STOCK_DEPTH, self._depths)):
            if _is_older(seen.get(symbol), age_max, now):
                yield endpoint, build_target(endpoint, {"symbol": symbol})

    def _learn(self, endpoint: Endpoint, answer: Answer) -> None:
        now, working = self._clocks.market.now(), self._sandbox.working_symbols
        if endpoint.name == STOCK_QUOTE.name:
            quote = decode_quote(open_envelope(endpoint, answer))
            if quote.symbol in self._exchanges:
                self._quotes[quote.symbol] = Seen(quote, now)
                if quote.symbol in working():
                    self._observe("mirror_quote", quote_facts(quote))
                else:
                    self._sandbox.show(quote)
        elif endpoint.name == STOCK_DEPTH.name:
            depth = decode_depth(open_envelope(endpoint, answer))
            self._depths[depth.symbol] = Seen(depth, now)
            if depth.symbol in working():
                self._observe_depth(depth.symbol)
        elif endpoint.name == MARKET_PHASE.name:
            phase = decode_market_phase(open_envelope(endpoint, answer))
            self._phases[phase.exchange] = Seen(phase, now)
            self._check()

    def _observe(
        self, kind: str, facts: Mapping[str, Any], *, repeat: bool = False, **more: JsonValue
    ) -> None:
        """Pass on what differs from before; a difference in `more` alone does not count."""
        key = (kind, str(facts["symbol"]))
        if repeat or self._observed.get(key) != facts:
            self._observed[key] = facts
            self._sandbox.observe(kind, **more, **facts)

    def _observe_depth(self, symbol: str, *, repeat: bool = False) -> None:
        why = self._why_blind(symbol)
        if why is not None:
            self._lose(symbol, why)
            return
        seen = self._depths[symbol]
        self._observed.pop(("mirror_lost", symbol), None)
        facts, seen_at = depth_facts(seen.value), seen.at.isoformat()
        self._observe("mirror_depth", facts, repeat=repeat, seen=seen_at)

    def _lose(self, symbol: str, why: str) -> None:
        self._observed.pop(("mirror_depth", symbol), None)
        self._observe("mirror_lost", {"symbol": symbol, "why": why})

    def _check(self) -> None:
        now = self._clocks.market.now()
        for symbol in self._sandbox.working_symbols():
            is_watched = self._rulebook.phase_at(self._exchanges[symbol], now) in WATCHED
            if is_watched and (why := self._why_blind(symbol)) is not None:
                self._lose(symbol, why)

    def _before_moving(self, to: datetime) -> None:
        """Let no auction end on a depth that is too old by then: while the program or its machine
        was away, or a read hung, nobody looked. What is unchanged is no input, so only the watch
        knows when it was seen last.
        """
        due, since = self._sandbox.next_due(), self._sandbox.now
        if due is None or due > to:
            return
        for symbol in sorted(self._sandbox.working_symbols()):
            ends_at = self._rulebook.next_phase_change(self._exchanges[symbol], since).at
            if ends_at <= to and _is_older(self._depths.get(symbol), DEPTH_AGE_MAX, ends_at):
                self._observed.pop(("mirror_depth", symbol), None)
                self._sandbox.lose(symbol, f"no depth of the last {DEPTH_AGE_MAX.seconds} s")

    def _why_blind(self, symbol: str) -> str | None:
        """Return why a symbol's market cannot be seen now, None if it can."""
        now, exchange = self._clocks.market.now(), self._exchanges[symbol]
        phase, depth = self._phases.get(exchange), self._depths.get(symbol)
        quote = self._quotes.get(symbol)
        if quote is not None and quote.value.exchange is not exchange:
            listed = quote.value.exchange
            return f"{symbol} trades on {listed} now, this account has it on {exchange}"
        if phase is None or _is_older(phase, PHASE_AGE_MAX, now):
            return f"the broker has not reported the phase of {exchange}"
        planned = self._rulebook.phase_at(exchange, now)
        if not self._is_in_step(phase.value, now):
            return f"the broker says {phase.value.stated}, the timetable {planned}"
        if planned in UNTRADED:
            return f"{exchange} does not trade now"
        if depth is None or _is_older(depth, DEPTH_AGE_MAX, now):
            return f"no depth of the last {DEPTH_AGE_MAX.seconds} s"
        if self._rulebook.next_phase_change(exchange, depth.at).at <= now:
            return "no depth of this phase yet"
        return None

    def _is_in_step(self, stated: MarketPhase, now: datetime) -> bool:
        return stated.phase is self._rulebook.phase_at(stated.exchange, now)


def _is_older(seen: Seen[Any] | None, age: timedelta, now: datetime) -> bool:
    return seen is None or now - seen.at > age


_PASSED_ON: Final = (
    "content-type",
    "retry-after",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
)
"""Headers of the real broker that are passed back with its answer."""
_UNREACHABLE: Final = 502
_KEY_HEADER: Final = HEADER_API_KEY.lower().encode()


class MirrorShell:
    """Answers what the sandbox answers, and passes the other reads to the watch."""

    def __init__(self, sandbox: Sandbox, watch: Watch, wire: Clock) -> None:
        self._sandbox = sandbox
        self._app: ASGIApp = sandbox.app
        self._watch = watch
        self._wire = wire
        self._directory = Directory(ENDPOINTS.values())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint, values = self._directory.find(scope["method"], scope["path"])
        if endpoint is not None and endpoint.name in RELAYED:
            key = next((value for name, value in scope["headers"] if name == _KEY_HEADER), b"")
            # The sandbox itself refuses a wrong key.
            if hmac.compare_digest(key, self._sandbox.scenario.key_text.encode()):
                answer = await self._watch.ask(endpoint, exact_target(scope))
                await self._response(answer)(scope, receive, send)
                return
        if endpoint in (PLACE_ORDER, AMEND_ORDER):
            receive = await self._prepared(values.get("order_id"), receive)
        await self._app(scope, receive, send)

    def _response(self, answer: Answer | NoAnswer) -> Response:
        date = {"date": formatdate(int(self._wire.now().timestamp()), usegmt=True)}
        if isinstance(answer, NoAnswer):
            body = seal_error(str(_UNREACHABLE), f"the broker did not answer: {answer.reason}")
            return Response(body, _UNREACHABLE, date, JSON)
        kept = {name: answer.headers[name] for name in _PASSED_ON if name in answer.headers}
        return Response(answer.body, answer.http_status, kept | date)

    async def _prepared(self, order_id: str | None, receive: Receive) -> Receive:
        """Read the order's market first, and pass its body on unchanged."""
        body = await read_body(receive)
        symbol: object = None
        if order_id is not None:
            symbol = self._sandbox.symbol_of(order_id)
        else:
            # The sandbox reports what is wrong with a body.
            with suppress(ValueError, KeyError, TypeError):
                symbol = json.loads(body)["symbol"]
        if isinstance(symbol, str):
            await self._watch.prepare(symbol)

        async def same_body() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        return same_body
