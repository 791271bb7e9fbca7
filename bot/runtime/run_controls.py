"""What acts on a run from outside: signals, the end of a demo, and the person at the terminal."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Final, Protocol

from bot.broker.link import ORDER_BOUNDS
from bot.domain.entry import AuthEvent, Entry, Note, RunState, StateChanged
from bot.domain.operations import Action, OperatorActed
from bot.domain.recovery import Recovery
from bot.engine.two_factor import ON_ITS_WAY
from bot.protocol.secret import Secret
from bot.runtime.parts import Parts, unanswered
from bot.runtime.second_factor import BY_ITSELF
from bot.runtime.supervisor import Supervisor, on_signals
from bot.runtime.worlds.environment import Environment

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
CTRL_C: Final = "Ctrl-C"
BOT_STOP: Final = "bot stop"
CLOSED_PIPE: Final = "a closed pipe (nobody reads its output any more)"
_NONE_ASKED: Final = "stopped"
BY_OPERATOR: Final = "operator"
_INTERRUPTED: Final = 130
STOP_GRACE_S: Final = ORDER_BOUNDS.deadline_s + 0.5
"""How long a stop waits (wall clock) for what is in flight: an order's own deadline, so that no
obtainable answer is missed; the next start settles the rest.
"""

JOURNAL_GRACE_S: Final = 6.0
"""How long a stop waits for a journal out of reach, if no answer is outstanding."""
ANSWER_GRACE_S: Final = 9.0
"""The same if one is; in either case the most since the stop was asked for. What remains to be done
takes up to 2 s more, so a stop with a journal that hangs is over within 12 s.
"""


class Screen(Protocol):
    """Where a run is shown. `row` is a line of the start, `entry` a fact in the journal;
    `recovered` is what was in it before.
    """

    def entry(self, entry: Entry) -> None: ...
    def recovered(self, recovery: Recovery) -> None: ...
    def row(self, name: str, text: str) -> None: ...
    def trouble(self, text: str) -> None: ...


class AskCode(Protocol):
    """Asks at the terminal for a code or token for as long as one is needed.

    `state` is that of 2FA. `ask` asks again, after `reply`.
    """

    def start(self, submit: Callable[[str], None], state: Mapping[str, object]) -> None: ...
    def ask(self, reply: str, state: Mapping[str, object]) -> None: ...
    def stop(self) -> None: ...


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What a command line adds to the settings. Durations are market time, seconds wall time.

    `is_service`: nobody watches the start, so it waits for its broker. `typed`: the values of
    raised limits as a person has typed them, by key.
    """

    dry_run: bool = False
    is_standby: bool = False
    is_service: bool = False
    only: tuple[str, ...] = ()
    typed: Mapping[str, str] = field(default_factory=dict)
    run_for: timedelta | None = None
    answer_otp_after: timedelta | None = None
    ask_code: AskCode | None = None
    stop_grace_s: float = STOP_GRACE_S
    told: Callable[[str, str, str, Mapping[str, object]], str] = lambda _, text, *__: text
    """Words an alert in the language of the notices."""
    hidden_by: Callable[[Callable[[str], str]], object] = lambda _: None
    """Gets the function that removes a run's secrets from a text, also for after its end."""
    unread: Callable[[Callable[[], object]], object] = lambda _: None
    """Gets the function that stops the run if nobody reads its output any more."""
    over: Callable[[BaseException | None], object] = lambda _: None
    """Called with how a run has ended, when it only has to close what it has open."""

    def telling_end(self) -> ExitStack:
        """Return a context manager that reports how its body ends."""

        def tell(_kind: object, error: BaseException | None, _trace: object) -> bool:
            self.over(error)
            return False

        ending = ExitStack()
        ending.push(tell)
        return ending


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How a run ended."""

    reason: str
    market_time: datetime
    seconds: float


class RunControls:
    """Watches the entries of a run and acts as an outside operator would."""

    def __init__(
        self, options: RunOptions, environment: Environment, supervisor: Supervisor
    ) -> None:
        self._options = options
        self._environment = environment
        self._supervisor = supervisor
        self._parts: Parts | None = None
        self._end: asyncio.Task[None] | None = None
        self.reason = _NONE_ASKED

    async def around(self, run: Awaitable[None], parts: Parts) -> None:
        """Await the run, and end a demo after its time."""
        self._parts = parts
        if self._options.run_for is not None:
            self._end = parts.tasks.spawn(self._end_after(self._options.run_for), "end of the demo")
        await run

    def see(self, entry: Entry) -> None:
        """React to a change of the bot's state, and to a token that is about to end or has come."""
        if isinstance(entry, Note) and entry.numbers.get("alert") == "TWO_FACTOR_ENDING":
            self._needs_code()
        has_token = isinstance(entry, AuthEvent) and entry.kind == "ready"
        if has_token and self._options.ask_code is not None:
            self._options.ask_code.stop()
        if not isinstance(entry, StateChanged) or entry.scope != "all":
            return
        if entry.to_state is RunState.STOPPING:
            if entry.by == BY_OPERATOR:
                # A stop over the control socket has its reason only in its entry.
                own = entry.reason.removeprefix(BOT_STOP)
                self.reason = f"{BOT_STOP}: {own}" if own else BOT_STOP
            self.expect_end()
            if self._parts is not None and (waits_for := unanswered(self._parts)):
                text = f"waits at most {self._options.stop_grace_s:g} s for the answer to"
                self._parts.trouble.begin(f"the stop {text} {', '.join(waits_for)}")
            if self._end is not None:
                self._end.cancel()  # a stop waits for what is under way, and this is not
        elif entry.to_state is RunState.NEEDS_2FA:
            self._needs_code()

    def go_ahead(self, entry: Entry) -> None:
        """Carry out a stop that can't be journalled now; the journal gets time to come back."""
        if isinstance(entry, StateChanged) and entry.to_state is RunState.STOPPING:
            self.see(entry)
            has_more = self._parts is not None and bool(unanswered(self._parts))
            grace_s = ANSWER_GRACE_S if has_more else JOURNAL_GRACE_S
            left_s = self._supervisor.left_s() - (STOP_GRACE_S - ANSWER_GRACE_S)
            self._supervisor.end_within(max(min(grace_s, left_s), 0))

    def expect_end(self) -> None:
        """A stop was asked for: its time counts from here, even if the journal hangs unnoticed."""
        self._supervisor.end_within(self._options.stop_grace_s)

    # ------------------------------------------------------------------------------------- the end

    def on_signals(self) -> AbstractContextManager[None]:
        """SIGTERM, SIGHUP, a reader that is gone and the first SIGINT end the run cleanly; a second
        SIGINT ends it at once.
        """

        def end(number: signal.Signals) -> None:
            name = CTRL_C if number is signal.SIGINT else number.name
            if self.reason == name == CTRL_C:
                os._exit(_INTERRUPTED)
            self.stop(name, "signal")

        def end_unread() -> None:
            if self.reason == _NONE_ASKED:
                self.stop(CLOSED_PIPE, "signal")

        loop = asyncio.get_running_loop()
        self._options.unread(partial(loop.call_soon_threadsafe, end_unread))
        return on_signals(SIGNALS, end)

    def stop(self, reason: str, by: str) -> None:
        """Request a clean end, and force it after the grace period: the journal may be out of
        reach.
        """
        if self._parts is not None:
            self._end_by(self._parts.inbox.ask, reason, by)
        else:
            self.reason = reason
            self._supervisor.end()

    def _end_by(self, tell: Callable[[OperatorActed], object], reason: str, by: str) -> None:
        self.reason = reason
        self.expect_end()
        tell(OperatorActed(self._environment.market.now(), Action.STOP, reason, by))

    async def _end_after(self, span: timedelta) -> None:
        """End a demo after everything that happened in it, so that it always ends alike."""
        now = self._environment.market.now()
        start = self._environment.story_start or now
        await self._environment.pause(max(start + span - now, timedelta()))
        self._environment.finish()
        assert self._parts is not None, "a demo ends when it runs"
        self._end_by(self._parts.inbox.post, f"{_length_of(span)} over", "demo")

    # --------------------------------------------------------------------------------- the 2FA code

    def _needs_code(self) -> None:
        if self._parts is None:
            return
        if self._options.answer_otp_after is not None:
            self._parts.tasks.spawn(self._answer(self._options.answer_otp_after), "answer 2FA")
        elif self._options.ask_code is not None:
            parts = self._parts

            def take(text: str) -> None:
                parts.tasks.spawn(self._submit(parts, Secret(text)), "2FA from terminal")

            self._options.ask_code.start(take, parts.second_factor.state())

    async def _answer(self, delay: timedelta) -> None:
        """Give the sandbox's own code, as an operator would who has read the mail.

        Not if an operator was faster: a useless request costs one of five codes a day. Wait out the
        last seconds of a token that has to be renewed, as it still looks valid.
        """
        await self._environment.pause(max(delay, ON_ITS_WAY + timedelta(seconds=1)))
        code = self._environment.mailed_code
        if code is None or self._parts is None or self._parts.second_factor.is_ready:
            return
        await self._parts.second_factor.request()
        await self._parts.second_factor.submit(code, BY_ITSELF)

    async def _submit(self, parts: Parts, text: Secret) -> None:
        """Submit what was typed, and ask again until there is a new token."""
        before = parts.second_factor.state()["until"]
        reply = await parts.second_factor.take(text)
        state = parts.second_factor.state()
        if self._options.ask_code is None:
            return
        if state["until"] in {None, before}:
            said = reply.get("message") or reply.get("warning") or ""
            self._options.ask_code.ask(str(said), state)
        else:
            self._options.ask_code.stop()


def _length_of(span: timedelta) -> str:
    """`the hour is`, `3 h 20 are` or `5 min are`."""
    hours, minutes = divmod(round(span.total_seconds()) // 60, 60)
    if (hours, minutes) == (1, 0):
        return "the hour is"
    if hours:
        return f"{hours} h {minutes:02} are"
    return f"{minutes} min are" if minutes else f"{span.total_seconds():g} s are"
