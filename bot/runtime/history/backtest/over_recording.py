"""Runs a backtest over recorded days: strategies see the quotes and depths that were polled then.

    recorded days ── the market's events ─► PlayedMarket ─► Engine ── orders ─► PlayedMarket

Only the market is taken from the recording. Its strategies, operator, broker and machine are left
out; days begin and end as recorded, timers fire at these strategies' times.
"""

from collections import deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Final

from bot.config.problems import ExitCode, OperatorMistake
from bot.domain.account import ShareholderRight
from bot.domain.instrument import Exchange, Phase
from bot.domain.local_time import instant_of
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
from bot.domain.quote import BarsRead, ClosesRead, Quote
from bot.domain.recovery import Recovery
from bot.domain.rulebook import Rulebook
from bot.engine.engine import Engine
from bot.engine.settings import Invoke
from bot.runtime.history.backtest.conditions import assumptions_of_recording
from bot.runtime.history.backtest.loop import Timer, timers_of
from bot.runtime.history.backtest.played_market import PlayedMarket
from bot.runtime.history.backtest.result import (
    ACCOUNT_ID,
    BacktestResult,
    BacktestSpec,
    Collected,
    owned_at,
)
from bot.runtime.history.recording.recorded_days import RecordedDays
from bot.runtime.history.recording.recordings import Unusable
from bot.runtime.history.recording.replay import Progress
from bot.sandbox.exchange.accounts import Account
from bot.sandbox.exchange.obligations import Entitlement, EntitlementKind
from bot.sandbox.scenario import AccountScript

OF_ALL: Final = (
    *(PhaseChanged, InstrumentsRead, ClosesRead, Reconciled, EarlierOrdersRead),
    *(TodaysOrdersRead, TradingDayEnded),
)
"""Events that apply to every strategy of that day alike."""
OF_A_START: Final = (EarlierOrdersRead, Reconciled)
"""Events at the beginning of a day: the recorded bot may have been restarted, this one runs on."""


def play_recording(
    spec: BacktestSpec, recorded: RecordedDays, progress: Progress, *, invoke: Invoke
) -> BacktestResult:
    """Play the days of a recording and return the result. Raises OperatorMistake if
    it is damaged.
    """
    run = _Run(spec, recorded, invoke)
    try:
        run.market.through(run.engine, run.events(progress), run.kept)
    except Unusable as error:
        text = f"{error}. Leave this day out"
        raise OperatorMistake.of("E-REC-003", text, ExitCode.USAGE) from error
    return run.result()


class _Run:
    """One backtest in progress."""

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
        self._payments = ExDatePayments(self.market, spec.rulebook)
        self._warm: set[str] = set()
        self._looks = 0
        self._begun = set[type[Event]]()

    # ------------------------------------------------------------------------------- the events

    def events(self, progress: Progress) -> Iterator[Event]:
        """Yield the events of the days for these strategies, each day from its beginning to its
        last event; an account read has the account's value at that time.
        """
        spec, every = self._spec, timers_of(self._spec.strategies)
        today, now, timers = None, None, deque[tuple[datetime, Timer]]()
        begun_at = datetime.min.replace(tzinfo=UTC)
        for event in self._recorded.events(spec.first, spec.last, progress):
            begun = None  # the day that begins when a run starts, or within a continuing one
            if isinstance(event, Recovered):
                begun = event.recovery.trading_date
            elif isinstance(event, TradingDayStarted):
                begun = event.trading_date
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
                while timers and timers[0][0] < event.at:  # the recording bot was not running then
                    timers.popleft()
            if today is None or begun is not None or (heard := self._heard(event)) is None:
                continue
            # A timer fires at its second; what was read then (a phase, a depth) came with an
            # answer.
            while timers and begun_at < event.at >= timers[0][0]:
                at, timer = timers.popleft()
                yield TimerFired(at, timer.strategy, timer.at)
            now = event.at
            yield heard
        if today is not None and now is not None:
            self._end_day(today, now)
            yield OperatorActed(now, Action.STOP, "the end of the backtest", "backtest")

    def _heard(self, event: Event) -> Event | None:
        """Return the events for these strategies from a recorded one; the market simulates the
        account.
        """
        match event:
            case QuoteReceived(at=at, quote=quote):
                self._payments.see(at, quote)
                self._looks += (is_own := quote.symbol in self._symbols)
                return event if is_own else None
            case DepthReceived(depth=depth):
                self._looks += (is_own := depth.symbol in self._symbols)
                return event if is_own else None
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

    def _end_day(self, day: date, at: datetime) -> None:
        self._payments.end_day(at)
        if self._spec.rulebook.calendar.is_trading_day(day):
            closes = self.market.closes()
            self.kept.end_day(at, self.market.account, closes, closes)

    # ------------------------------------------------------------------------------- the result

    def result(self) -> BacktestResult:
        spec = self._spec
        cold = sorted(s for s, width in self._series if width and s not in self._warm)
        said = assumptions_of_recording(spec, self._recorded, cold)
        return self.kept.result(
            spec,
            capital=self._capital,
            assumptions=(*said, *self._payments.told),
            gaps=self._recorded.gaps,
            looks=self._looks,
        )


class ExDatePayments:
    """Ex-date payments of a simulated account. All payments of a day are made at once: the engine
    sees one change of cash, which one right has to explain.
    """

    def __init__(self, market: PlayedMarket, rulebook: Rulebook) -> None:
        self.told: list[str] = []
        self._market, self._rulebook = market, rulebook
        self._day = date.min
        self._held: dict[str, int] = {}
        """What the account held when the day began, which determines who is entitled."""
        self._awaited: dict[str, int] = {}
        """By symbol, the previous close; its reference is still to come."""
        self._falls: dict[str, int] = {}
        """By symbol, the fall of one share."""

    def start_day(self, day: date, symbols: Collection[str]) -> None:
        """Record the holdings before a day begins; on the first day they are valued at the
        reference.
        """
        held = self._market.account.held
        self._held = {symbol: held(symbol) for symbol in symbols} if self._day != date.min else {}
        self._day = day

    def learn(self, event: ClosesRead) -> None:
        """Record which symbols go ex on this day; may be called more than once, and late."""
        for close in event.closes:
            symbol = close.symbol
            is_new = symbol not in self._awaited and symbol not in self._falls
            if self._day in close.ex_dates and self._held.get(symbol) and is_new:
                if close.price is None or close.day >= self._day:
                    self._tell_loss(symbol)
                else:
                    self._awaited[symbol] = close.price

    def see(self, at: datetime, quote: Quote) -> None:
        """Take the reference from a symbol's first quote in trading. Once every symbol that goes ex
        today has its reference, pay the account the falls of all of them.
        """
        is_open = self._rulebook.phase_at(quote.exchange, at) is not Phase.CLOSED
        if quote.symbol not in self._awaited or quote.reference is None or not is_open:
            return
        close = self._awaited.pop(quote.symbol)
        if quote.exchange is Exchange.UPCOM:
            self._tell_loss(quote.symbol)
        else:
            self._falls[quote.symbol] = max(0, close - quote.reference)
        if not self._awaited:
            self._pay(at)

    def end_day(self, at: datetime) -> None:
        """Pay what is still due; report symbols without a quote as a loss."""
        for symbol in self._awaited:
            self._tell_loss(symbol)
        self._awaited.clear()
        self._pay(at)
        self._falls.clear()

    def _pay(self, at: datetime) -> None:
        falls = {
            symbol: (a_share, self._held.pop(symbol, 0)) for symbol, a_share in self._falls.items()
        }
        rights, told = pay_falls(self._market.account, self._rulebook, self._day, falls, at)
        self._market.rights = (*self._market.rights, *rights)
        self.told += told

    def _tell_loss(self, symbol: str) -> None:
        self._held.pop(symbol, None)
        text = f"{symbol} went ex on {self._day}: what its holder got is not known, so the fall"
        self.told.append(f"{text} of its price is a loss here")


def pay_falls(
    account: Account,
    rulebook: Rulebook,
    day: date,
    falls: Mapping[str, tuple[int, int]],
    at: datetime,
) -> tuple[list[ShareholderRight], list[str]]:
    """Pay in cash the falls of shares on their ex-date: by symbol, a share's fall and the shares
    held. Return the rights that explain it, and sentences.

    The engine sees one change of cash a day, so there is at most one right for all of it.
    """
    net, rights, told = 0, list[ShareholderRight](), list[str]()
    for symbol, (a_share, held) in falls.items():
        if a_share > 0 and held:
            number, kind, ratio = f"{symbol}-{day}", EntitlementKind.CASH_DIVIDEND, f"1:{a_share}"
            paid = a_share * held
            account.entitle(
                Entitlement(number, kind, symbol, ratio, day, at, owned=held, dividend=paid)
            )
            net += paid
            rights = [ShareholderRight(number, symbol, kind, ratio, held, net, 0, day)]
            text = f"{symbol} went ex on {day}: the {a_share:,} VND that a share fell by were paid"
            text += f" in cash for {held:,} shares, untaxed; of a dividend"
            told.append(f"{text} {rulebook.dividend_tax(paid):,} VND would be kept back as tax")
    return rights, told
