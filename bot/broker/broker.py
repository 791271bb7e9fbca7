"""The broker's side of a run, wired: one key, one budget, one clock offset."""

from dataclasses import dataclass
from datetime import timedelta

from bot.broker.broker import connect_lanes
from bot.broker.budget import RequestBudget, Waiter
from bot.broker.channel import Channel, KeyBreaker
from bot.broker.client import BrokerClient
from bot.broker.clock_offset import MAX_OFFSET, ClockOffset, OnSkew
from bot.broker.drift import DriftWatch, OnDrift
from bot.broker.link import BURN_BOUNDS, ORDER_BOUNDS, READ_BOUNDS, AsgiApp, Bounds, Traffic
from bot.broker.signer import Credentials, MakeNonce, Signer, random_nonce
from bot.broker.two_factor import TwoFactor
from bot.broker.writes import OrderWriter
from bot.clock import Clock
from bot.protocol.endpoints.endpoint import Lane


@dataclass(frozen=True, slots=True)
class Broker:
    """Everything that speaks to one broker with one key."""

    client: BrokerClient
    writer: OrderWriter
    two_factor: TwoFactor
    budget: RequestBudget
    offset: ClockOffset
    drift: DriftWatch

    async def close(self) -> None:
        """Wait for what is under way and close every connection."""
        await self.client.close()  # it has every connection that the writer has


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
    writes: type[OrderWriter] = OrderWriter,
    make_nonce: MakeNonce = random_nonce,
    bounds: AllBounds | None = None,
    on_drift: OnDrift | None = None,
    on_skew: OnSkew | None = None,
    max_offset: timedelta = MAX_OFFSET,
) -> Broker:
    """Make the parts; nothing is sent yet. With `app` the broker is an application in this process,
    and with DryWriter as `writes` no order leaves.

    `wire` is what signatures are stamped by, `waiter` what a retry waits on, the same as the
    budget's. Raises ForbiddenAddress.
    """
    bounds = bounds or AllBounds()
    traffic = Traffic(max_concurrent=max_concurrent)
    offset = ClockOffset(wire, on_skew, max_offset=max_offset)
    breaker, watch = KeyBreaker(offset, wire), DriftWatch(on_drift)
    signer, two_factor = Signer(credentials, offset, make_nonce), TwoFactor(offset)
    links = connect_lanes(base_url, traffic=traffic, app=app)
    # A burn asks about a place that may hang: it waits for no read's connection.
    ways = links, {**links, Lane.BOOK: links[Lane.PLACE]}
    reads, orders = (
        Channel(
            each,
            signer=signer,
            budget=budget,
            offset=offset,
            breaker=breaker,
            wire=wire,
            waiter=waiter,
            bounds=bounds.read,
        )
        for each in ways
    )
    writer = writes(
        orders,
        signer=signer,
        two_factor=two_factor,
        offset=offset,
        bounds=bounds.order,
        burn_bounds=bounds.burn,
    )
    return Broker(BrokerClient(reads, watch), writer, two_factor, budget, offset, watch)
