"""How a run finds its broker: which environment, which account, and the token to write with.

Without open work, an unreachable broker ends the start at once, so that its operator sees why. With
open work, or as an unattended service, the bot has to be there when the broker comes back: it
retries at growing intervals, reports that, and accepts a stop meanwhile.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Final, TypeVar

from bot.broker.broker import Broker, open_broker
from bot.broker.budget import RequestBudget, Waiter
from bot.broker.client import BrokerClient
from bot.broker.drift import Drifted
from bot.broker.errors import (
    BrokerError,
    ForbiddenAddress,
    Malformed,
    NotNow,
    Refused,
    is_forbidden,
    refuses_key,
)
from bot.broker.signer import Credentials
from bot.broker.writes import OrderWriter
from bot.clock import Clock
from bot.config.problems import ExitCode, OperatorMistake
from bot.config.settings.load import Loaded
from bot.domain.account import SubAccount
from bot.domain.entry import Note, Number
from bot.domain.local_time import minute_of
from bot.domain.message import ClockOffsetChanged, Noted
from bot.domain.recovery import Recovery
from bot.engine.control_state import Standing
from bot.protocol.endpoints.trading import SUB_ACCOUNTS
from bot.protocol.secret import Secret
from bot.protocol.two_factor import ABOUT_CODES
from bot.runtime.activity import Post, Tasks
from bot.runtime.fence import Fence, key_of_run, lost_places
from bot.runtime.hush import hiding
from bot.runtime.state_dir import keep_token, kept_token
from bot.runtime.watches import QuotaWatch, tell_accepted, tell_refused
from bot.runtime.worlds.environment import (
    Access,
    Environment,
    EnvironmentSpec,
    access_of,
    clock_held,
)
from bot.runtime.worlds.system import ServedEnvironment, SystemEnvironment

DRIFT_CHARACTERS_MAX: Final = 300
RETRY_S: Final = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
"""Waits before the broker is asked again; the last one repeats until the bot is stopped."""
CLOCK_WAIT_MAX: Final = timedelta(minutes=1)
"""A clock set back by more is not waited for: with one so far off no order was sent (R25)."""

KEY_QUESTIONS: Final = "is the key active, may it read, and may it be used from this IP address?"
"""What a 403 leaves open."""

UNUSABLE: Final = "the broker's answer can't be used"
LATER: Final = "the broker takes no request yet"

T = TypeVar("T")
MakeEnvironment = Callable[[EnvironmentSpec], Environment]


def make_environment(spec: EnvironmentSpec) -> Environment:
    """Return the environment of the configured mode. A simulated broker is imported only if one is
    used.
    """
    settings = spec.loaded.settings
    match settings.mode:
        case "sandbox" if settings.broker.base_url is None:
            from bot.runtime.worlds.sandbox import embedded

            return embedded(spec)
        case "sandbox":
            return ServedEnvironment(access_of(spec.loaded))
        case "paper":
            from bot.runtime.worlds.paper import PaperEnvironment

            return PaperEnvironment(spec, access_of(spec.loaded))
        case "live":
            return SystemEnvironment(access_of(spec.loaded))


@dataclass(slots=True)
class BrokerRetry:
    """Asks the broker, repeatedly if `is_needed`. `trouble`: why the last try failed, empty if it
    did not.
    """

    waiter: Waiter
    report: Callable[[str], None]
    is_needed: bool
    trouble: str = ""

    async def ask(self, question: Callable[[], Awaitable[T]], *, tries_max: int | None = None) -> T:
        """Return the answer. Raises BrokerError at once if it is not needed, and if the broker
        rejects the key. The questions name nothing that the broker may not know, so a 404 is a dead
        route. `tries_max` limits the number of tries.
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
            refused, silent = "the broker answers with an error", "the broker does not answer"
            what = _what_is_wrong(_read_behind(failure), refused, silent)
            self.tell(f"{what} ({failure})", pause_s)
            await self.pause(pause_s)

    def tell(self, trouble: str, pause_s: float) -> None:
        """Show on the screen, and keep for the status, what is wrong and when it is retried."""
        self.trouble = trouble
        self.report(
            f"{trouble}. The bot stays and asks again in {pause_s:.0f} s. To end it: bot stop"
        )

    def standing(self) -> tuple[Standing, ...]:
        """Return the alert that holds while the start of the bot or of its day waits."""
        if not self.trouble:
            return ()
        text = (
            f"{self.trouble}. No order is sent until the bot has read where it stands; it asks "
            "again. If it lasts: bot doctor; to end it: bot stop"
        )
        return (Standing("START_WAITS", text, {"why": self.trouble}),)

    async def pause(self, seconds: float) -> None:
        """Wait on the clock by which requests are counted."""
        await self.waiter.sleep_until(self.waiter.now() + timedelta(seconds=seconds))


async def meet_broker(
    loaded: Loaded,
    environment: Environment,
    stack: AsyncExitStack,
    tasks: Tasks,
    retry: BrokerRetry,
    post: Post,
    writes: type[OrderWriter],
    left: Recovery,
) -> tuple[Broker, SubAccount, Fence, bool]:
    """Find the broker and our account there; return both, and whether a code was asked for.

    First the nonces of the places that an earlier run has lost are tried, as the time in which they
    prove something is running out. `left` is what the journal has of it. Raises OperatorMistake; if
    nothing is open, also if the broker does not answer.
    """
    wanted, lost = loaded.settings.broker.account, lost_places(left)
    try:
        access = await retry.ask(partial(environment.open, stack))
        broker = connect_broker(loaded, access, environment, post, writes)
        stack.push_async_callback(broker.close)
        factor = broker.two_factor
        stack.enter_context(hiding(lambda: (access.api_key, access.api_secret, factor.token())))
        fence = Fence(
            broker.writer,
            market=environment.market,
            wire=broker.offset,
            waiter=environment.waiter,
            post=post,
            key=key_of_run(access.api_key, left.last_start, lost, environment.market.now()),
        )
        async with clock_held(environment, tasks):
            await fence.begin(lost, tasks.spawn)
            account = await retry.ask(partial(choose_account, broker.client, wanted))
            code = environment.mailed_code
            has_asked = await retry.ask(partial(sign_in, broker, loaded.state_dir, code))
            is_wall = environment.has_machines_time
            clock, pause = environment.market, environment.pause
            await wait_for_clock(left, clock, pause, retry, is_wall=is_wall)
    except BrokerError as error:
        raise unreachable(error) from error
    return broker, account, fence, has_asked


async def wait_for_clock(
    left: Recovery,
    clock: Clock,
    pause: Callable[[timedelta], Awaitable[None]],
    retry: BrokerRetry,
    *,
    is_wall: bool,
) -> None:
    """Wait until it is as late as in the newest figures of the journal.

    By a clock that was set back meanwhile, or is behind another machine's, they would be of the
    future: a fill would count once more than the account shows it, and a row that is read now would
    be older than the last one.
    """
    newest, now = newest_of(left), clock.now()
    if newest is None or newest <= now:
        return
    seconds = (newest - now).total_seconds()
    text = f"the newest entry of the journal is {seconds:,.1f} s ahead of this machine's clock"
    if newest - now <= CLOCK_WAIT_MAX:
        end = "bot stop" if retry.is_needed else "Ctrl-C"
        retry.report(f"{text}. The bot waits until that time has come. To end it: {end}")
        retry.trouble = text
        await pause(newest - now)
        retry.trouble = ""
    elif is_wall:
        more = "what was filled of late may count twice, and new rows as old, until then"
        retry.report(f"{text}: {more}. Set the clock, then restart the bot")


def newest_of(left: Recovery) -> datetime | None:
    """Return when the newest row, fill or read of an account in the journal was, if any."""
    rows = (row.at for row in (*left.orders, *left.traded_elsewhere))
    reads = (read.at for read in (*left.bases, *left.account_reads))
    return max((*rows, *reads, *(fill.at for _, fill in left.recent_fills)), default=None)


def connect_broker(
    loaded: Loaded,
    access: Access,
    environment: Environment,
    post: Post,
    writes: type[OrderWriter] = OrderWriter,
) -> Broker:
    """Wire the broker side; nothing is sent yet. Raises OperatorMistake for an unsafe address."""
    settings, quota = loaded.settings, QuotaWatch(environment, post)
    budget: RequestBudget = RequestBudget(
        per_minute=settings.broker.requests_per_minute,
        waiter=environment.waiter,
        jitter=Random(settings.sandbox.seed),
        on_wait=lambda *wait: quota.note_wait(budget, *wait),
        on_over=quota.note_over,
    )
    try:
        broker = open_broker(
            access.base_url,
            Credentials(access.api_key, access.api_secret, settings.broker.device_id),
            wire=environment.wire,
            waiter=environment.waiter,
            budget=budget,
            max_concurrent=environment.max_concurrent,
            app=access.app,
            writes=writes,
            on_drift=partial(note_drift, environment, post),
            on_skew=lambda offset: post(ClockOffsetChanged(environment.market.now(), offset)),
            on_bar=lambda: tell_refused(environment, broker.breaker, post),
            on_free=partial(tell_accepted, environment, post),
            max_offset=timedelta(seconds=settings.clock.max_offset_s),
        )
    except ForbiddenAddress as error:
        raise OperatorMistake.of("E-CFG-043", f"broker.base_url: {error.reason}") from error
    return broker


def note_drift(environment: Environment, post: Post, news: tuple[Drifted, ...]) -> None:
    """Journal and show fields that are missing or not in the document."""
    now = environment.market.now()
    fields = ", ".join(str(each).removeprefix(f"{each.call} ") for each in news)
    text = f"{news[0].call} is not as documented: {fields[:DRIFT_CHARACTERS_MAX]}"
    numbers: dict[str, Number] = {each.field: each.change for each in news}
    post(Noted(now, Note(now, "DRIFT", text, numbers)))


async def choose_account(client: BrokerClient, wanted: str) -> SubAccount:
    """Find the sub-account that is to trade: by id, extended id, suffix or type.

    Raises OperatorMistake if none or several match `wanted`, naming them. An empty list is no
    setting's fault: it raises Malformed, so that a start with orders open asks again.
    """
    user = await client.user()
    accounts = await client.sub_accounts(user.user_id)
    if not accounts:
        raise Malformed(SUB_ACCOUNTS.name, "the broker lists no sub-account")
    found = matching_accounts(accounts, wanted)
    if len({(each.id, each.extended_id) for each in found}) == 1:
        return found[0]  # the list may name it twice
    named = ", ".join(f"{each.masked} {each.type}" for each in accounts)
    how_many = "no sub-account matches" if not found else "more than one sub-account matches"
    suffix = accounts[0].extended_id.rpartition(".")[2]
    raise OperatorMistake.of(
        "E-ACC-001",
        f"{how_many} '{wanted}'. The broker lists: {named}. "
        f"Set broker.account to a suffix (like '.{suffix}') or to an id.",
        ExitCode.CONFIG,
    )


def matching_accounts(accounts: Sequence[SubAccount], wanted: str) -> list[SubAccount]:
    """Return the accounts that `wanted` names; an exact id takes precedence over a type."""
    exact = [each for each in accounts if wanted in {each.id, each.extended_id}]
    return exact or [
        each
        for each in accounts
        if each.type.lower() == wanted.lower() or each.extended_id.endswith(wanted)
    ]


def unreachable(error: BrokerError) -> OperatorMistake:
    """Describe for an operator that the broker cannot be reached, or what of ours it refuses."""
    error = _read_behind(error)
    if refuses_key(error):
        text = (
            f"the broker refuses our key or its signature: {error}. Nothing was sent. Check the "
            "API key and its secret, and the clock of this machine"
        )
        return OperatorMistake.of("E-SEC-004", text, ExitCode.SECRET)
    if isinstance(error, Refused) and is_forbidden(error):
        if error.error_code.startswith(ABOUT_CODES):
            text = (
                f"the broker answered, and wants a 2FA token for a read: {error}. Nothing was "
                "sent. By its document reads need none, and only a running bot takes a token: ask "
                "the broker to let this key read without one"
            )
            return OperatorMistake.of("E-SEC-004", text, ExitCode.NEEDS_2FA)
        text = (
            f"the broker answered, and refuses to let this key read: {error}. Nothing was sent. "
            f"Look at the broker's page of API keys: {KEY_QUESTIONS}"
        )
        return OperatorMistake.of("E-SEC-004", text, ExitCode.SECRET)
    what = _what_is_wrong(error, "the broker refused", "the broker did not answer")
    text = f"{what}: {error}. Nothing was sent."
    return OperatorMistake.of("E-NET-001", text, ExitCode.UNREACHABLE)


def _what_is_wrong(error: BrokerError, refused: str, silent: str) -> str:
    match error:
        case Refused():
            return refused
        case Malformed():
            return UNUSABLE
        case NotNow():
            return LATER
        case _:
            return silent


def _read_behind(error: BrokerError) -> BrokerError:
    """Return the failed read itself, if a step of the start has failed by it."""
    return error.__cause__ if isinstance(error.__cause__, BrokerError) else error


async def sign_in(broker: Broker, state_dir: Path, code: Secret | None) -> bool:
    """Use the stored token; else, with a simulated broker, its known code.

    Return whether a code was requested. If none is mailed, or it is refused, the run begins without
    a token: it follows open orders, and a person can supply one.
    """
    has_asked = False
    kept = kept_token(state_dir, broker.offset.now())
    if kept is not None:
        broker.two_factor.set_token(*kept)
    elif code is not None:
        try:
            ticket = await broker.client.request_otp()
            has_asked = True
            given = await broker.client.verify_otp(ticket.ticket_id, code)
        except Refused as refusal:
            if not refusal.error_code.startswith(ABOUT_CODES):
                raise
            return has_asked
        broker.two_factor.set_token(given.token, given.expires_at)
        # if it cannot be stored, the next start requests a code again, as this one did
        with suppress(OSError):
            keep_token(state_dir, given.token, given.expires_at)
    return has_asked


def show_broker(
    loaded: Loaded, broker: Broker, account: SubAccount, show: Callable[[str, str], None]
) -> None:
    """Show on which account the run trades, what it may send there, and what holds it back."""
    skew_ms = broker.offset.value.total_seconds() * 1000
    show("broker", f"account {account.masked} {account.type}, skew {skew_ms:.0f} ms")
    until = broker.two_factor.until
    show("2FA", f"token until {minute_of(until)}" if until else "no token yet")
    if limited := loaded.settings.risk.account.words:
        show("limits", f"{limited} · bot limits")
