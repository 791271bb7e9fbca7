"""Keeps the mirror in front of the market: what was seen, how old it is, and what to look at next.

Answers that pass by are learnt from; where an order of ours works they become inputs of the mirror,
and only then, and only when they differ, so that the ledger stays small. When depth or phase get
too old, or the broker's phase is not the timetable's, the mirror loses sight: nothing is matched
and new orders are held until it sees again. Before an order is taken its market is looked at.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

from bot.clock import Clock
from bot.domain.instrument import Exchange, Phase
from bot.domain.quote import Depth, Quote
from bot.domain.rulebook import Rulebook
from bot.protocol.answer import Answer, NoAnswer
from bot.protocol.decode import decode_depth, decode_market_phase, decode_quote
from bot.protocol.endpoints import ENDPOINTS
from bot.protocol.endpoints.endpoint import Endpoint, Tier, build_target
from bot.protocol.endpoints.trading import MARKET_PHASE, STOCK_DEPTH, STOCK_QUOTE
from bot.protocol.envelope import open_envelope, rate_limit_reset
from bot.protocol.errors import BrokerRefusal, MalformedAnswer
from bot.protocol.values.border import MarketPhase
from bot.sandbox.errors import NotRelayed
from bot.sandbox.exchange.timetable import AUCTIONS
from bot.sandbox.markets.mirror.market import depth_facts, quote_facts
from bot.sandbox.sandbox import Sandbox

DEPTH_AGE_MAX: Final = timedelta(seconds=15)
"""Of market time: no order is matched on an older depth."""
PHASE_AGE_MAX: Final = timedelta(seconds=150)
FRESH: Final = timedelta(seconds=1)
"""What a new order finds no older than this is not looked at again."""
LOOK_EVERY: Final = timedelta(seconds=5)
"""Where an order works, quote and depth are looked at so often unless the bot polls them anyway."""
PHASE_EVERY: Final = timedelta(seconds=60)
LOOKS_AT_ONCE: Final = 4
QUOTA_WINDOW: Final = timedelta(seconds=60)
BACKGROUND_PERCENT: Final = 80
"""Of the quota: the part up to which the watch looks by itself; a new order may use all of it."""
WATCHED: Final = AUCTIONS | {Phase.PROGRESS}

RELAYED: Final[Mapping[str, Endpoint]] = MappingProxyType(
    {
        name: endpoint
        for name, endpoint in ENDPOINTS.items()
        if endpoint.method == "GET" and endpoint.tier is Tier.ONE and not endpoint.is_write
    }
)
"""All that the real broker may be asked, by name: reads that need the API key only (broker open API
0.2.0-preview.3, tiers). No account, no order and no second factor is among them."""
Relay = Callable[[Endpoint, str], Awaitable[Answer | NoAnswer]]
"""Asks the real broker one read of the table, by endpoint and exact target."""

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
    """Something that the broker said, and when (market time)."""

    value: Value
    at: datetime


@dataclass(frozen=True, slots=True)
class Clocks:
    """Market time ages what was seen; the quota is counted in wire time."""

    market: Clock
    wire: Clock


class Watch:
    """Between the relay and a sandbox whose market is mirrored. `quota` is requests a minute."""

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
        self._told: dict[tuple[str, str], Mapping[str, object]] = {}
        self._asked: deque[datetime] = deque()
        self._closed_until: datetime | None = None
        self._learners: Mapping[str, Callable[[Any], None]] = {
            STOCK_QUOTE.name: lambda payload: self._learn_quote(decode_quote(payload)),
            STOCK_DEPTH.name: lambda payload: self._learn_depth(decode_depth(payload)),
            MARKET_PHASE.name: lambda payload: self._learn_phase(decode_market_phase(payload)),
        }

    # ---------------------------------------------------------------------------------- asking

    async def ask(self, endpoint: Endpoint, target: str) -> Answer | NoAnswer:
        """Relay one read and learn from the answer. Raises NotRelayed."""
        relayed(endpoint)
        self._asked.append(self._clocks.wire.now())
        answer = await self._relay(endpoint, target)
        if isinstance(answer, Answer):
            self._learn(endpoint, answer)
        return answer

    async def tick(self) -> None:
        """Bring the market up to its clock, lose sight of what is too old, and look again."""
        self._sandbox.advance(self._clocks.market.now())
        self._check()
        for endpoint, target in list(self._wanted())[:LOOKS_AT_ONCE]:
            if self._has_room(self._quota * BACKGROUND_PERCENT // 100):
                await self.ask(endpoint, target)

    async def prepare(self, symbol: str) -> None:
        """Look at a symbol before an order of it is taken or changed: it is matched on this."""
        if symbol not in self._exchanges:
            return
        for endpoint, target in list(self._looks(symbol, FRESH, PHASE_EVERY)):
            if self._has_room(self._quota):
                await self.ask(endpoint, target)
        if symbol in self._quotes:
            self._tell("mirror_quote", quote_facts(self._quotes[symbol].value), anew=True)
        self._tell_depth(symbol, anew=True)

    def _has_room(self, most: int) -> bool:
        """Tell whether a look of our own fits into what the key may ask in a minute."""
        now = self._clocks.wire.now()
        while self._asked and self._asked[0] <= now - QUOTA_WINDOW:
            self._asked.popleft()
        is_open = self._closed_until is None or now >= self._closed_until
        return is_open and len(self._asked) < most

    def _wanted(self) -> Iterator[Look]:
        for symbol in sorted(self._sandbox.working_symbols()):
            exchange = self._exchanges[symbol]
            if self._rulebook.phase_at(exchange, self._clocks.market.now()) in WATCHED:
                yield from self._looks(symbol, LOOK_EVERY, PHASE_EVERY)

    def _looks(self, symbol: str, age_max: timedelta, phase_age_max: timedelta) -> Iterator[Look]:
        exchange, now = self._exchanges[symbol], self._clocks.market.now()
        phase = self._phases.get(exchange)
        is_expected = phase is not None and self._is_in_step(phase.value, now)
        if _is_older(phase, phase_age_max if is_expected else FRESH, now):
            yield MARKET_PHASE, build_target(MARKET_PHASE, {}, (("exchange", exchange.value),))
        for endpoint, seen in ((STOCK_QUOTE, self._quotes), (STOCK_DEPTH, self._depths)):
            if _is_older(seen.get(symbol), age_max, now):
                yield endpoint, build_target(endpoint, {"symbol": symbol})

    # -------------------------------------------------------------------------------- learning

    def _learn(self, endpoint: Endpoint, answer: Answer) -> None:
        if answer.http_status == 429:
            self._closed_until = rate_limit_reset(answer) or self._clocks.wire.now() + QUOTA_WINDOW
        learner = self._learners.get(endpoint.name)
        if learner is None:
            return
        try:
            learner(open_envelope(endpoint, answer))
        except (BrokerRefusal, MalformedAnswer):
            return

    def _learn_quote(self, quote: Quote) -> None:
        if quote.symbol not in self._exchanges:
            return
        self._quotes[quote.symbol] = Seen(quote, self._clocks.market.now())
        if quote.symbol in self._sandbox.working_symbols():
            self._tell("mirror_quote", quote_facts(quote))
        else:
            self._sandbox.show(quote)

    def _learn_depth(self, depth: Depth) -> None:
        self._depths[depth.symbol] = Seen(depth, self._clocks.market.now())
        if depth.symbol in self._sandbox.working_symbols():
            self._tell_depth(depth.symbol)

    def _learn_phase(self, phase: MarketPhase) -> None:
        self._phases[phase.exchange] = Seen(phase, self._clocks.market.now())
        self._check()

    # --------------------------------------------------------------------------------- telling

    def _tell(self, kind: str, facts: Mapping[str, Any], *, anew: bool = False) -> None:
        key = (kind, str(facts["symbol"]))
        if anew or self._told.get(key) != facts:
            self._told[key] = facts
            self._sandbox.observe(kind, **facts)

    def _tell_depth(self, symbol: str, *, anew: bool = False) -> None:
        why = self._why_blind(symbol)
        if why is not None:
            self._lose(symbol, why)
            return
        seen = self._depths[symbol]
        facts = depth_facts(seen.value)
        key = ("mirror_depth", symbol)
        if anew or self._told.get(key) != facts:
            self._told.pop(("mirror_lost", symbol), None)
            self._told[key] = facts
            self._sandbox.observe("mirror_depth", seen=seen.at.isoformat(), **facts)

    def _lose(self, symbol: str, why: str) -> None:
        self._told.pop(("mirror_depth", symbol), None)
        self._tell("mirror_lost", {"symbol": symbol, "why": why})

    def _check(self) -> None:
        now = self._clocks.market.now()
        for symbol in self._sandbox.working_symbols():
            is_watched = self._rulebook.phase_at(self._exchanges[symbol], now) in WATCHED
            if is_watched and (why := self._why_blind(symbol)) is not None:
                self._lose(symbol, why)

    def _why_blind(self, symbol: str) -> str | None:
        """Say why a symbol's market is not seen now, None where it is."""
        now, exchange = self._clocks.market.now(), self._exchanges[symbol]
        phase, depth = self._phases.get(exchange), self._depths.get(symbol)
        quote = self._quotes.get(symbol)
        if quote is not None and quote.value.exchange is not exchange:
            return (
                f"{symbol} trades on {quote.value.exchange} now, this account has it on {exchange}"
            )
        if phase is None or _is_older(phase, PHASE_AGE_MAX, now):
            return f"the broker has not told the phase of {exchange}"
        if not self._is_in_step(phase.value, now):
            planned = self._rulebook.phase_at(exchange, now)
            return f"the broker says {phase.value.stated}, the timetable {planned}"
        if depth is None or _is_older(depth, DEPTH_AGE_MAX, now):
            return f"no depth of the last {DEPTH_AGE_MAX.seconds} s"
        if not self._is_of_this_phase(exchange, depth.at, now):
            return "no depth of this phase yet"
        return None

    def _is_in_step(self, told: MarketPhase, now: datetime) -> bool:
        return told.phase is self._rulebook.phase_at(told.exchange, now)

    def _is_of_this_phase(self, exchange: Exchange, at: datetime, now: datetime) -> bool:
        return self._rulebook.next_phase_change(exchange, at).at > now


def _is_older(seen: Seen[Any] | None, age: timedelta, now: datetime) -> bool:
    return seen is None or now - seen.at > age
