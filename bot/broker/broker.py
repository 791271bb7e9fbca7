"""The broker's side of a run, wired: one key, one budget, one clock offset, two pools."""

from dataclasses import dataclass

from bot.broker.budget import RequestBudget
from bot.broker.channel import Channel, Reader
from bot.broker.client import BrokerClient
from bot.broker.clock_offset import ClockOffset, OnSkew
from bot.broker.drift_watch import DriftWatch, OnDrift
from bot.broker.http import (
    BURN_BOUNDS,
    ORDER_BOUNDS,
    READ_BOUNDS,
    AsgiApp,
    Bounds,
    Traffic,
    connect,
)
from bot.broker.key_breaker import KeyBreaker
from bot.broker.signer import Credentials, MakeNonce, Signer, random_nonce
from bot.broker.two_factor import TwoFactor
from bot.broker.waiter import Waiter
from bot.broker.writes import OrderWriter
from bot.clock import Clock


@dataclass(frozen=True, slots=True)
class Broker:
    """Everything that speaks to one broker with one key."""

    client: BrokerClient
    writer: OrderWriter
    two_factor: TwoFactor
    budget: RequestBudget
    offset: ClockOffset
    traffic: Traffic
    drift: DriftWatch

    async def close(self) -> None:
        """Wait for what is under way and close every connection."""
        await self.writer.close()
        await self.client.close()


@dataclass(frozen=True, slots=True)
class AllBounds:
    """The deadlines and sizes of reads, order writes and nonce burns."""

    read: Bounds = READ_BOUNDS
    order: Bounds = ORDER_BOUNDS
    burn: Bounds = BURN_BOUNDS


def open_broker(
    base_url: str,
    credentials: Credentials,
    *,
    wire: Clock,
    waiter: Waiter,
    budget: RequestBudget,
    max_concurrent: int | None = None,
    app: AsgiApp | None = None,
    make_nonce: MakeNonce = random_nonce,
    bounds: AllBounds | None = None,
    on_drift: OnDrift | None = None,
    on_skew: OnSkew | None = None,
) -> Broker:
    """Make the parts; nothing is sent yet. With `app` the broker is played in this process.

    `wire` is what signatures are stamped by, `waiter` what a retry waits on, the same as the
    budget's. Raises ForbiddenAddress.
    """
    bounds = bounds or AllBounds()
    traffic, offset = Traffic(max_concurrent=max_concurrent), ClockOffset(wire, on_skew)
    breaker, watch = KeyBreaker(offset, wire), DriftWatch(on_drift)
    signer, two_factor = Signer(credentials, offset, make_nonce), TwoFactor(offset)
    reads, writes = (
        Channel(
            connect(base_url, traffic=traffic, app=app),
            budget=budget,
            offset=offset,
            breaker=breaker,
            wire=wire,
        )
        for _ in range(2)
    )
    reader = Reader(reads, signer=signer, budget=budget, waiter=waiter, bounds=bounds.read)
    writer = OrderWriter(
        writes,
        signer=signer,
        two_factor=two_factor,
        budget=budget,
        offset=offset,
        bounds=bounds.order,
        burn_bounds=bounds.burn,
    )
    client = BrokerClient(reads, reader, watch)
    return Broker(client, writer, two_factor, budget, offset, traffic, watch)
