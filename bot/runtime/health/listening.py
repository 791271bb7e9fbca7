"""Health, readiness and metrics on loopback, served by a separate thread.

The thread has its own server and loop; it gets its data from the bot's loop at most once a second,
and waits at most a second for it, so that a bot whose loop is stuck is reported as ill by a page
that still answers. Only requests whose Host is this machine are answered: a web page could make its
own name point here. Nothing can be changed here.
"""

import asyncio
import contextlib
import logging
import re
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from bot.clock import boottime_s, monotonic_s
from bot.domain.visible import visible
from bot.runtime.health.heartbeat import LOOK_S
from bot.runtime.health.readings import CONTENT_TYPE, Readings, exposed
from bot.runtime.supervisor import tell_once_of_files

HOST: Final = "127.0.0.1"
ANSWER_S: Final = 1.0
"""How long the bot's loop may take to answer."""
KEPT_S: Final = 1.0
"""How long one answer is reused for all requests."""
STUCK_S: Final = 3 * LOOK_S
"""After this long without progress the bot is ill."""
END_S: Final = 2.0
CONNECTIONS_MAX: Final = 16
_BACKLOG: Final = 16
_TEXT_MAX: Final = 2_000
_THIS_MACHINE: Final = re.compile(
    rb"(?:localhost|127\.0\.0\.1|\[::1\])(?::[0-9]{1,5})?", re.IGNORECASE
)
_LISTENS: Final = "0A"
"""TCP_LISTEN in /proc/net/tcp (Linux, proc(5))."""

T = TypeVar("T")


class Taken(Exception):
    """Another program listens on the port; the message names it if possible."""


class Listening:
    """Serves the three pages within its context."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._readings: Readings | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None
        self._kept: dict[str, tuple[float, object]] = {}
        self._asking = asyncio.Lock()

    @property
    def port(self) -> int:
        return self._port

    def begin(self) -> None:
        """Listen; called on the bot's loop. Raises Taken."""
        self._loop = asyncio.get_running_loop()
        ours = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            ours.bind((HOST, self._port))
            ours.listen(_BACKLOG)
        except OSError as error:
            ours.close()
            who = holder_of(self._port) or "another program"
            raise Taken(f"{HOST}:{self._port} is taken by {who} ({error.strerror})") from error
        self._port = ours.getsockname()[1]
        config = uvicorn.Config(
            self._answer,
            interface="asgi3",
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=CONNECTIONS_MAX,
            timeout_graceful_shutdown=1,
        )
        # A warning for each request above the limit would push everything else out of the log.
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
        self._server = _Quiet(config)
        serving = partial(asyncio.run, _serve(self._server, ours))
        self._thread = threading.Thread(target=serving, name="health", daemon=True)
        self._thread.start()

    def follow(self, readings: Readings) -> None:
        """From here on there is something to read."""
        self._readings = readings

    def end(self) -> None:
        """Stop listening."""
        if self._server is not None and self._thread is not None:
            self._server.should_exit = True
            self._thread.join(END_S)

    # --------------------------------------------------------------------------- on the thread

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        hosts = [text for name, text in scope["headers"] if name == b"host"]
        if len(hosts) != 1 or not _THIS_MACHINE.fullmatch(hosts[0]):
            page = PlainTextResponse("ask for 127.0.0.1 or localhost\n", status_code=421)
        elif scope["method"] not in {"GET", "HEAD"}:
            page = PlainTextResponse("only GET\n", status_code=405, headers={"allow": "GET, HEAD"})
        elif scope["path"] == "/healthz":
            page = page_of(self._illness())
        elif scope["path"] == "/readyz":
            page = await self._ready()
        elif scope["path"] == "/metrics":
            page = await self._metrics()
        else:
            page = PlainTextResponse("/healthz /readyz /metrics\n", status_code=404)
        await page(scope, receive, send)

    def _illness(self) -> str:
        """Return why the bot is not alive; it needs no answer, so it works whatever is stuck."""
        if self._readings is None:
            return ""
        progress = self._readings.progress
        age_s = boottime_s() - progress.seen_s
        if progress.objection:
            return f"{progress.objection}, for {age_s:.0f} s"
        return f"no progress for {age_s:.0f} s" if age_s > STUCK_S else ""

    async def _ready(self) -> PlainTextResponse:
        if self._readings is None:
            return page_of("starting")
        if illness := self._illness():
            return page_of(illness)
        readings = self._readings
        try:
            objections, remarks = await self._asked(
                "ready", lambda: (readings.objections(), readings.remarks())
            )
        except TimeoutError:
            return page_of(f"the bot's loop has not answered for {ANSWER_S:g} s")
        return page_of("; ".join(objections), remarks)

    async def _metrics(self) -> PlainTextResponse:
        if self._readings is None:
            return PlainTextResponse("starting\n", status_code=503)
        try:
            metrics = await self._asked("metrics", self._readings.metrics)
        except TimeoutError:
            return PlainTextResponse("the bot's loop does not answer\n", status_code=503)
        return PlainTextResponse(exposed(metrics), headers={"content-type": CONTENT_TYPE})

    async def _asked(self, name: str, read: Callable[[], T]) -> T:
        """Have something read on the bot's loop, once for all requests within a second."""
        async with self._asking:
            at, kept = self._kept.get(name, (-KEPT_S, None))
            if monotonic_s() - at < KEPT_S:
                return kept  # type: ignore[return-value]  # one name has one kind of answer
            done: Future[T] = Future()
            assert self._loop is not None, "it has begun"
            self._loop.call_soon_threadsafe(partial(read_for, read, done))
            async with asyncio.timeout(ANSWER_S):
                found = await asyncio.wrap_future(done)
            self._kept[name] = (monotonic_s(), found)
            return found


class _Quiet(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do not take over the process's signals."""
        yield


async def _serve(server: uvicorn.Server, ours: socket.socket) -> None:
    tell_once_of_files(logging.getLogger(__name__).warning)  # the screen is the bot's loop's
    await server.serve(sockets=[ours])


def read_for(read: Callable[[], T], done: "Future[T]") -> None:
    """Runs on the bot's loop; the waiter may be gone."""
    if done.set_running_or_notify_cancel():
        done.set_result(read())


def page_of(why_not: str, remarks: Sequence[str] = ()) -> PlainTextResponse:
    text = visible("; ".join([why_not or "ok", *remarks]), _TEXT_MAX)
    return PlainTextResponse(f"{text}\n", status_code=503 if why_not else 200)


def holder_of(port: int) -> str:
    """Return which process listens on a port, as far as we may know; else empty."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        nodes = {
            f"socket:[{row[9]}]"
            for row in rows
            if row[3] == _LISTENS and int(row[1].rpartition(":")[2], 16) == port
        }
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if any(str(link.readlink()) in nodes for link in (process / "fd").iterdir()):
                    name = visible((process / "comm").read_text().strip())
                    return f"{name}, process {process.name}"
    return ""
