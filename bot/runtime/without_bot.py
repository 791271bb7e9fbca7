"""What a running bot would answer, if none runs: from the journal, and from our own reads.

An engine like a bot's takes the journal's state and the broker's present answers, but none of its
commands are carried out. So both ways show the same.
"""

from dataclasses import replace
from datetime import date, datetime
from functools import partial

from bot.broker.errors import BrokerError
from bot.clock import SystemClock
from bot.config.rulebook import load_symbols, rulebook_of
from bot.config.settings.load import Loaded
from bot.config.strategies.load import load_sound
from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.message import AccountRead, InstrumentsRead, Recovered, TodaysOrdersRead
from bot.domain.recovery import Recovery
from bot.engine.settings import unguarded
from bot.engine.wake import never
from bot.journal.database.schema import reading_current
from bot.journal.errors import Unreachable
from bot.journal.reading.reader import JournalReader
from bot.journal.reading.recovering import read_recovery
from bot.protocol.orders import figures_in
from bot.runtime.api import own_broker
from bot.runtime.control.status import Fields, balance_fields, comparison_fields, limit_fields
from bot.runtime.start.broker import choose_account, unreachable
from bot.runtime.start.strategies import make_engine
from bot.runtime.worlds.system import read_market_clock


async def compare_without_bot(loaded: Loaded) -> Fields:
    """Read the configured broker and compare. Raises OperatorMistake if that is impossible."""
    settings = loaded.settings
    try:
        now = await _market_now(loaded)
        recovery = _recovery(loaded.journal_url, now.astimezone(EXCHANGE_TZ).date())
        async with own_broker(loaded) as broker:
            account = await choose_account(broker.client, settings.broker.account)
            book = await broker.client.todays_orders(account, now)
            snapshot = await broker.client.account_snapshot(account, now)
    except BrokerError as error:
        raise unreachable(error) from error
    rows = partial(TodaysOrdersRead, now, account.extended_id, book.reports, now)
    of_account = partial(replace, account=account.extended_id)
    sound = load_sound(loaded).strategies
    strategies = [replace(each, plan=of_account(each.plan)) for each in sound]
    engine = make_engine(settings, rulebook_of(loaded), strategies, unguarded, never)
    for event in (Recovered(now, recovery), rows(book.set_aside), AccountRead(now, snapshot)):
        engine.handle(event)
    return comparison_fields(engine.reconciliation(), now)


async def _market_now(loaded: Loaded) -> datetime:
    """Return now; for a served sandbox in its own time, by which its orders are of today."""
    wire, address = SystemClock(), loaded.settings.broker.base_url
    found = None
    if loaded.settings.mode == "sandbox" and address:
        found = await read_market_clock(address, wire)
    return found[0].now() if found else wire.now()


def limits_without_bot(loaded: Loaded) -> tuple[list[Fields], bool]:
    """Return how much of each limit is used as a start would find it, from the journal alone, and
    whether there is a journal: before the first run nothing is used.
    """
    has_run = True
    try:
        with JournalReader(loaded.journal_url) as reader:
            now = _last_moment(reader)
        recovery = _recovery(loaded.journal_url, now.astimezone(EXCHANGE_TZ).date())
    except Unreachable as error:
        if not error.is_absent:
            raise
        now, has_run = SystemClock().now(), False
        recovery = Recovery(now.astimezone(EXCHANGE_TZ).date())
    accounts = [one.intent.account for one in recovery.intents]
    accounts += [fill.account for _, fill in recovery.recent_fills]
    account = accounts[-1] if accounts else ""
    strategies = [
        replace(each, plan=replace(each.plan, account=account))
        for each in load_sound(loaded).strategies
    ]
    engine = make_engine(loaded.settings, rulebook_of(loaded), strategies, unguarded, never)
    engine.handle(Recovered(now, recovery))
    return limit_fields(engine.limits()), has_run


def balances_without_bot(loaded: Loaded) -> tuple[datetime, list[Fields]]:
    """Return the time of the numbers and what each account is worth, from the journal alone."""
    with JournalReader(loaded.journal_url) as reader:
        snapshots, now = reader.accounts(), _last_moment(reader)
        held = {symbol for each in snapshots for symbol in each.holdings}
        symbols = sorted(held | {fill.symbol for fill in reader.fills()})
        prices = reader.prices(symbols)
    engine = make_engine(loaded.settings, rulebook_of(loaded), (), unguarded, never)
    today = now.astimezone(EXCHANGE_TZ).date()
    table = load_symbols()
    listed = [table.instrument(symbol, today) for symbol in symbols]
    engine.handle(InstrumentsRead(now, tuple(each for each in listed if each is not None)))
    engine.handle(Recovered(now, _recovery(loaded.journal_url, today)))
    for each in snapshots:
        engine.handle(AccountRead(now, each))
    return now, [balance_fields(each, prices) for each in engine.balances()]


def _last_moment(reader: JournalReader) -> datetime:
    """Return now; for a sandbox, whose time is not ours, the moment at which its next start
    continues: settlement and the day whose limits are used go by that.
    """
    runs = reader.runs()
    if not runs or runs[-1].mode != "sandbox":
        return SystemClock().now()
    moments = [each.at for each in reader.accounts()] + [each.at for each in reader.fills()]
    return max([*moments, runs[-1].started_at])


def _recovery(url: str, today: date) -> Recovery:
    with reading_current(url) as connection:
        return read_recovery(connection, today, figures_in)
