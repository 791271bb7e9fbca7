"""T3: where no connection comes about, no order leaves or is in doubt, and the reason is told."""

import asyncio
import re
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Final

import pytest

from bot.broker import broker
from bot.broker.http import tls_context
from bot.clock import ScaledClock, SystemClock
from bot.config.rulebook import load_rulebook
from bot.config.settings.load import load_settings
from bot.domain.entry import AttemptFinished, Entry, Fill
from bot.drill.oracle import StoryResult, faults_in
from bot.runtime.control.socket import NoBotRunning, ask
from bot.runtime.run import run_bot
from bot.runtime.run_controls import RunOptions
from bot.sandbox.house.ledger import read_ledger
from bot.sandbox.sandbox import Sandbox
from bot.sandbox.serve import run_free, serve
from tests.faults.strikes import STRIKES, times
from tests.security.test_tls_certificates import certificate
from tests.staging import START, scenario
from tests.story import Shown, once, write_project

pytestmark = [pytest.mark.wire, pytest.mark.process]
WITHIN_S = 120.0
AGAIN_S = 20.0
QUOTE = b"GET /market/quotes/stocks/HPG HTTP"
GOOD, HANDSHAKE, LEAST = "good", b"\x16", {"TLSv1.2", "TLSv1.3"}
BUYS: Final = """
from bot import Strategy


class Buys(Strategy):
    count: int = 0

    def on_quote(self, quote):
        self.count += 1
        shares, lower = 100 * (1 + self.count // 30 % 9), 50 * (self.count % 30)
        self.buy(shares, limit=quote.ceiling - lower, why="the same is not sent twice in a minute")
"""
NOT_GOOD = "the certificate shown by localhost:[0-9]+ is not good"
MAY_NOT_BE = r"\. It may not be the broker"
CUT = "localhost:[0-9]+ cut the connection while it was being opened"
NO_TLS = "localhost:[0-9]+ offers no TLS that is good enough: [A-Z_]+"
SAID: Final[Mapping[str, str]] = {
    "closed port": "nothing listens at localhost:[0-9]+: the connection was refused",
    "no such name": "the name localhost was not found: Name or service not known",
    "no answer of the resolver": r"no connection within 3\.3 s",
    "not trusted": f"{NOT_GOOD}: self-signed certificate{MAY_NOT_BE}",
    "expired": f"{NOT_GOOD}: certificate has expired{MAY_NOT_BE}",
    "of another host": f"{NOT_GOOD}: Hostname mismatch.*{MAY_NOT_BE}",
    "an old TLS": f"{CUT}|{NO_TLS}",
    "handshake cut": CUT,
    "no TLS": NO_TLS,
}
"""Each way in which no connection comes about, and what has to be told of it."""


class Loop(asyncio.SelectorEventLoop):
    """A loop whose resolver is told what to do."""

    way = ""

    async def getaddrinfo(self, *given: Any, **more: Any) -> Any:
        if self.way == "no such name":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        if self.way == "no answer of the resolver":
            await asyncio.sleep(60)
        return await super().getaddrinfo(*given, **more)


@dataclass
class Way:
    """The way to a sandbox by TLS, until it is told to spoil every new connection."""

    to: int
    loop: Loop
    contexts: Mapping[str, ssl.SSLContext]
    port: int = 0
    kind: str = ""
    armed: str = ""
    front: asyncio.Server | None = None
    inner: dict[str, asyncio.Server] = field(default_factory=dict)
    writers: set[asyncio.StreamWriter] = field(default_factory=set)
    firsts: set[bytes] = field(default_factory=set)
    versions: set[str] = field(default_factory=set)
    told: list[tuple[str, str]] = field(default_factory=list)

    async def open(self) -> None:
        for kind, context in self.contexts.items():
            if kind not in self.inner:
                self.inner[kind] = await asyncio.start_server(
                    self._relay, "127.0.0.1", 0, ssl=context
                )
        self.front = await asyncio.start_server(self._let_in, "127.0.0.1", self.port)
        self.port = _port_of(self.front)

    def spoil(self, kind: str, besides: asyncio.StreamWriter) -> None:
        """From here on nothing connects; what is connected ends, but for the answer under way."""
        self.kind, self.armed, self.loop.way = kind, "", kind
        if kind == "closed port" and self.front is not None:
            self.front.close()
        for writer in self.writers - {besides}:
            writer.transport.abort()

    async def mend(self) -> None:
        self.kind = self.loop.way = ""
        if self.front is not None and not self.front.is_serving():
            await self.open()

    def close(self) -> None:
        for writer in self.writers:
            writer.transport.abort()
        for server in (*self.inner.values(), *filter(None, (self.front,))):
            server.close()

    async def _let_in(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry bytes as they come to the server of the present kind."""
        with suppress(OSError):
            if first := await reader.read(1 << 16):
                self.firsts.add(first[:1])
            if self.kind == "no TLS":
                writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\n{}")
            elif first and self.kind != "handshake cut":
                server = self.inner.get(self.kind) or self.inner[GOOD]
                inner, outer = await asyncio.open_connection("127.0.0.1", _port_of(server))
                outer.write(first)
                await _carry(reader, writer, inner, outer)
        writer.close()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry what TLS has brought to the sandbox; a quote's answer may be the last."""
        self.writers.add(writer)
        self.versions.add(writer.get_extra_info("ssl_object").version())
        inner, outer = await asyncio.open_connection("127.0.0.1", self.to)
        asked = b""

        def note(data: bytes) -> None:
            nonlocal asked
            asked = data

        def answered(_: bytes) -> None:
            if self.armed and asked.startswith(QUOTE):
                self.spoil(self.armed, writer)

        with suppress(OSError):
            await _carry(reader, writer, inner, outer, note, answered)
        self.writers.discard(writer)
        writer.close()


def _port_of(server: asyncio.Server) -> int:
    return int(server.sockets[0].getsockname()[1])


async def _carry(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    inner: asyncio.StreamReader,
    outer: asyncio.StreamWriter,
    asked: Callable[[bytes], object] = bool,
    answered: Callable[[bytes], object] = bool,
) -> None:
    """Carry bytes both ways until either side ends."""

    async def one_way(
        source: asyncio.StreamReader, to: asyncio.StreamWriter, see: Callable[[bytes], object]
    ) -> None:
        with suppress(OSError):
            while data := await source.read(1 << 16):
                to.write(data)
                see(data)

    ways = {one_way(reader, outer, asked), one_way(inner, writer, answered)}
    tasks = {asyncio.create_task(each) for each in ways}
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    outer.close()


@contextmanager
def trusting(made: Path) -> Iterator[None]:
    """The product's own TLS trusts one certificate more, which no setting can make it do."""

    def context() -> ssl.SSLContext:
        tls = tls_context()
        tls.load_verify_locations(made)
        return tls

    setattr(broker, "tls_context", context)  # noqa: B010
    try:
        yield
    finally:
        setattr(broker, "tls_context", tls_context)  # noqa: B010


def _context(folder: Path, kind: str) -> tuple[ssl.SSLContext, Path]:
    folder.mkdir()
    key, made = certificate(folder, kind, folder.name)
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(made, key)
    return served, made


def _contexts(folder: Path) -> tuple[Path, Mapping[str, ssl.SSLContext]]:
    """The good certificate, and those of a broker that is none. All but one are trusted."""
    good, made = _context(folder / GOOD, GOOD)
    spoilt, trusted = {GOOD: good}, [made.read_text()]
    for kind in ("not trusted", "expired", "of another host"):
        spoilt[kind], one = _context(folder / kind.replace(" ", "_"), kind)
        trusted += [] if kind == "not trusted" else [one.read_text()]
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    old.load_cert_chain(made, folder / GOOD / "key.pem")
    old.set_ciphers("ALL:@SECLEVEL=0")
    old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    spoilt["an old TLS"] = old
    bundle = folder / "trusted.pem"
    bundle.write_text("\n".join(trusted))
    return bundle, spoilt


class Strikes(Shown):
    """A screen that tells of each of its entries at once."""

    def __init__(self) -> None:
        super().__init__()
        self.news = asyncio.Event()

    def entry(self, entry: Entry) -> None:
        super().entry(entry)
        self.news.set()

    def ended(self, outcome: str) -> Sequence[AttemptFinished]:
        return [each for each in self.all(AttemptFinished) if each.outcome == outcome]

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(WITHIN_S):
            while not is_so():
                self.news.clear()
                await self.news.wait()

    async def another(self, outcome: str) -> AttemptFinished:
        """The next attempt with that outcome."""
        count = len(self.ended(outcome))
        await self.until(lambda: len(self.ended(outcome)) > count)
        return self.ended(outcome)[-1]

    async def all_filled(self) -> None:
        await self.until(lambda: len(self.all(Fill)) == len(self.ended("ACCEPTED")))


async def _strike(loop: Loop, folder: Path, kinds: Sequence[str]) -> tuple[Strikes, Way]:
    """Run a bot, and let its next order find no connection, once for each of these kinds."""
    clock = SystemClock()
    market = ScaledClock(clock, start=START, speed=1.0)
    accounts = [{"id": "0009000011", "cash": 9_000_000_000}]
    played = Sandbox(
        scenario(accounts=accounts), load_rulebook(), clock=market, wire=clock,
        ledger=folder / "ledger",
    )  # fmt: skip
    bundle, contexts = await asyncio.to_thread(_contexts, folder)
    async with serve(played) as base_url:
        playing = asyncio.create_task(run_free(played, market))
        way = Way(int(base_url.rpartition(":")[2]), loop, contexts)
        await way.open()
        address = {"base_url": f"https://localhost:{way.port}", "requests_per_minute": 3000}
        buys = once(use="buys", params={}, wake={"quote": "1s"})
        config = write_project(folder, scenario="quiet", strategies=[buys], broker=address)
        (folder / "strategies" / "buys.py").write_text(BUYS)
        given = played.credentials
        secrets = {"BOT_BROKER__API_KEY": given.api_key, "BOT_BROKER__API_SECRET": given.api_secret}
        loaded, screen = load_settings(config, environment=secrets), Strikes()
        with trusting(bundle):
            running = asyncio.create_task(run_bot(loaded, RunOptions(), screen))
            try:
                await _sign_in(loaded.state_dir, given.otp_code)
                for kind in kinds:
                    while (reason := await _not_sent(screen, way, kind)) is None:
                        await way.mend()
                    way.told.append((kind, reason))
                    await way.mend()
                await screen.another("ACCEPTED")
                await asyncio.to_thread(ask, loaded.state_dir, {"do": "pause"})
                await screen.all_filled()
                await asyncio.to_thread(ask, loaded.state_dir, {"do": "stop"})
                await running
            finally:
                way.close()
                running.cancel()
                playing.cancel()
                played.close()
    return screen, way


async def _not_sent(screen: Strikes, way: Way, kind: str) -> str | None:
    """Spoil the way after a quote; return why its order was not sent, None if it asked for no
    connection: on a busy machine the day order book may be too old for it.
    """
    await screen.another("ACCEPTED")
    await screen.all_filled()
    way.armed = kind
    with suppress(TimeoutError):
        async with asyncio.timeout(AGAIN_S):
            return (await screen.another("NOT_SENT")).reason
    return None


async def _sign_in(state_dir: Path, code: str) -> None:
    give_up = time.monotonic() + WITHIN_S
    while True:
        assert time.monotonic() < give_up
        with suppress(NoBotRunning):
            found = await asyncio.to_thread(ask, state_dir, {"do": "status"})
            if found["status"]["state"] == "NEEDS_2FA":  # type: ignore[index]
                break
        await asyncio.sleep(0.1)
    await asyncio.to_thread(ask, state_dir, {"do": "otp_request"})
    await asyncio.to_thread(ask, state_dir, {"do": "otp_submit", "code": code})


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1:DeprecationWarning")
def test_an_order_without_a_connection_is_not_sent_and_the_reason_is_told(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    kinds = [*islice(cycle(SAID), times("T3", len(SAID)))]

    with asyncio.Runner(loop_factory=Loop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, Loop)
        screen, way = runner.run(_strike(loop, tmp_path, kinds))

    attempts = screen.all(AttemptFinished)
    lines = [*read_ledger(tmp_path / "ledger")]
    orders = {str(line["order"]): line for line in lines if line["kind"] == "order"}
    counted = Counter(each.outcome for each in attempts)
    assert counted == {"ACCEPTED": len(orders), "NOT_SENT": len(kinds)}
    assert {each.http_status for each in attempts if each.outcome == "NOT_SENT"} == {None}
    journal = f"sqlite:///{tmp_path / 'state' / 'journal.db'}"
    assert faults_in(StoryResult(journal, orders)) == []
    assert (way.firsts, way.versions - LEAST) == ({HANDSHAKE}, set()), "TLS or nothing"
    for kind, reason in way.told:
        assert re.fullmatch(SAID[kind], reason), kind
    record_property(STRIKES, len(kinds))
