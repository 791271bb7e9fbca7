"""Serves the sandbox on a socket: an HTTP server in this process, and a pacer for its market.

The server does not touch the process's signals: the embedding program decides what SIGTERM means.
It answers only requests whose Host is this machine, since a web page could make its own name point
here (DNS rebinding).
"""

import asyncio
import contextlib
import json
import re
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime, time, timedelta
from functools import partial
from importlib.util import find_spec
from typing import Any, Final, Literal, cast

import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from bot.clock import Clock
from bot.domain.instrument import EXCHANGE_TZ, Exchange, Phase
from bot.domain.rulebook import Rulebook
from bot.sandbox.api.connection import TRANSPORT
from bot.sandbox.errors import PortInUse
from bot.sandbox.sandbox import Sandbox

GRACE_S: Final = 1
KEEP_ALIVE_S: Final = 75
"""Longer than a client keeps an idle connection, so that no write hits one just closed."""
Http = Literal["auto", "httptools", "h11"]
"""The request parser. Both give the same answer to every well-formed request."""
_PACE_S: Final = 0.05
_BACKLOG: Final = 128
_DAYS_BACK_MAX: Final = 30
_QUIET_START: Final = time(9, 14, 55)
_BEFORE_OPENING: Final = timedelta(seconds=5)


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_listening = asyncio.Event()
        self._is_over = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.is_listening.set()

    async def main_loop(self) -> None:
        """Serve until `end` is called; uvicorn's own loop checks ten times a second."""
        await self.on_tick(0)
        await self._is_over.wait()

    def end(self) -> None:
        self.should_exit = True
        self._is_over.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do not take over the process's signals."""
        yield


Asked = dict[asyncio.Task[None] | None, asyncio.Transport]
"""The requests that have no complete answer yet, each with its connection."""


def _watched(kind: Callable[..., Any], asked: Asked, **given: object) -> asyncio.Protocol:
    """Make one of uvicorn's connections; each request gets a reference to it, so that a fault may
    drop it.
    """
    connection = kind(**given)
    app: ASGIApp = connection.app

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        hosts = [text for name, text in scope["headers"] if name == b"host"]
        if len(hosts) != 1 or not _THIS_MACHINE.fullmatch(hosts[0]):
            await _MISDIRECTED(scope, receive, send)
            return
        scope.setdefault("extensions", {})[TRANSPORT] = connection.transport
        task = asyncio.current_task()
        asked[task] = connection.transport
        try:
            await app(scope, receive, send)
        except asyncio.CancelledError:
            if task in asked:  # else its connection was dropped with the server
                raise
        finally:
            asked.pop(task, None)

    connection.app = answer
    return cast("asyncio.Protocol", connection)


_THIS_MACHINE: Final = re.compile(
    rb"(?:localhost|127(?:\.[0-9]{1,3}){3}|\[::1\])(?::[0-9]{1,5})?", re.IGNORECASE
)
"""The names of this machine, on any port. A web page whose name points here sends its own name."""
_MISDIRECTED: Final = PlainTextResponse("ask for 127.0.0.1 or localhost", status_code=421)


@contextlib.asynccontextmanager
async def serve(
    sandbox: Sandbox, host: str = "127.0.0.1", port: int = 0, *, http: Http = "auto"
) -> AsyncIterator[str]:
    """Serve a sandbox within the context and yield its base URL; port 0 selects a free one.

    `auto` is httptools where it is installed, else h11. Raises PortInUse.
    """
    listening = _listen(host, port)
    config = uvicorn.Config(
        sandbox.app,
        http=http,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,  # the client address matters only to the control path
        date_header=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=GRACE_S,
    )
    config.load()
    asked: Asked = {}
    config.http_protocol_class = cast("Any", partial(_watched, config.http_protocol_class, asked))
    server = _Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        await server.is_listening.wait()
        yield "http://{}:{}".format(*listening.getsockname()[:2])
    finally:
        server.end()
        await asyncio.wait({serving}, timeout=GRACE_S / 2)
        while asked:  # a fault may hold back an answer for as long as it likes
            task, transport = asked.popitem()
            transport.abort()
            if task is not None:
                task.cancel()
        await serving
        listening.close()


def engine_name() -> str:
    """Return what `auto` parses requests with here, and the running loop's implementation."""
    http = "httptools" if find_spec("httptools") else "h11"
    return f"{http} on {type(asyncio.get_running_loop()).__module__.partition('.')[0]}"


def is_free(host: str, port: int) -> bool:
    try:
        _listen(host, port).close()
    except PortInUse:
        return False
    return True


def free_port(host: str) -> int:
    with _listen(host, 0) as listening:
        return int(listening.getsockname()[1])


def _listen(host: str, port: int) -> socket.socket:
    # asyncio disables Nagle's delay (40 ms an answer) only if the protocol is given.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise PortInUse(host, port, error.strerror or str(error)) from error
    listening.setblocking(False)
    return listening


async def run_free(sandbox: Sandbox, clock: Clock) -> None:
    """Keep the market up with a free-running clock, until cancelled."""
    while True:
        sandbox.advance(clock.now())
        await asyncio.sleep(_PACE_S)


def credentials_line(sandbox: Sandbox, base_url: str) -> str:
    """Return the JSON that `bot paper serve` prints first: address, key, secret, code, accounts."""
    given = sandbox.credentials
    accounts = [
        {
            "id": script.id,
            "sub_account_ext": script.extended_id,
            "type": script.type,
            "cash": script.cash,
            "holdings": script.holdings,
        }
        for script in sandbox.scenario.accounts
    ]
    return json.dumps(
        {
            "base_url": base_url,
            "api_key": given.api_key,
            "api_secret": given.api_secret,
            "otp": given.otp_code,
            "user_id": given.user_id,
            "accounts": accounts,
        }
    )


def market_opening(at: datetime, rulebook: Rulebook) -> datetime:
    """Return when the trading day of an instant opens: that day's opening, else the last one's.

    A market joined at `at` is played from then on, so that it has had a day. It is `at` itself
    before the day's opening, and if the calendar has no trading day in the last month.
    """
    local = at.astimezone(EXCHANGE_TZ)
    for back in range(_DAYS_BACK_MAX):
        day = local.date() - timedelta(days=back)
        if rulebook.calendar.is_trading_day(day):
            midnight = datetime.combine(day, time(), EXCHANGE_TZ).astimezone(UTC)
            openings = (rulebook.next_phase_change(each, midnight).at for each in Exchange)
            return min(at, min(openings) - _BEFORE_OPENING)
    return at


def market_start(now: datetime, rulebook: Rulebook) -> datetime:
    """Return when a market without a stated time starts: now, or the last trading day at 09:14:55.

    Raises ValueError if the calendar has no trading day in the last month.
    """
    phases = {rulebook.phase_at(exchange, now) for exchange in Exchange}
    return last_morning(now, rulebook) if phases == {Phase.CLOSED} else now


def last_morning(now: datetime, rulebook: Rulebook) -> datetime:
    """Return 09:14:55 of the last trading day on which that is past; raises ValueError likewise."""
    today = now.astimezone(EXCHANGE_TZ).date()
    for back in range(_DAYS_BACK_MAX):
        day = today - timedelta(days=back)
        start = datetime.combine(day, _QUIET_START, EXCHANGE_TZ)
        if start <= now and rulebook.calendar.is_trading_day(day):
            return start.astimezone(UTC)
    raise ValueError("the calendar has no trading day in the last month")
