"""What a bot does until its engine is there: it asks the broker, and answers its operator.

Without open work a broker that is away ends the start at once, so that its operator sees why. With
open work, or as a service that nobody watches, the bot has to be there when the broker comes back:
it asks again, at growing intervals, says so, and takes a stop meanwhile. A halt is taken in every
start.
"""

import os
import pwd
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from bot.broker.broker import Broker
from bot.broker.budget import Waiter
from bot.broker.errors import BrokerError, Refused, refuses_key
from bot.config.settings.load import Loaded
from bot.config.strategies.load import SortedOut
from bot.domain.account import Break, SubAccount
from bot.domain.entry import AttemptStarted, RunState, StateChanged
from bot.domain.operations import Action, OperatorActed
from bot.domain.order import TERMINAL_STATES, UNRESOLVED_SENDS, SendState
from bot.domain.recovery import Recovery
from bot.domain.timetable import local_of
from bot.journal.heads import read_heads_file
from bot.journal.thread import in_time
from bot.journal.verify import damage_of
from bot.runtime.brake import Brake, Pulled
from bot.runtime.commits import Commits
from bot.runtime.control.socket import Handler, Reply, Request, refused
from bot.runtime.feeds import slowness_of
from bot.runtime.standby import Standby
from bot.runtime.worlds.environment import Environment

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


def user_name() -> str:
    """Return who runs this process, by name or, where it has none, by number."""
    user = os.getuid()
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)


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
        """Return the answer. Raises BrokerError at once where it is not needed, and for a key that
        the broker does not take. No question names what it may not know: a 404 is a dead route.
        With `tries_max` it is asked that often at most.
        """
        tries = 0
        while True:
            try:
                answer = await question()
            except BrokerError as error:
                failure = error
                is_given_up = not self.is_needed if tries_max is None else tries + 1 >= tries_max
                if is_given_up or refuses_key(error):
                    self.trouble = ""
                    raise
            else:
                self.trouble = ""
                return answer
            pause_s = RETRY_S[min(tries, len(RETRY_S) - 1)]
            tries += 1
            what = "answers with an error" if isinstance(failure, Refused) else "does not answer"
            self.tell(f"the broker {what} ({failure})", pause_s)
            await self.pause(pause_s)

    def tell(self, trouble: str, pause_s: float) -> None:
        """Say on the screen, and keep for the status, what is wrong and when it is tried again."""
        self.trouble = trouble
        self.report(
            f"{trouble}. The bot stays and asks again in {pause_s:.0f} s. To end it: bot stop"
        )

    async def pause(self, seconds: float) -> None:
        """Wait on the clock by which requests are counted."""
        await self.waiter.sleep_until(self.waiter.now() + timedelta(seconds=seconds))


@dataclass(slots=True)
class EarlyHalt:
    """A halt that is asked for before the engine is there, over the socket or by the brake: one
    over the socket is journalled at once, so that this start, or the next, begins with it. `asked`
    is for an engine that has read the journal before.
    """

    commits: Commits
    now: Callable[[], datetime]
    brake: Brake
    asked: OperatorActed | None = None

    def __post_init__(self) -> None:
        self.brake.on_pulled = self._hear
        if (pulled := self.brake.look()) is not None:
            self._hear(pulled)

    def _hear(self, pulled: Pulled) -> None:
        self.asked = OperatorActed(self.now(), Action.HALT, pulled.reason, pulled.by)

    async def take(self, request: Request) -> Reply:
        """Take the halt, also when the journal cannot be written."""
        reason, by = str(request.get("reason") or ""), str(request.get("by") or "operator")
        self.brake.pull(reason, by)
        self._hear(Pulled(reason, by))
        states = RunState.STARTING, RunState.HALTED
        row = StateChanged(self.now(), *states, reason, by, scope="operator")
        await self.commits.protect(row)  # what keeps it from that ends the run: the halt holds
        return {"ok": True}

    def hand_over(self, ask: Callable[[OperatorActed], object]) -> None:
        """The engine is there: it hears of this halt, by the clock that was found since, and then
        of each that the brake sees.
        """

        def tell(pulled: Pulled) -> None:
            ask(OperatorActed(self.now(), Action.HALT, pulled.reason, pulled.by))

        self.brake.on_pulled = tell
        if self.asked is not None:
            ask(replace(self.asked, at=self.now()))


def recovered_here(found: Recovery, damage: tuple[str, ...], environment: Environment) -> Recovery:
    """Return what a run goes on from, with what is wrong with its journal. Where time is played,
    runs that died within minutes have nothing to say: those are no minutes of this machine's.
    """
    crashes = found.crashes if environment.has_machines_time else 0
    return replace(found, damage=damage, crashes=crashes)


def handlers_of(
    fields: Mapping[str, object],
    *,
    halt: EarlyHalt | None = None,
    retry: BrokerRetry | Standby | None = None,
    stop: Callable[[str, str], None] | None = None,
    breaks: Sequence[Break] = (),
) -> Mapping[str, Handler]:
    """Return what answers until the engine does: the state, with why it takes so long and which
    `breaks` will hold it; the halt, where there is a journal; and a `stop` where the broker or, by
    a standby, the journal is waited for. All else is refused.
    """
    held = [
        f"{each.break_id} holds the start until it is accepted ({each.text})" for each in breaks
    ]

    async def status(_: Request) -> Reply:
        state = RunState.STARTING
        reason = "reading the journal and the broker; nothing is sent yet"
        if retry is not None and retry.trouble:
            reason = retry.trouble
        reason = "; ".join((reason, *held))
        if halt is not None:
            halt.brake.look()
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
    loaded: Loaded,
    found: SortedOut,
    show: Callable[[str, str], None],
    complain: Callable[[str], None],
) -> None:
    """Show what the run is made of, what of it is broken, and how long its polls take where that is
    long.
    """
    plans = [each.plan for each in found.strategies]
    symbols = {symbol for plan in plans for symbol in plan.symbols}
    counted = f"{len(plans)} {'strategy' if len(plans) == 1 else 'strategies'}"
    word = "symbol" if len(symbols) == 1 else "symbols"
    broken = f", {len(found.broken)} broken" if found.broken else ""
    show("config", f"{loaded.path}, {counted}{broken}, {len(symbols)} {word}")
    for problem in loaded.warnings:
        complain(f"warning: {problem.head}")
    for each in found.broken:
        for problem in each.problems:
            complain(f"{each.name} does not run: {problem.head}")
    if words := slowness_of(plans, loaded.settings.broker.requests_per_minute):
        show("polls", words)


def show_broker(
    loaded: Loaded, broker: Broker, account: SubAccount, show: Callable[[str, str], None]
) -> None:
    """Show which account the run trades on, what it may send there, and what holds it back."""
    skew_ms = broker.offset.value.total_seconds() * 1000
    show("broker", f"account {account.masked} {account.type}, skew {skew_ms:.0f} ms")
    until = broker.two_factor.until
    show("2FA", f"token until {local_of(until):%H:%M}" if until else "no token yet")
    if limited := loaded.settings.risk.account.words:
        show("limits", f"{limited} · bot limits")
