"""P5: hostile plug-ins in a real bot: it names them, halts, goes on with the others, loses nothing.

What a plug-in does to the process itself can't always be undone: those that end it, or leave it
without descriptors, are followed by a start that recovers.
"""

import asyncio
import re
import resource
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from bot.drill.oracle import StoryResult, faults_in
from bot.runtime.brake import FLAG
from bot.sandbox.house.ledger import read_ledger
from tests.faults import hostile_plugin
from tests.faults.hanging import WITHIN_S, Hanging, trading
from tests.faults.strikes import is_in_full, times
from tests.story import once

PLUG_IN: Final = Path(hostile_plugin.__file__).read_text()
pytestmark = [pytest.mark.wire, pytest.mark.process, pytest.mark.timeout(300)]

NAMED_S: Final = 5.0 if is_in_full() else 20.0
"""A machine that runs all tests at once may be slower."""
HALTS_S: Final = 1.0 if is_in_full() else 5.0
FEW, MORE = 3, 2
STEADY: Final = """
from bot import Strategy


class Steady(Strategy):
    def on_quote(self, quote):
        lots = self.position.qty // 100
        self.buy(100, limit=quote.ceiling - 100 * (lots % 14), why="steady")
"""
STUCK = "did not return for [0-9]+ s and was interrupted"
PUT_BACK = "of the whole process, which was put back"


@dataclass(frozen=True)
class Harm:
    """What one kind does, in which hook. `words`: what the reason for which it is disabled has to
    name, empty where nothing can; `ends`: the exit code of a bot that it ends; `is_deaf`: the bot
    answers nothing any more, and is ended from outside.
    """

    kind: str
    hook: str = "on_quote"
    words: str = ""
    ends: int | None = None
    is_deaf: bool = False

    def __str__(self) -> str:
        return f"{self.kind}, {self.hook}"


HARMS: Final = (
    Harm("forks", words="forked the bot's process"),
    Harm("exits", ends=3),
    Harm("closes streams", words=f"changed the stream 0, the stream 1, the stream 2, {PUT_BACK}"),
    Harm("blocks", words=STUCK),
    *(Harm("blocks", hook, STUCK) for hook in ("on_start", "on_depth")),
    *(Harm("blocks", hook, STUCK) for hook in ("on_timer", "on_fill")),
    Harm("spins", words=STUCK),
    Harm("generates", words=STUCK),
    *(Harm("raises", hook, "ValueError: harm") for hook in ("on_quote", "on_depth", "on_timer")),
    Harm("raises its own", words="Own: harm"),
    Harm("raises KeyboardInterrupt", words="KeyboardInterrupt: harm"),
    Harm("raises SystemExit", words="SystemExit: harm"),
    Harm("raises CancelledError", words="CancelledError: harm"),
    Harm("recurses", words="RecursionError"),
    Harm("forks and stays", words="forked the bot's process"),
    Harm("leaks memory", words=f"MemoryError|{STUCK}"),
    Harm("leaks descriptors", is_deaf=True),
    Harm("starts threads"),
    Harm("ignores signals", words=f"the handler of SIGTERM, .*{PUT_BACK}"),
    Harm("changes folder", words=f"changed the current folder, {PUT_BACK}"),
    Harm("patches time", words=f"changed time.time, .*{PUT_BACK}"),
    Harm("patches sockets", words=f"changed socket.socket, {PUT_BACK}"),
    Harm("writes"),
    Harm("catches cancellation"),
)
HALTED: Final = {
    "blocks": "",
    "blocks and catches": "on_quote of Hostile (hostile.py) has not returned for",
    "holds the interpreter": "it is busy or hanging",
}
"""What blocks the loop while a person halts, and what `bot status` has to say meanwhile."""


@dataclass
class Harmed:
    """A bot whose plug-in is hostile from the moment at which its folder has a file `go`."""

    hanging: Hanging
    screen: list[str]

    @property
    def since(self) -> float:
        """When the harm began, by the wall clock."""
        return (self.hanging.folder / "acts").stat().st_mtime

    async def begin(self) -> None:
        (self.hanging.folder / "go").touch()
        await self.so_far((self.hanging.folder / "acts").exists)

    async def so_far(self, is_so: Callable[[], object]) -> None:
        """Wait until it is so."""
        give_up = time.monotonic() + WITHIN_S
        while not is_so():
            assert time.monotonic() < give_up, self.screen[-20:]
            await asyncio.sleep(0.02)

    async def more_orders(self) -> None:
        """Wait for more orders of the other strategy at the broker."""
        wanted = len(self.hanging.orders()) + MORE
        await self.so_far(lambda: len(self.hanging.orders()) >= wanted)

    async def end(self) -> tuple[int | None, str]:
        """Let all orders settle, and end the bot; return its exit code and what it said."""
        hanging = self.hanging
        await hanging.ask("pause", reason="the end")
        await self.so_far(lambda: hanging.journalled("FILLED") == len(hanging.orders()))
        code, _, err, _ = await hanging.end()
        return code, err

    async def start_again(self) -> None:
        """Start it without the harm; a person looks at what it says, and resumes."""
        hanging = self.hanging
        (hanging.folder / "go").unlink()
        hanging.bot.end()
        hanging.start_again()
        self.screen = _read(hanging)
        await hanging.until(lambda it: it["state"] != "STARTING")
        await hanging.ask("resume", reason="looked")
        await self.more_orders()

    def faults(self) -> Sequence[str]:
        """What the journal says otherwise than the broker's ledger."""
        lines = [line for line in read_ledger(self.hanging.ledger) if line["kind"] == "order"]
        journal = f"sqlite:///{self.hanging.state_dir / 'journal.db'}"
        return faults_in(StoryResult(journal, {str(line["order"]): line for line in lines}))


def _read(hanging: Hanging) -> list[str]:
    """Read what a bot says on stdout, for as long as it lives: a full pipe would hold it up."""
    lines, stream = list[str](), hanging.bot.stdout
    threading.Thread(target=lambda: lines.extend(stream), daemon=True).start()
    return lines


@asynccontextmanager
async def _harmed(folder: Path, kind: str, hook: str = "on_quote") -> AsyncIterator[Harmed]:
    """Yield a bot with a plug-in that does no harm yet, and another that buys."""
    wake = {"quote": "1s", "depth": "2s", "timer": [f"09:2{n // 6}:{n % 6}0" for n in range(60)]}
    params = {"kind": kind, "folder": str(folder), "hook": hook}
    hostile = once("hostile", use="hostile", params=params, wake=wake)
    steady = once("steady", use="steady", symbols=["SHS"], params={}, wake={"quote": "1s"})
    (folder / "strategies").mkdir()
    (folder / "strategies" / "hostile.py").write_text(PLUG_IN)
    (folder / "strategies" / "steady.py").write_text(STEADY)
    if hook == "on_start":
        (folder / "go").touch()
    async with trading(folder, strategies=[hostile, steady], is_signed_in=False) as hanging:
        harmed = Harmed(hanging, _read(hanging))
        await hanging.give_token()
        await harmed.more_orders()
        yield harmed


def _bound(kind: str, process: int) -> None:
    """Let a plug-in that leaks come to the end of what there is, and not the machine."""
    if kind == "leaks memory":
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + 300 * hostile_plugin.MEGABYTE
        resource.prlimit(process, resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
    elif kind == "leaks descriptors":
        resource.prlimit(process, resource.RLIMIT_NOFILE, (200, 4_096))


def _reason(status: Mapping[str, Any]) -> str:
    """Why the hostile strategy is disabled; empty while it is not."""
    [found] = [row for row in status["strategies"] if row["name"] == "hostile"]
    return str(found["reason"]) if found["state"] == "disabled" else ""


@pytest.mark.one_strike
@pytest.mark.sampled(3)
@pytest.mark.parametrize("harm", HARMS[: times("P5", FEW)], ids=str)
async def test_whatever_a_plug_in_does_the_others_go_on_and_nothing_is_lost_or_doubled(
    harm: Harm, tmp_path: Path
) -> None:
    async with _harmed(tmp_path, harm.kind, harm.hook) as harmed:
        hanging = harmed.hanging
        _bound(harm.kind, hanging.bot.pid)
        await harmed.begin()
        if harm.ends is not None:
            await harmed.so_far(lambda: hanging.bot.poll() == harm.ends)
        elif harm.is_deaf:
            await harmed.so_far(lambda: any("HALTED" in line for line in harmed.screen))
            await hanging.kill()
        else:
            if harm.words:
                await hanging.until(lambda it: re.search(harm.words, _reason(it)))
                if harm.hook != "on_start":  # which was over before anybody looked
                    assert time.time() - harmed.since <= NAMED_S
            await harmed.more_orders()
        if hanging.bot.poll() is not None:
            await harmed.start_again()
        code, err = await harmed.end()

    assert (code, "Traceback" in err) == (0, False)
    assert harmed.faults() == []
    if harm.words:
        shown = " ".join(" ".join(harmed.screen).split())
        assert re.search(harm.words, shown)


@pytest.mark.one_strike
@pytest.mark.parametrize("kind", [*HALTED][: len(HALTED) if is_in_full() else 1])
async def test_a_halt_works_while_a_hook_blocks(kind: str, tmp_path: Path) -> None:
    async with _harmed(tmp_path, kind) as harmed:
        hanging = harmed.hanging
        await harmed.begin()
        await asyncio.sleep(0.3)
        asking = asyncio.create_task(hanging.call("halt", "--yes", "--reason", "wrong prices"))
        await harmed.so_far((hanging.state_dir / FLAG).exists)
        took_s, sent = time.time() - harmed.since - 0.3, len(hanging.orders())
        if HALTED[kind]:
            await asyncio.sleep(5)
            said, _ = await hanging.call("status")
            assert HALTED[kind] in said
        await hanging.until(lambda it: it["state"] == "HALTED")
        halted_s = time.time() - harmed.since - 0.3
        await asking
        code, _, err, _ = await hanging.end()

    assert took_s <= HALTS_S
    if not HALTED[kind]:
        assert halted_s <= 2 * HALTS_S
    assert len(hanging.orders()) == sent
    assert (code, "Traceback" in err) == (0, False)
