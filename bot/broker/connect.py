"""Which carrier carries what: an address becomes links, a call's lane chooses one.

Cancels, places and reads have connections of their own, so that none of them ever waits for an
answer to another kind. What trading does not wait for goes over httpx.
"""

import ipaddress
import ssl
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from bot.broker.carrier import Carrier
from bot.broker.errors import ForbiddenAddress
from bot.broker.http import HttpxLink, over_sockets, tls_context
from bot.broker.in_process import AsgiLink
from bot.broker.link import AsgiApp, Link, Origin, Traffic
from bot.protocol.endpoints.endpoint import Lane

CANCELS_MAX: Final = 8
PLACES_MAX: Final = 8
READS_MAX: Final = 32
"""Connections at the most. An order manager sends four places at once unless told otherwise; the
largest quota of reads is 100 a second."""
_PORTS: Final = {"http": 80, "https": 443}


def connect(base_url: str, *, traffic: Traffic, app: AsgiApp | None = None) -> Link:
    """Make a link with connections of its own, over httpx; with `app`, to an ASGI application.

    Raises ForbiddenAddress unless `base_url` is https, or http to a loopback host, without a path.
    """
    origin = _origin_of(base_url)
    if app is not None:
        return AsgiLink(origin, traffic, app)
    return HttpxLink(origin, traffic, over_sockets(_tls_of(origin)))


def connect_lanes(
    base_url: str, *, traffic: Traffic, app: AsgiApp | None = None
) -> Mapping[Lane, Link]:
    """Make the links of a key, by lane. Raises what `connect` does."""
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
