"""A stage for stories: the real sandbox, client and journal in this process, on one simulated
clock.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from random import Random

from bot.broker.broker import Broker, open_broker
from bot.broker.budget import RequestBudget, SystemWaiter
from bot.broker.link import AsgiApp
from bot.broker.signer import Credentials
from bot.clock import Clock, SimulatedClock
from bot.config.rulebook import load_rulebook
from bot.domain.account import SubAccount
from bot.domain.entry import IntentRecorded
from bot.domain.instrument import Exchange
from bot.domain.message import Event
from bot.domain.order import Intent, OrderType, SendState, Side
from bot.journal.errors import Holder
from bot.journal.journal import Journal
from bot.journal.writing.emergency import EmergencyJournal
from bot.journal.writing.lease import Lease, acquire
from bot.protocol.secret import Secret
from bot.runtime.activity import RightOfWay
from bot.runtime.brake import Brake
from bot.runtime.commits import Commits
from bot.runtime.fence import Fence
from bot.runtime.order_manager import OrderManager
from bot.runtime.read_health import Health
from bot.runtime.reads import DayBookReader
from bot.runtime.supervisor import Trouble
from bot.sandbox.house.ledger import read_ledger
from bot.sandbox.sandbox import Sandbox
from bot.sandbox.scenario import Scenario

START = datetime(2026, 11, 19, 2, 20, tzinfo=UTC)  # 09:20 in Vietnam, continuous everywhere
DAY = date(2026, 11, 19)
QUIET: Mapping[str, object] = {
    "day": DAY,
    "start": "09:20:00",
    "symbols": [
        {"symbol": "HPG", "exchange": "HOSE", "reference": 27_000, "swing_ticks": 0},
        {"symbol": "SHS", "exchange": "HNX", "reference": 18_500, "swing_ticks": 0},
    ],
    "quota": "PRO",
}


def scenario(**changes: object) -> Scenario:
    """A quiet market of two symbols, with changes."""
    return Scenario.model_validate({**QUIET, **changes})


def intent(number: int = 1, **changes: object) -> Intent:
    """A buy of 100 HPG that will rest below the market."""
    facts: dict[str, object] = {
        "intent_id": f"L-{number:04d}",
        "signal_id": f"signal {number}",
        "strategy": "hand",
        "account": "120C900001.1",
        "trading_date": DAY,
        "symbol": "HPG",
        "exchange": Exchange.HOSE,
        "side": Side.BUY,
        "quantity": 100,
        "order_type": OrderType.LO,
        "limit_price": 26_000,
        "why": "a test",
        "created_at": START,
        "ttl_at": START + timedelta(seconds=5),
    }
    return Intent(**{**facts, **changes})  # type: ignore[arg-type]


@dataclass
class Stage:
    """Parts that have met: a signed-in client, an open journal, an order manager.

    `closed` is why the engine's gate is closed, the newest reason last; empty: it is open.
    """

    sandbox: Sandbox
    ledger: Path
    clock: SimulatedClock
    broker: Broker
    account: SubAccount
    journal: Journal
    lease: Lease
    orders: OrderManager
    fence: Fence
    day_order_book: DayBookReader
    closed: list[str] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    async def ready(self, wanted: Intent) -> Intent:
        """Journal an intent as the live loop does before its PlaceOrder is carried out."""
        await self.journal.write([IntentRecorded(START, wanted, SendState.READY)])
        return wanted

    def placed(self) -> list[str]:
        """Order ids in the broker's own ledger, which the bot never reads."""
        return sorted({str(line["order"]) for line in self.orders_in_ledger()})

    def orders_in_ledger(self) -> list[Mapping[str, object]]:
        """Every outcome line of an order."""
        return [line for line in read_ledger(self.ledger) if line["kind"] == "order"]

    async def strike(self) -> None:
        """Close everything."""
        await self.broker.close()
        await self.journal.close()
        self.lease.release()
        self.sandbox.close()


def commits_of(
    journal: Journal,
    folder: Path,
    post: Callable[[Event], None],
    clock: Clock,
    say: Callable[[str], None] = lambda _: None,
    timeout_s: float = 5,
) -> Commits:
    """Return the writer of a journal, with its emergency journal in `folder`."""
    return Commits(
        journal,
        EmergencyJournal(folder),
        timeout_s=timeout_s,
        now=clock.now,
        post=post,
        trouble=Trouble(clock.now, say),
    )


async def set_stage(
    folder: Path,
    url: str,
    script: Scenario | None = None,
    brake: Brake | None = None,
    around: Callable[[AsgiApp], AsgiApp] = lambda app: app,
) -> Stage:
    """Put the parts together over a migrated journal at `url`; the bot calls what is `around` the
    sandbox's application.
    """
    clock = SimulatedClock(START)
    sandbox = Sandbox(
        script or scenario(), load_rulebook(), clock=clock, wire=clock, ledger=folder / "ledger"
    )
    given = sandbox.credentials
    waiter = SystemWaiter(clock)
    broker = open_broker(
        "http://127.0.0.1:1",
        Credentials(Secret(given.api_key), Secret(given.api_secret), "stage"),
        wire=clock,
        waiter=waiter,
        budget=RequestBudget(per_minute=3_000, waiter=waiter, jitter=Random(1)),
        app=around(sandbox.app),
    )
    ticket = await broker.client.request_otp()
    token = await broker.client.verify_otp(ticket.ticket_id, Secret(given.otp_code))
    broker.two_factor.set_token(token.token, token.expires_at)
    lease = await asyncio.to_thread(acquire, url, Holder(1, "stage", START))
    journal = Journal.open(url, epoch=lease.epoch)
    events: list[Event] = []
    closed: list[str] = []
    account = given.accounts[0]

    def gate(_asked: object) -> str | None:
        braked = brake.objection() if brake is not None else None
        return closed[-1] if closed else braked

    day_order_book = DayBookReader(
        broker.client,
        account,
        clock,
        timedelta,
        Health(clock, events.append),
        events.append,
        lambda: clock.now().timestamp(),
    )
    fence = Fence(broker.writer, market=clock, wire=clock, waiter=waiter, post=events.append)
    orders = OrderManager(
        writer=broker.writer,
        commits=commits_of(journal, folder, events.append, clock),
        account=account,
        day_order_book=day_order_book,
        market=clock,
        fence=fence,
        epoch=lease.epoch,
        max_in_flight=4,
        gates=(gate, gate, lambda _: False),
        post=events.append,
        way=RightOfWay(hold_s=30),
        spawn=lambda work, name: asyncio.create_task(work, name=name),
    )
    return Stage(
        sandbox,
        folder / "ledger",
        clock,
        broker,
        account,
        journal,
        lease,
        orders,
        fence,
        day_order_book,
        closed,
        events,
    )
