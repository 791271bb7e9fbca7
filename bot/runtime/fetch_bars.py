"""Fetches bars from the configured broker into the store, with a client of our own.

How a stretch of days is requested, checked and stored is in `history/store/fetching.py`, which
opens no client.
"""

from contextlib import suppress
from datetime import date

from bot.broker.budget import SystemWaiter
from bot.broker.client import BrokerClient
from bot.broker.errors import BrokerError, Refused, is_unknown
from bot.clock import SystemClock
from bot.config.problems import ExitCode, OperatorMistake
from bot.config.settings.load import Loaded
from bot.domain.local_time import local_date
from bot.domain.quote import DAY
from bot.protocol.calls import CODECS
from bot.protocol.shaped import Codec
from bot.protocol.values.series import PriceHistory
from bot.runtime.api import own_broker
from bot.runtime.history.bars import DayFrame
from bot.runtime.history.store.archive import Archive
from bot.runtime.history.store.bar_files import INDICES
from bot.runtime.history.store.fetching import DAYS, Fetched, FetchPlan, HistoryFetch, Query
from bot.runtime.history.store.importing import Progress, Rules
from bot.runtime.worlds.system import read_market_clock


async def fetch_from_broker(
    loaded: Loaded, archive: Archive, rules: Rules, plan: FetchPlan, progress: Progress
) -> list[Fetched]:
    """Fetch from the configured broker. Raises OperatorMistake; what was fetched before is kept."""
    clock, address, done = SystemClock(), loaded.settings.broker.base_url, list[Fetched]()
    if address is None:
        text = "broker.base_url names no broker: the sandbox inside a bot has no history to fetch. "
        text += "For simulated bars: bot data simulate, or bot paper serve and its address"
        raise OperatorMistake.of("E-RUN-001", text, ExitCode.NOT_RUNNING)
    try:
        async with own_broker(loaded) as broker:

            async def ask(symbol: str, query: Query) -> PriceHistory:
                codec: Codec[PriceHistory] = CODECS["stock_history"]
                return await broker.client.read(codec, {"symbol": symbol}, query)

            market = await read_market_clock(address, clock)
            now = market[0].now() if market else clock.now()
            today = local_date(now)
            last = plan.last or today - DAY
            first = plan.first or last - DAYS * DAY
            if first > last:
                text = f"--from {first} is after --to {last}: nothing to fetch"
                raise OperatorMistake.of("E-DATA-012", text, ExitCode.USAGE)
            waiter, name = SystemWaiter(clock), loaded.bot["name"]
            fetch = HistoryFetch(archive, rules, ask, waiter, today, name, plan)
            for number, symbol in enumerate(plan.symbols):

                def tell(part: float, before: int = number) -> None:
                    progress((before + part) / len(plan.symbols))

                found = await fetch.fetch(symbol, first, last, tell)
                await _keep_exchange(broker.client, archive, rules, symbol, last)
                done.append(found)
    except BrokerError as error:
        symbol = plan.symbols[len(done)]
        if isinstance(error, Refused) and is_unknown(error):
            text = f"the broker knows no '{symbol}'"
            raise OperatorMistake.of("E-SYM-001", text, ExitCode.USAGE) from error
        text = f"{symbol}: {error}. What came before is kept: the same command goes on from there"
        raise OperatorMistake.of("E-NET-001", text, ExitCode.UNREACHABLE) from error
    return done


async def _keep_exchange(
    client: BrokerClient, archive: Archive, rules: Rules, symbol: str, day: date
) -> None:
    """Store where the broker lists a symbol that the table does not have: a backtest needs it."""
    if symbol in INDICES or rules.symbols.instrument(symbol, day) is not None:
        return
    with suppress(Refused):  # its history is there, and it is listed no more
        exchange = (await client.quote(symbol)).exchange
        with archive.writing() as writer:
            writer.add_days([(symbol, exchange.value, day, DayFrame())], replaces=False)
