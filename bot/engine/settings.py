"""The engine's settings: how fresh, how long, how often. All durations are market time."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

from bot.domain.errors import Fault
from bot.domain.instrument import Instrument
from bot.domain.plan import NONE, AccountLimits, Limits, StrategyPlan
from bot.strategy import BARS_MAX, BARS_MIN, Strategy

LONG_AGO = datetime.min.replace(tzinfo=UTC)
FOREVER = datetime.max.replace(tzinfo=UTC)
LAG_MAX: Final = timedelta(seconds=40)
"""How old a lagging node's answer may be (30 s, plus the 10 s that an answer may take): one
requested later than this after something was shown, or happened, shows what came after that.
"""


class UnknownPolicy(StrEnum):
    """When an unused nonce makes a lost place NOT_PLACED (order-safety section 9)."""

    FENCE = "fence"
    FENCE_AND_HORIZON = "fence_and_horizon"


def _seconds(*values: float) -> tuple[timedelta, ...]:
    return tuple(timedelta(seconds=value) for value in values)


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Defaults are for live. Where market time runs faster than the wire, a shell may widen the
    last five.

    `max_…_source_age` refers to an answer's own time, in continuous trading; `max_source_ahead` is
    how far that may be after the answer's arrival. `limits` applies to every strategy besides its
    own; the tighter one wins. `account_limits` are shared by the strategies of an account: none
    here, the defaults are the settings'. `at_default` names the keys of limits that nobody has set:
    a refusal by one says so. `poll_backoff` repeats its last step until an order has ended.
    `halt_on_drift` halts a symbol whose holding is not ours plus what was there before; symbols
    with the owner's own shares are only noted unless `halt_on_drift_of_external`.
    `pause_on_cash_difference`: VND above which cash that no order here explains pauses the bot,
    None: it is only noted. `amend_enabled` is off: what the broker's modify does to a partly
    matched order is documented in words only; cancelling and ordering again is understood.
    `clock_max_offset`: orders stop from here on, and a row's own time may differ from ours by this
    much. `takes_bars_whole`: bars come as events, quotes build none. `sums_up_days`: a note sums up
    each day at its end, if somebody reads it.
    """

    limits: Limits = field(default_factory=Limits)
    account_limits: AccountLimits = NONE
    at_default: frozenset[str] = frozenset()
    max_quote_age: timedelta = timedelta(seconds=10)
    max_depth_age: timedelta = timedelta(seconds=15)
    max_quote_source_age: timedelta = timedelta(seconds=900)
    max_depth_source_age: timedelta = timedelta(seconds=60)
    max_source_ahead: timedelta = timedelta(seconds=5)
    exit_on_held_data: bool = False
    duplicate_window: timedelta = timedelta(seconds=60)
    max_unknown_per_account: int = 1
    max_unknown: int = 2
    faults_until_disabled: int = 3
    poll_backoff: tuple[timedelta, ...] = _seconds(0.5, 1, 2, 4, 8, 15)
    read_patience: timedelta = timedelta(seconds=15)
    cancel_tries: int = 5
    cancel_backoff: tuple[timedelta, ...] = _seconds(1, 2, 4, 8, 15)
    amend_enabled: bool = False
    halt_on_drift: bool = True
    halt_on_drift_of_external: bool = False
    pause_on_cash_difference: int | None = None
    unknown_policy: UnknownPolicy = UnknownPolicy.FENCE_AND_HORIZON
    absent_reads: int = 3
    signal_ttl: timedelta = timedelta(seconds=5)
    clock_max_offset: timedelta = timedelta(seconds=20)
    timestamp_life: timedelta = timedelta(seconds=30)
    book_lag: timedelta = timedelta(seconds=60)
    takes_bars_whole: bool = False
    sums_up_days: bool = True

    @property
    def horizon(self) -> timedelta:
        """After this long a lost place can neither arrive nor be missing in the day order book."""
        return self.timestamp_life + 2 * self.clock_max_offset + self.book_lag


@dataclass(frozen=True, slots=True)
class LoadedStrategy:
    """A plan with its class. `plan.account` is the extended id of its sub-account."""

    plan: StrategyPlan
    factory: type[Strategy]
    instruments: tuple[Instrument, ...] = ()


@dataclass(frozen=True, slots=True)
class StrategyFault:
    """What went wrong in a hook. A stuck one had to be interrupted."""

    error: str
    is_overrun: bool
    is_stuck: bool = False


Invoke = Callable[[Strategy, str, object | None], StrategyFault | None]
"""Calls a hook by name with its argument (None: without one) and returns what went wrong."""


def invoke_plainly(strategy: Strategy, hook: str, argument: object | None) -> StrategyFault | None:
    """Call a hook and let it raise: for tests, where a fault should be seen."""
    call = getattr(strategy, hook)
    call() if argument is None else call(argument)
    return None


Guard = Callable[[Callable[[], object]], Fault | None]
"""Runs a step and returns an unforeseen exception as a fault."""


def unguarded(step: Callable[[], object]) -> None:
    """Run a step and let it raise: for tests and backtests, where a fault should be seen."""
    step()


BARS_KEPT: Final = BARS_MAX + 2
"""Closes that are kept for indicators first read later on: the longest RSI needs one more than its
period, and one more again for its previous value.
"""


def require_length(name: str, bars: object) -> None:
    """Raise TypeError unless an indicator's length is a whole number, ValueError if it is too small
    or too large.
    """
    if not isinstance(bars, int) or isinstance(bars, bool):
        text = f"{name}({bars}): wanted a whole number of bars, found {type(bars).__name__}"
        raise TypeError(f"{text}: annotate the parameter as int, divide with //")
    if not BARS_MIN <= bars <= BARS_MAX:
        raise ValueError(f"{name}({bars}): wanted {BARS_MIN} to {BARS_MAX} bars")
