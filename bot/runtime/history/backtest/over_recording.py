"""Runs a backtest over recorded days: strategies see the quotes and depths that were polled then.

    recorded days ── the market's events ─► PlayedMarket ─► Engine ── orders ─► PlayedMarket

Of the recording only the market counts. Who traded then, what its operator did and how broker and
machine were is left out; days begin and end as they did, timers come at these strategies' times.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Final

from bot.config.problems import ExitCode, OperatorMistake
from bot.domain.message import (
    AccountRead,
    DepthReceived,
    Event,
    InstrumentsRead,
    PhaseChanged,
    QuoteReceived,
    Reconciled,
    Recovered,
    TimerFired,
    TodaysOrdersRead,
    TradingDayStarted,
)
from bot.domain.operations import Action, EarlierOrdersRead, OperatorActed, TradingDayEnded
from bot.domain.quote import BarsRead, ClosesRead
from bot.domain.recovery import Recovery
from bot.domain.timetable import instant_of
from bot.engine.engine import Engine, Invoke
from bot.runtime.history.backtest.assumptions import assumptions_of_recording
from bot.runtime.history.backtest.collect import Collected
from bot.runtime.history.backtest.deadlines import Timer, timers_of
from bot.runtime.history.backtest.ex_date_payments import ExDatePayments
from bot.runtime.history.backtest.played_market import PlayedMarket
from bot.runtime.history.backtest.result import BacktestResult, BacktestSpec, EquityPoint, owned_at
from bot.runtime.history.recording.recorded_days import RecordedDays
from bot.runtime.history.recording.recordings import Unusable
from bot.runtime.history.recording.replay import Progress
from bot.sandbox.scenario import AccountScript

ACCOUNT_ID: Final = "0000000001"
OF_ALL: Final = (
    *(PhaseChanged, InstrumentsRead, ClosesRead, Reconciled, EarlierOrdersRead),
    *(TodaysOrdersRead, TradingDayEnded),
)
"""Events that every strategy of that day heard alike."""
OF_A_START: Final = (EarlierOrdersRead, Reconciled)
"""Of the beginning of a day: where the recorded bot was started again, this one runs on."""


def play_recording(
    spec: BacktestSpec, recorded: RecordedDays, progress: Progress, *, invoke: Invoke
) -> BacktestResult:
    """Play the days of a recording and return what came of it. Raises OperatorMistake for one that
    is damaged.
    """
    run = _Run(spec, recorded, invoke)
    try:
        run.market.through(run.engine, run.events(progress), run.kept)
    except Unusable as error:
        text = f"{error}. Leave this day out"
        raise OperatorMistake.of("E-REC-003", text, ExitCode.USAGE) from error
    return run.result()


class _Run:
    """One backtest on its way."""

    def __init__(self, spec: BacktestSpec, recorded: RecordedDays, invoke: Invoke) -> None:
        self._spec, self._recorded = spec, recorded
        self._symbols = {symbol for each in spec.strategies for symbol in each.plan.symbols}
        quotes = {name: quote for name, quote in recorded.quotes.items() if name in self._symbols}
        known = {each.symbol: each for one in spec.strategies for each in one.instruments}
        references = {name: quote.reference or quote.last for name, quote in quotes.items()}
        script = AccountScript(id=ACCOUNT_ID, cash=spec.cash, holdings=dict(spec.holdings))
        self.market = PlayedMarket(
            quotes,
            {**known, **{name: recorded.instruments.get(name, known[name]) for name in quotes}},
            recorded.deep,
            script,
            at=instant_of(
                next(day for day in recorded.days if day >= spec.first), datetime.min.time()
            ),
            rulebook=spec.rulebook,
            fill=spec.fill,
        )
        shared = replace(spec.settings.account_limits, max_account_age=None)
        self.engine = Engine(
            rulebook=spec.rulebook,
            strategies=[
                replace(each, plan=replace(each.plan, account=script.extended_id))
                for each in spec.strategies
            ],
            settings=replace(spec.settings, account_limits=shared),
            invoke=invoke,
        )
        self._series = {
            (symbol, each.plan.wake.bar) for each in spec.strategies for symbol in each.plan.symbols
        }
        self._owned = owned_at(spec, references)
        self._capital = spec.cash + sum(
            shares * references[symbol] for symbol, shares in spec.holdings.items()
        )
        self.kept = Collected()
        self._equity: list[EquityPoint] = []
        self._closes: dict[str, tuple[int, int]] = {}
        self._payments = ExDatePayments(self.market, spec.rulebook)
        self._warm: set[str] = set()
        self._looks = 0
        self._begun = set[type[Event]]()

    # ------------------------------------------------------------------------------- the events

    def events(self, progress: Progress) -> Iterator[Event]:
        """Yield what these strategies hear of the days, each from its beginning to its last event;
        an account is what it is worth then.
        """
        spec, every = self._spec, timers_of(self._spec.strategies)
        today, now, timers = None, None, deque[tuple[datetime, Timer]]()
        begun_at = datetime.min.replace(tzinfo=UTC)
        for event in self._recorded.events(spec.first, spec.last, progress):
            begun = _day_begun(event)
            if begun is not None and begun != today:
                if today is not None and now is not None:
                    self._end_day(today, now)
                    yield TradingDayStarted(event.at, begun)
                else:
                    recovery = Recovery(begun, strategies=self._owned)
                    yield Recovered(event.at, recovery)
                today, begun_at = begun, event.at
                self._payments.start_day(today, self._symbols)
                self._begun.clear()
                timers = deque((instant_of(today, each.at), each) for each in every)
                while timers and timers[0][0] < event.at:  # nobody was there to hear it
                    timers.popleft()
            if today is None or begun is not None or (heard := self._heard(event)) is None:
                continue
            # A timer comes at its second, what is read then by an answer: a phase, a depth.
            while timers and begun_at < event.at >= timers[0][0]:
                at, timer = timers.popleft()
                yield TimerFired(at, timer.strategy, timer.at)
            now = event.at
            yield heard
        if today is not None and now is not None:
            self._end_day(today, now)
            yield OperatorActed(now, Action.STOP, "the end of the backtest", "backtest")

    def _heard(self, event: Event) -> Event | None:
        """Return what these strategies hear of an event; the market plays the account."""
        match event:
            case QuoteReceived(at=at, quote=quote):
                self._payments.see(at, quote)
                return self._looked(event) if quote.symbol in self._symbols else None
            case DepthReceived(depth=depth):
                return self._looked(event) if depth.symbol in self._symbols else None
            case BarsRead(symbol=symbol, width=width):
                self._warm.add(symbol)
                return event if (symbol, width) in self._series else None
            case AccountRead(rights=rights):
                return replace(event, rights=None if rights is None else ())
            case ClosesRead(closes=closes):
                own = tuple(each for each in closes if each.symbol in self._symbols)
                self._payments.learn(replace(event, closes=own))
                return replace(event, closes=own)
        if not isinstance(event, OF_ALL) or type(event) in self._begun:
            return None
        if isinstance(event, OF_A_START):
            self._begun.add(type(event))
        return event

    def _looked(self, event: Event) -> Event:
        self._looks += 1
        return event

    def _end_day(self, day: date, at: datetime) -> None:
        """Note what the account is worth when a day of trading has ended."""
        self._payments.end_day(at)
        if not self._spec.rulebook.calendar.is_trading_day(day):
            return
        closes, account = self.market.closes(), self.market.account
        for symbol, close in closes.items():
            self._closes[symbol] = self._closes.get(symbol, (close, 0))[0], close
        shares = sum(account.held(symbol) * close for symbol, close in closes.items())
        self._equity.append(EquityPoint(at, account.net_assets(closes) - shares, shares))

    # ------------------------------------------------------------------------------- the result

    def result(self) -> BacktestResult:
        spec, kept = self._spec, self.kept
        own_gaps = (
            gap
            for symbol in sorted(self._symbols)
            for gap in spec.source.gaps(symbol, spec.first, spec.last)
        )
        cold = sorted(s for s, width in self._series if width and s not in self._warm)
        return BacktestResult(
            plans=tuple(each.plan for each in spec.strategies),
            first=spec.first,
            last=spec.last,
            bars=0,
            bar_seconds=round(spec.source.width.total_seconds()),
            capital=self._capital,
            assumptions=(
                *assumptions_of_recording(spec, self._recorded, cold),
                *self._payments.told,
                *kept.told(),
            ),
            gaps=(*self._recorded.gaps, *own_gaps),
            orders=tuple(kept.orders.values()),
            fills=tuple(kept.fills),
            decisions=tuple(kept.decisions),
            counts=dict(sorted(kept.counts.items())),
            equity=tuple(self._equity),
            closes=self._closes,
            why_slow="",
            looks=self._looks,
        )


def _day_begun(event: Event) -> date | None:
    """Return the day that begins with an event: a run's start, or a day of one that goes on."""
    match event:
        case Recovered(recovery=recovery):
            return recovery.trading_date
        case TradingDayStarted(trading_date=day):
            return day
    return None
