"""A real bot, and a manager that hears signs of life exactly while the bot makes progress."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from tests.faults.hanging import Hanging, locked, playing_itself
from tests.processes import BotProcess
from tests.staging import QUIET
from tests.story import once, write_project

pytestmark = [pytest.mark.process, pytest.mark.timeout(240)]

WATCHDOG_S = 1.0
GIVE_UP_S = 90.0
STUCK = """
import time

from bot import Strategy


class Stuck(Strategy):
    def on_quote(self, quote):
        time.sleep(60)
"""


class Manager:
    """Listens as systemd does, and keeps what it has heard."""

    def __init__(self, ours: socket.socket) -> None:
        self._ours = ours
        self.heard: list[str] = []

    def listen(self, seconds: float, until: Callable[[str], bool] = lambda _: False) -> bool:
        """Listen until the awaited line is heard; False if it was not."""
        give_up = time.monotonic() + seconds
        while (left := give_up - time.monotonic()) > 0:
            self._ours.settimeout(left)
            with contextlib.suppress(TimeoutError):
                lines = self._ours.recv(4_096).decode().split("\n")
                self.heard += lines
                if any(map(until, lines)):
                    return True
        return False

    async def hears(self, line: str) -> bool:
        return await asyncio.to_thread(self.listen, GIVE_UP_S, lambda it: it.startswith(line))

    async def is_at_last_silent(self) -> bool:
        """Whether a manager once waits for nothing: what ends the signs may take its time."""
        for _ in range(int(GIVE_UP_S / WATCHDOG_S / 2)):
            if "WATCHDOG=1" not in await self.silence():
                return True
        return False

    async def silence(self) -> list[str]:
        """What is heard while a manager would wait."""
        await asyncio.to_thread(self.listen, WATCHDOG_S)  # one may be on its way
        self.heard.clear()
        await asyncio.to_thread(self.listen, WATCHDOG_S)
        return self.heard


@contextmanager
def listening() -> Iterator[Manager]:
    name = f"vnbot-test-{os.getpid()}-{time.monotonic_ns()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ours:
        ours.bind(f"\0{name}")
        environment = {
            "NOTIFY_SOCKET": f"@{name}",
            "WATCHDOG_USEC": str(int(WATCHDOG_S * 1_000_000)),
        }
        before = {key: os.environ.get(key) for key in environment}
        os.environ.update(environment)
        try:
            yield Manager(ours)
        finally:
            for key, value in before.items():
                if value is None:
                    del os.environ[key]
                else:
                    os.environ[key] = value


@asynccontextmanager
async def watched(folder: Path) -> AsyncIterator[tuple[Hanging, Manager]]:
    with listening() as manager:
        async with playing_itself(folder) as hanging:
            yield hanging, manager


async def test_it_is_ready_after_its_start_and_says_how_it_is_until_its_end(
    tmp_path: Path,
) -> None:
    async with watched(tmp_path) as (hanging, manager):
        assert await manager.hears("READY=1")
        before = manager.heard[: manager.heard.index("READY=1")]
        assert await manager.hears("WATCHDOG=1")
        await hanging.ask("pause", reason="lunch", by="operator")
        assert await manager.hears("STATUS=paused since 09:2")
        hanging.bot.send_signal(signal.SIGSTOP)
        assert await manager.silence() == [], "a process that stands still gives no sign"
        hanging.bot.send_signal(signal.SIGCONT)
        assert await manager.hears("WATCHDOG=1")
        code, _, _, _ = await hanging.end()
        assert await manager.hears("STOPPING=1")

    assert code == 0
    assert before[0].startswith("STATUS=starting: config")
    assert "EXTEND_TIMEOUT_USEC=60000000" in before
    assert "WATCHDOG=1" not in before


async def test_a_journal_that_hangs_with_work_before_it_ends_the_signs_of_life(
    tmp_path: Path,
) -> None:
    async with watched(tmp_path) as (hanging, manager):
        assert await manager.hears("WATCHDOG=1")
        with locked(hanging.state_dir / "journal.db"):
            assert await manager.hears("STATUS=stuck: ")
            assert await manager.is_at_last_silent()
            await hanging.ask("halt", reason="prices", by="operator")
            assert await manager.hears("STATUS=")
            log = (hanging.state_dir / "bot.log").read_text()
        assert await manager.hears("WATCHDOG=1"), "it gets on again"
    logged = [json.loads(line) for line in log.splitlines()]
    events = {line["event"] for line in logged if line["level"] in {"warning", "error"}}
    assert {"trouble", "state_changed"} <= events
    assert any(line.get("in_journal") is False for line in logged), "the log has it before"


async def test_a_strategy_that_does_not_come_back_ends_the_signs_of_life(tmp_path: Path) -> None:
    config = write_project(
        tmp_path,
        scenario=QUIET,
        strategies=[once(name="stuck", use="stuck", params={})],
        sandbox={"scenario": "story.yaml", "speed": 5, "port": 0},
    )
    (tmp_path / "strategies" / "stuck.py").write_text(STUCK)
    with listening() as manager:
        bot = BotProcess("run", "-c", str(config))
        try:
            assert await manager.hears("READY=1")
            assert await manager.is_at_last_silent()
            assert bot.poll() is None
        finally:
            bot.end()
