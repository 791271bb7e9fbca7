"""The doctor's checks of the broker, using reads only: clock, key, account, symbols."""

from collections.abc import Iterator, Sequence
from typing import Final

from bot.broker.broker import Broker
from bot.broker.errors import BrokerError, KeyRefused, is_forbidden, is_unknown, refuses_key
from bot.clock import SystemClock
from bot.config.problems import OperatorMistake
from bot.config.settings.load import Loaded
from bot.config.strategies.load import load_sound, load_strategies
from bot.domain.account import SubAccount
from bot.domain.local_time import local_of
from bot.journal.database.schema import reading_current
from bot.journal.errors import JournalError
from bot.journal.reading.recovering import read_recovery
from bot.runtime.api import own_broker
from bot.runtime.health.doctor_here import OF_ITS_OWN, Finding, fail, ok, skipped, warn
from bot.runtime.journal_file import require_same_account
from bot.runtime.start.broker import KEY_QUESTIONS, choose_account, unreachable
from bot.runtime.timetable.morning import clock_row

ASKED: Final = ("broker", "clock", "key", "account", "symbols")
SIGNED_READS: Final = 3
_UNASKED: Final = "the broker was not reached"


async def look_at_broker(loaded: Loaded) -> Sequence[Finding]:
    """Return a row for each check."""
    if loaded.settings.is_embedded:
        return [ok("broker", "simulated in this process"), *_skipped(1, "there is none to ask")]
    try:
        async with own_broker(loaded) as broker:
            return await asked(loaded, broker)
    except OperatorMistake as mistake:
        fix = "put that right in bot.yaml, or: bot secret list"
        return [fail("broker", mistake.problems[0].head, fix=fix), *_skipped(1, _UNASKED)]


def _skipped(begin: int, why: str) -> Iterator[Finding]:
    return (skipped(name, why) for name in ASKED[begin:])


async def asked(loaded: Loaded, broker: Broker) -> Sequence[Finding]:
    url = loaded.settings.broker.base_url
    if (error := await refusal_of(broker)) is not None:
        if refuses_key(error):
            fix = "bot secret set api-key, then api-secret; at the broker: is the key active?"
            refused = fail("key", str(error), fix=fix)
            rest = _skipped(3, "the key is refused")
            return [ok("broker", f"{url} answers"), of_clock(loaded, broker), refused, *rest]
        if is_forbidden(error):
            refused = fail("key", str(error), fix=f"at the broker: {KEY_QUESTIONS}")
            rest = _skipped(3, "the read is refused")
            return [ok("broker", f"{url} answers"), of_clock(loaded, broker), refused, *rest]
        fix = "look at the network, DNS and a firewall, and at broker.base_url"
        return [fail("broker", f"{url}: {error}", fix=fix), *_skipped(1, _UNASKED)]
    account, symbols = await of_account(loaded, broker), await of_symbols(loaded, broker)
    clock = of_clock(loaded, broker)  # last, as more answers make it more certain
    return [ok("broker", f"{url} answers"), clock, ok("key", "accepted"), account, symbols]


async def check_key(loaded: Loaded) -> Finding:
    """Make signed reads; return how the clocks agree.

    Raises OperatorMistake if the broker does not accept the key or does not answer.
    """
    async with own_broker(loaded) as broker:
        if (error := await refusal_of(broker)) is not None:
            raise unreachable(error) from error
        return of_clock(loaded, broker)


async def refusal_of(broker: Broker) -> BrokerError | None:
    """Return why the broker accepts no signed read; None if it does.

    Two answers show how far our clock is off, and from then on requests are signed with the
    broker's time, so that a good key is recognised even on a machine with a wrong clock.
    """
    refused: BrokerError | None = None
    for _ in range(SIGNED_READS):
        try:
            await broker.client.user()
            refused = None
        except KeyRefused:  # twice is enough, and the clock is not the reason
            break
        except BrokerError as error:
            refused = error
            if not refuses_key(error):
                break
    return refused


async def of_account(loaded: Loaded, broker: Broker) -> Finding:
    if loaded.settings.mode == "paper":  # broker.account is the simulated one
        return skipped("account", "paper mode plays its own")
    try:
        account = await choose_account(broker.client, loaded.settings.broker.account)
    except OperatorMistake as mistake:
        text = mistake.problems[0].message
        return fail("account", text, fix="set broker.account: bot api sub-accounts")
    except BrokerError as error:
        return fail("account", str(error), fix="ask again; then the broker")
    return of_shares(loaded, account) or ok("account", f"{account.masked} {account.type}")


def of_shares(loaded: Loaded, account: SubAccount) -> Finding | None:
    """Return what a start would refuse: shares that were traded on another account. What can't be
    read here has a row of its own.
    """
    try:
        with reading_current(loaded.journal_url) as connection:
            left = read_recovery(connection, local_of(SystemClock().now()).date())
        strategies = load_sound(loaded).strategies
    except (JournalError, OperatorMistake):
        return None
    try:
        require_same_account(left, strategies, account.extended_id)
    except OperatorMistake as mistake:
        return fail("account", mistake.problems[0].head, fix=OF_ITS_OWN)
    return None


def of_clock(loaded: Loaded, broker: Broker) -> Finding:
    row = clock_row(broker.offset.value)
    if broker.offset.blocks_writes:
        most = loaded.settings.clock.max_offset_s
        text = f"{row.found}: no order leaves from {most} s on"
        return fail("clock", text, fix=row.fix)
    if not row.is_ok:
        return warn("clock", row.found, fix=row.fix)
    return ok("clock", row.found)


async def of_symbols(loaded: Loaded, broker: Broker) -> Finding:
    try:
        strategies = load_strategies(loaded)
    except OperatorMistake:
        return skipped("symbols", "the strategies can't be read")
    symbols = sorted({symbol for each in strategies for symbol in each.plan.symbols})
    unknown = []
    for symbol in symbols:
        try:
            await broker.client.quote(symbol)
        except BrokerError as error:
            if not is_unknown(error):
                fix = "ask again; bot quote SYMBOL says more"
                return fail("symbols", f"{symbol}: {error}", fix=fix)
            unknown.append(symbol)
    if unknown:
        text = f"the broker knows no {', '.join(unknown)}"
        return fail("symbols", text, fix="take it out of its strategy file, or mend its name")
    return ok("symbols", f"{len(symbols)} known: {', '.join(symbols)}")
