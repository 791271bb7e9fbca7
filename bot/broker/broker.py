"""Wires the broker side of a run: one key, one budget, one clock offset, and the connections.

An address becomes several links, and a call's lane selects one. Cancels, places and reads have
separate connections, so none of them ever waits for an answer to another kind. Calls that trading
does not wait for go over httpx.
"""

import ipaddress
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from urllib.parse import urlsplit

from bot.broker.budget import RequestBudget, Waiter
from bot.broker.calls import CallSender, KeyBreaker
from bot.broker.carrier import Carrier
from bot.broker.client import BrokerClient
from bot.broker.clock_offset import MAX_OFFSET, ClockOffset, OnSkew
from bot.broker.drift import DriftWatch, OnDrift
from bot.broker.errors import ForbiddenAddress
from bot.broker.http import HttpxLink, over_sockets, tls_context
from bot.broker.in_process import AsgiLink
from bot.broker.link import (
    BURN_BOUNDS,
    ORDER_BOUNDS,
    READ_BOUNDS,
    AsgiApp,
    Bounds,
    Link,
    Origin,
    Traffic,
)
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
    breaker: KeyBreaker

    async def close(self) -> None:
        """Wait for the requests under way and close every connection."""
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
    on_bar: Callable[[], object] | None = None,
    on_free: Callable[[], object] | None = None,
    max_offset: timedelta = MAX_OFFSET,
) -> Broker:
    """Make the parts; nothing is sent yet. With `app` the broker is an application in this process;
    with DryWriter as `writes` no order is sent.

    Signatures are stamped by `wire`; retries and the budget wait on `waiter`. Raises
    ForbiddenAddress.
    """
    bounds = bounds or AllBounds()
    traffic = Traffic(max_concurrent=max_concurrent)
    offset = ClockOffset(wire, on_skew, max_offset=max_offset)
    breaker, watch = KeyBreaker(offset, wire, on_bar, on_free), DriftWatch(on_drift)
    signer, two_factor = Signer(credentials, offset, make_nonce), TwoFactor(offset)
    links = connect_lanes(base_url, traffic=traffic, app=app)
    # A burn asks about a place that may hang, so it does not share a connection with reads.
    ways = links, {**links, Lane.BOOK: links[Lane.PLACE]}
    reads, orders = (
        CallSender(
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
    return Broker(BrokerClient(reads, watch), writer, two_factor, budget, offset, watch, breaker)


CANCELS_MAX: Final = 8
PLACES_MAX: Final = 8
READS_MAX: Final = 32
"""At most this many connections. An order manager sends four places at once by default; the largest
quota of reads is 100 a second.
"""
_PORTS: Final = {"http": 80, "https": 443}


def connect(base_url: str, *, traffic: Traffic, app: AsgiApp | None = None) -> Link:
    """Make a link with its own connections, over httpx; with `app`, to an ASGI application.

    Raises ForbiddenAddress unless `base_url` is https, or http to a loopback host, without a path.
    """
    origin = _origin_of(base_url)
    if app is not None:
        return AsgiLink(origin, traffic, app)
    return HttpxLink(origin, traffic, over_sockets(_tls_of(origin)))


def connect_lanes(
    base_url: str, *, traffic: Traffic, app: AsgiApp | None = None
) -> Mapping[Lane, Link]:
    """Make the links of a key, by lane. Raises ForbiddenAddress as `connect` does."""
    origin = _origin_of(base_url)
    if app is not None:
        return dict.fromkeys(Lane, AsgiLink(origin, traffic, app))
    tls = _tls_of(origin)
    reads, places, cancels = (
        Carrier(origin, traffic, tls=tls, connections_max=most)
        for most in (READS_MAX, PLACES_MAX, CANCELS_MAX)
    )
    return {
        Lane.CANCEL: cancels,
        Lane.BOOK: reads,
        Lane.PLACE: places,
        Lane.ORDER_POLL: reads,
        Lane.QUOTE: reads,
        Lane.OTHER: HttpxLink(origin, traffic, over_sockets(tls)),
    }


def _tls_of(origin: Origin) -> ssl.SSLContext | None:
    return tls_context() if origin.is_secure else None


def _origin_of(base_url: str) -> Origin:
    try:
        parts = urlsplit(base_url)
        port = parts.port
        host = (parts.hostname or "").encode("idna").decode("ascii")
    except ValueError as error:
        raise ForbiddenAddress("base_url", f"{error}; write https://HOST") from error
    if parts.path.strip("/") or parts.query or parts.fragment or parts.username:
        raise ForbiddenAddress("base_url", "give scheme, host and port only")
    if not host:
        raise ForbiddenAddress("base_url", "no host in it; write https://HOST")
    if parts.scheme != "https" and not (parts.scheme == "http" and _is_loopback(host)):
        raise ForbiddenAddress("base_url", "only https, or http to this machine, is allowed")
    usual = _PORTS[parts.scheme]
    name = f"[{host}]" if ":" in host else host
    if port not in {None, usual}:
        name = f"{name}:{port}"
    return Origin(parts.scheme, host, port or usual, name)


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
