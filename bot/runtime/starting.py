"""What a bot does until its engine is there: it asks the broker, and answers its operator.

Without open work a broker that is away ends the start at once, so that its operator sees why. With
open work the bot has to be there when the broker comes back: it asks again, at growing intervals,
says so, and takes a stop meanwhile. A halt is taken in every start.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from bot.broker.budget import Waiter
from bot.broker.errors import BrokerError, is_unknown, refuses_key
from bot.config.settings.load import Loaded
from bot.domain.asked import Action, OperatorActed
from bot.domain.entry import AttemptStarted, RunState, StateChanged
from bot.domain.order import TERMINAL_STATES, UNRESOLVED_SENDS, SendState
from bot.domain.recovery import Recovery
from bot.engine.settings import LoadedStrategy
from bot.journal.at_start import damage_of
from bot.journal.heads import read_heads_file
from bot.journal.thread import in_time
from bot.runtime.commits import Commits
from bot.runtime.control.socket import Handler, Reply, Request, refused
from bot.runtime.feeds import slowness_of
from bot.runtime.standby import Standby

RETRY_S: Final = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
"""Waits before the broker is asked again; the last one repeats until the bot is stopped."""

CHECK_S: Final = 30.0
"""How long a start looks at its journal: 100,000 rows take less than 1 s."""

T = TypeVar("T")


async def damage_at_start(url: str, state_dir: Path, epoch: int) -> tuple[str, ...]:
    """Return what is wrong with a journal that a run is to go on from; nothing: it is whole.

    One that takes longer than `CHECK_S` is not known to be whole, and that is said.
    """
    kept = read_heads_file(state_dir, url).kept
    checking = partial(damage_of, url, kept[-1] if kept else None, epoch)
    try:
        return await in_time(checking, CHECK_S)
    except TimeoutError:
        return (f"it could not be checked within {CHECK_S:g} s",)


def has_open_work(recovery: Recovery) -> bool:
    """Whether the journal knows of an order that may be open at the broker, or may have arrived."""
    is_open = any(row.intent_id and row.state not in TERMINAL_STATES for row in recovery.orders)
    return is_open or any(stored.state in UNRESOLVED_SENDS for stored in recovery.intents)


def lost_places(recovery: Recovery) -> list[AttemptStarted]:
    """Return the POSTs of which the journal does not know what their nonces show, and the PUTs
    without a trusted answer.
    """
    asked = {SendState.SENDING, SendState.UNKNOWN}
    posts = [one.attempt for one in recovery.intents if one.attempt and one.state in asked]
    puts = [one.attempt for one in recovery.amends if one.outcome in {None, "UNKNOWN"}]
    return [*posts, *puts]


@dataclass(slots=True)
class BrokerRetry:
    """Asks the broker, again and again where that `is_needed`. `trouble`: why the last try failed,
    empty when it did not.
    """

    waiter: Waiter
    report: Callable[[str], None]
    is_needed: bool
    trouble: str = ""

    async def ask(self, question: Callable[[], Awaitable[T]], *, tries_max: int | None = None) -> T:
        """Return the answer. Raises BrokerError at once where nothing is open, and for a key or a
        name that the broker does not take. With `tries_max` it is asked that often at most.
        """
        tries = 0
        while True:
            try:
                answer = await question()
            except BrokerError as error:
                failure = error
                is_given_up = not self.is_needed if tries_max is None else tries + 1 >= tries_max
                if is_given_up or refuses_key(error) or is_unknown(error):
                    self.trouble = ""
                    raise
            else:
                self.trouble = ""
                return answer
            pause_s = RETRY_S[min(tries, len(RETRY_S) - 1)]
            tries += 1
            self.tell(f"the broker does not answer ({failure})", pause_s)
            await self.pause(pause_s)

    def tell(self, trouble: str, pause_s: float) -> None:
        """Say on the screen, and keep for the status, what is wrong and when it is tried again."""
        self.trouble = trouble
        self.report(
            f"{trouble}. Orders may be open, so the bot stays and asks again in "
            f"{pause_s:.0f} s. To end it: bot stop"
        )

    async def pause(self, seconds: float) -> None:
        """Wait on the clock by which requests are counted."""
        await self.waiter.sleep_until(self.waiter.now() + timedelta(seconds=seconds))


@dataclass(slots=True)
class EarlyHalt:
    """A halt that is asked for before the engine is there: journalled at once, so that this start,
    or the next, begins with it. `asked` is for an engine that has read the journal before.
    """

    commits: Commits
    now: Callable[[], datetime]
    asked: OperatorActed | None = None

    async def take(self, request: Request) -> Reply:
        """Take the halt, also when the journal cannot be written."""
        now, by = self.now(), str(request.get("by") or "operator")
        self.asked = OperatorActed(now, Action.HALT, str(request.get("reason") or ""), by)
        states = RunState.STARTING, RunState.HALTED
        row = StateChanged(now, *states, self.asked.reason, by, scope="operator")
        await self.commits.protect(row)  # what keeps it from that ends the run: the halt holds
        return {"ok": True}


def handlers_of(
    fields: Mapping[str, object],
    *,
    halt: EarlyHalt | None = None,
    retry: BrokerRetry | Standby | None = None,
    stop: Callable[[str, str], None] | None = None,
) -> Mapping[str, Handler]:
    """Return what answers until the engine does: the state, with why it takes so long; the halt,
    where there is a journal; and a `stop` where the broker or, by a standby, the journal is waited
    for. All else is refused.
    """

    async def status(_: Request) -> Reply:
        state = RunState.STARTING
        reason = "reading the journal and the broker; nothing is sent yet"
        if retry is not None and retry.trouble:
            reason = retry.trouble
        if halt is not None and halt.asked is not None:
            state = RunState.HALTED
            reason = "; ".join(filter(None, (halt.asked.reason, reason)))
        return {"ok": True, "status": {"state": state, "reason": reason, **fields}}

    async def end(request: Request) -> Reply:
        assert stop is not None
        stop(str(request.get("reason") or "stopped"), str(request.get("by") or "operator"))
        return {"ok": True}

    async def not_yet(_: Request) -> Reply:
        if isinstance(retry, Standby):
            return refused("E-CTL-005", f"{retry.trouble}. This one sends nothing: ask that one")
        text = "the bot is STARTING and sends nothing yet; ask again when it runs"
        return refused("E-CTL-005", f"{text}: bot status --wait RUNNING")

    handlers: dict[str, Handler] = defaultdict(lambda: not_yet, status=status)
    if halt is not None:
        handlers["halt"] = halt.take
    if stop is not None:
        handlers["stop"] = end
    return handlers


def show_config(
    loaded: Loaded, strategies: Sequence[LoadedStrategy], show: Callable[[str, str], None]
) -> None:
    """Show what the run is made of, and how long its polls take where that is long."""
    plans = [each.plan for each in strategies]
    symbols = {symbol for plan in plans for symbol in plan.symbols}
    counted = f"{len(plans)} {'strategy' if len(plans) == 1 else 'strategies'}"
    word = "symbol" if len(symbols) == 1 else "symbols"
    show("config", f"{loaded.path}, {counted}, {len(symbols)} {word}")
    if words := slowness_of(plans, loaded.settings.broker.requests_per_minute):
        show("polls", words)
