"""Who plays one symbol through its days, whether what is played was drawn or recorded."""

from collections import deque
from collections.abc import Sequence
from datetime import UTC, date, datetime
from functools import partial

from bot.domain.instrument import EXCHANGE_TZ
from bot.sandbox.markets.flow.day import FlowSpan, spans_from
from bot.sandbox.markets.source import MarketAccess, Participant
from bot.sandbox.scenario import Scenario, SymbolScript


class DayByDay(Participant):
    """From an instant on each day begins, and its phases follow one another."""

    def __init__(self, script: SymbolScript, scenario: Scenario, access: MarketAccess) -> None:
        super().__init__()
        self._script, self._seed, self._access = script, scenario.seed, access
        self._rulebook, self._opening = access.rulebook, scenario.starts_at
        self._spans: deque[FlowSpan] = deque()

    def _next_day(self) -> int:
        start, exchange = self._opening, self._script.exchange
        spans = tuple(spans_from(self._rulebook, exchange, start))
        closed = datetime.fromtimestamp(spans[-1].end, UTC) if spans else start
        self._opening = self._rulebook.next_phase_change(exchange, closed).at
        return self._at(int(start.timestamp()), partial(self._begin, start, spans))

    def _begin(self, start: datetime, spans: tuple[FlowSpan, ...]) -> int:
        if spans and self._begin_day(start.astimezone(EXCHANGE_TZ).date(), spans):
            self._spans = deque(spans)
        return self._next_span()

    def _next_span(self) -> int:
        if not self._spans:
            return self._next_day()
        span = self._spans.popleft()
        return self._at(span.start, partial(self._play, span))

    def _begin_day(self, day: date, spans: Sequence[FlowSpan]) -> bool:
        """Prepare the phases that are left of a day; return whether any is played."""
        raise NotImplementedError

    def _play(self, span: FlowSpan) -> int:
        raise NotImplementedError
