"""How a run finds its broker: which environment, which account, and the token to write with."""

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

from bot.broker.broker import Broker, open_broker
from bot.broker.budget import RequestBudget
from bot.broker.client import BrokerClient
from bot.broker.drift import Drifted
from bot.broker.errors import (
    BrokerError,
    ForbiddenAddress,
    Malformed,
    Refused,
    is_forbidden,
    refuses_key,
)
from bot.broker.signer import Credentials
from bot.broker.writes import OrderWriter
from bot.config.problems import ExitCode, OperatorMistake
from bot.config.settings.load import Loaded
from bot.domain.account import SubAccount
from bot.domain.entry import Note, Number
from bot.domain.local_time import minute_of
from bot.domain.message import ClockOffsetChanged, Noted
from bot.domain.recovery import Recovery
from bot.protocol.endpoints.trading import SUB_ACCOUNTS
from bot.protocol.secret import Secret
from bot.protocol.two_factor import ABOUT_CODES
from bot.runtime.activity import Post, Tasks
from bot.runtime.fence import Fence, key_of_run, lost_places
from bot.runtime.hush import hiding
from bot.runtime.start.clocks import clocks_fault, require_near_clock, wait_for_clock
from bot.runtime.start.retry import BrokerRetry, read_behind, what_is_wrong
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
KEY_QUESTIONS: Final = "is the key active, may it read, and may it be used from this IP address?"
"""What a 403 leaves open."""

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
        retry.excuse = partial(clocks_fault, broker)
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
            if is_wall:
                clocks = broker.offset, environment.wire
                await require_near_clock(*clocks, retry, broker.client.user)
            await wait_for_clock(left, clock, pause, retry, is_wall=is_wall)
    except BrokerError as error:
        raise unreachable(error) from error
    return broker, account, fence, has_asked


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
    error = read_behind(error)
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
    what = what_is_wrong(error, "the broker refused", "the broker did not answer")
    text = f"{what}: {error}. Nothing was sent."
    return OperatorMistake.of("E-NET-001", text, ExitCode.UNREACHABLE)


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
