"""A bot in a process of its own, with two orders at a broker in real time, whose journal hangs."""

import asyncio
import signal
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bot.clock import ScaledClock, SystemClock
from bot.config.rulebook import load_rulebook
from bot.runtime.control.socket import NoBotRunning, ask
from bot.sandbox.faults.script import FaultScript
from bot.sandbox.house.ledger import read_ledger
from bot.sandbox.sandbox import Sandbox
from bot.sandbox.scenario import Scenario
from bot.sandbox.serve import run_free, serve
from tests.processes import BotProcess
from tests.staging import QUIET, START, scenario
from tests.story import once, write_project

WITHIN_S = 120.0
"""A bot that was stopped with a POST on its way has the one that takes over wait half a minute for
the order that never came.
"""
OFTEN = {"quote": "1s"}
RESTING = (
    once(params={"price": 26_000}, wake=OFTEN),
    once(name="second", symbols=["SHS"], params={"price": 18_000}, wake=OFTEN),
)


@dataclass
class Hanging:
    """The processes and files of one test."""

    folder: Path
    config: Path
    ledger: Path
    secrets: Mapping[str, str]
    otp: str
    bot: BotProcess
    add_fault: Callable[[FaultScript], None] = lambda _: None

    @property
    def state_dir(self) -> Path:
        return self.folder / "state"

    async def ask(self, do: str, **request: object) -> Mapping[str, Any]:
        return await asyncio.to_thread(ask, self.state_dir, {"do": do, **request})

    async def status(self) -> Mapping[str, Any]:
        answer = await self.ask("status")
        found = answer.get("status")
        assert isinstance(found, dict), answer
        return found

    async def until(self, is_so: Callable[[Mapping[str, Any]], object]) -> Mapping[str, Any]:
        """Look at the status until it is so."""
        give_up, found = time.monotonic() + WITHIN_S, None
        while time.monotonic() < give_up:
            try:
                found = await self.status()
                if is_so(found):
                    return found
            except NoBotRunning:
                assert self.bot.poll() is None, self.bot.communicate()
            await asyncio.sleep(0.05)
        raise AssertionError(found)

    async def sign_in(self) -> None:
        """Give the bot its token, and wait for its orders."""
        await self.give_token()
        await self.until(lambda it: len(it["open_orders"]) == len(RESTING))

    async def give_token(self) -> None:
        """Give the bot its token."""
        await self.until(lambda it: it["state"] == "NEEDS_2FA")
        await self.ask("otp_request")
        await self.ask("otp_submit", code=self.otp)

    def journalled(self, state: str) -> int:
        """Count the orders that are in a state by the journal: the bot itself knows a moment
        sooner.
        """
        return self._count("select count(*) from orders where state = ?", state)

    async def until_told(self, reason: str) -> None:
        """Ask for a pause, and wait until it is in the journal. What was there before has been
        shown by then: a commit begins when everything of the last one was.
        """
        await self.ask("pause", strategy=None, reason=reason)
        give_up = time.monotonic() + WITHIN_S
        while not self._count("select count(*) from halts where reason = ?", reason):
            assert time.monotonic() < give_up, reason
            await asyncio.sleep(0.02)

    def _count(self, query: str, value: str) -> int:
        file = f"file:{self.state_dir / 'journal.db'}?mode=ro"
        with closing(sqlite3.connect(file, uri=True)) as reader:
            return int(reader.execute(query, [value]).fetchone()[0])

    async def call(self, *arguments: str) -> tuple[str, float]:
        """Give the command line a command; return what it prints, and the seconds."""
        started = time.monotonic()
        command = BotProcess(*arguments, "-c", str(self.config), **self.secrets)
        out, err = await asyncio.to_thread(command.communicate)
        return out + err, time.monotonic() - started

    async def kill(self) -> None:
        """End it as a power cut would."""
        self.bot.send_signal(signal.SIGKILL)
        await asyncio.to_thread(self.bot.communicate)

    def start_again(self) -> None:
        """Start the bot once more, after its end."""
        self.bot = BotProcess("run", "-c", str(self.config), **self.secrets)

    async def end(self) -> tuple[int | None, str, str, float]:
        """End it by SIGTERM; return its code, what it said on both streams and the seconds."""
        started = time.monotonic()
        self.bot.send_signal(signal.SIGTERM)
        out, err = await asyncio.to_thread(self.bot.communicate)
        return self.bot.returncode, out, err, time.monotonic() - started

    def orders(self) -> dict[str, str]:
        """What the broker's ledger last says of each order."""
        lines = read_ledger(self.ledger)
        return {str(it["order"]): str(it["status"]) for it in lines if it["kind"] == "order"}


@asynccontextmanager
async def trading(
    folder: Path,
    url: str | None = None,
    *,
    faults: Sequence[Mapping[str, object]] = (),
    strategies: Sequence[Mapping[str, object]] = RESTING,
    is_signed_in: bool = True,
    switches: Mapping[str, object] | None = None,
    risk: Mapping[str, object] | None = None,
    holdings: Mapping[str, int] | None = None,
    write_timeout_s: float = 1,
) -> AsyncIterator[Hanging]:
    """Yield a bot that has its two orders resting at the broker, or waits for its token."""
    accounts = [{"id": "0009000011", "cash": 100_000_000, "holdings": holdings or {}}]
    script = scenario(faults=faults, switches=switches or {}, accounts=accounts)
    async with played_in_real_time(folder, script) as (played, broker, secrets):
        config = write_project(
            folder,
            scenario="quiet",
            strategies=strategies,
            broker=broker,
            **({} if url is None else {"journal_url": url}),
            risk=risk or {},
        )
        bot = BotProcess(
            "run", "-c", str(config), BOT_JOURNAL__WRITE_TIMEOUT_S=f"{write_timeout_s:g}", **secrets
        )
        code, ledger = played.credentials.otp_code, folder / "ledger"
        hanging = Hanging(folder, config, ledger, secrets, code, bot, played.add_fault)
        try:
            if is_signed_in:
                await hanging.sign_in()
            yield hanging
        finally:
            hanging.bot.end()


@asynccontextmanager
async def played_in_real_time(
    folder: Path, script: Scenario
) -> AsyncIterator[tuple[Sandbox, Mapping[str, object], Mapping[str, str]]]:
    """Serve a sandbox that keeps its ledger in `folder`; yield it with a bot's settings for it: the
    section `broker`, and environment variables.
    """
    clock = SystemClock()
    market = ScaledClock(clock, start=START, speed=1.0)
    played = Sandbox(script, load_rulebook(), clock=market, wire=clock, ledger=folder / "ledger")
    given = played.credentials
    secrets = {"BOT_BROKER__API_KEY": given.api_key, "BOT_BROKER__API_SECRET": given.api_secret}
    async with serve(played) as base_url:
        playing = asyncio.create_task(run_free(played, market))
        try:
            yield played, {"base_url": base_url, "requests_per_minute": 3000}, secrets
        finally:
            playing.cancel()
            played.close()


@asynccontextmanager
async def playing_itself(folder: Path) -> AsyncIterator[Hanging]:
    """The same with the broker embedded, on one stepped clock."""
    settings = {"scenario": "story.yaml", "speed": 5, "port": 0}
    config = write_project(folder, scenario=QUIET, strategies=RESTING, sandbox=settings)
    patience = {"BOT_JOURNAL__WRITE_TIMEOUT_S": "1"}
    bot = BotProcess("run", "-c", str(config), **patience)
    hanging = Hanging(folder, config, folder / "state" / "sandbox.jsonl", patience, "", bot)
    try:
        await hanging.until(lambda it: len(it.get("open_orders", ())) == len(RESTING))
        yield hanging
    finally:
        hanging.bot.end()


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Hold the write lock of a SQLite journal, as a backup or a curious program would."""
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("pragma busy_timeout = 10000")
        other.execute("begin immediate")
        yield
        other.execute("rollback")
