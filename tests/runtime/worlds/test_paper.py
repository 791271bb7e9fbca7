"""The paper environment's own account: what it says of a ledger that it can't go on with."""

import asyncio
import errno
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from bot.broker.errors import ForbiddenAddress
from bot.clock import SimulatedClock
from bot.config.problems import OperatorMistake
from bot.protocol.secret import Secret
from bot.runtime.activity import Activity
from bot.runtime.worlds import paper
from bot.runtime.worlds.environment import Access
from bot.runtime.worlds.paper import TICK, PaperEnvironment


def test_a_clock_behind_the_ledger_is_told_in_the_time_of_the_exchange(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = datetime(2026, 11, 19, 2, 15, tzinfo=UTC)
    monkeypatch.setattr(paper, "resumed_at", lambda _: last)
    world = SimpleNamespace(
        _spec=SimpleNamespace(loaded=SimpleNamespace(state_dir=tmp_path)),
        market=SimulatedClock(last - timedelta(hours=1)),
    )

    with pytest.raises(OperatorMistake, match="it has been at 2026-11-19 09:15"):
        PaperEnvironment._sandbox(world, None)  # type: ignore[arg-type]


async def test_beside_a_sandbox_at_speed_the_quota_is_counted_in_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def sped_up(*_: object) -> tuple[SimulatedClock, float]:
        return SimulatedClock(datetime(2026, 11, 19, 2, 15, tzinfo=UTC)), 60.0

    def unasked(*_: object) -> None:
        raise ForbiddenAddress("market", "this test asks nobody")

    monkeypatch.setattr(paper, "read_market_clock", sped_up)
    monkeypatch.setattr(paper, "MarketRelay", unasked)
    broker = SimpleNamespace(device_id="1", requests_per_minute=600)
    loaded = SimpleNamespace(settings=SimpleNamespace(broker=broker))
    spec = SimpleNamespace(loaded=loaded, activity=Activity(), on_bug=list[object]().append)
    access = Access("http://127.0.0.1:1", Secret("k"), Secret("s"))
    world = PaperEnvironment(spec, access)  # type: ignore[arg-type]

    async with AsyncExitStack() as stack:
        with pytest.raises(OperatorMistake, match="this test asks nobody"):
            await world.open(stack)

    assert world.quota_speed == 60


async def test_a_full_disk_under_the_account_does_not_end_the_run() -> None:
    bugs, ticks = list[BaseException](), list[int]()

    class OnFullDisk:
        async def tick(self) -> None:
            ticks.append(1)
            raise OSError(errno.ENOSPC, "No space left on device")

    spec = SimpleNamespace(activity=Activity(), on_bug=bugs.append)
    world = PaperEnvironment(spec, Access("https://broker", Secret("k"), Secret("s")))  # type: ignore[arg-type]
    world._watch = OnFullDisk()  # type: ignore[assignment]
    job = world._watch_job()

    for _ in range(2):
        job.fire(world.market.now() + TICK)
        await world._tasks.drain(1)
        await asyncio.sleep(0)

    assert (len(ticks), bugs) == (2, [])
