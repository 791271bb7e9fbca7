"""Frozen disks: a stop still ends in time, and reports what could not be written.

    python -m tests.faults.frozen

The disk of the state directory takes nothing any more while two orders rest at the broker: journal,
emergency journal, log and socket all hang in the middle of a call. The library that makes them do
so (`frozen_disk.c`) is compiled first; without a compiler that part is left out, and said. In
another story the loop itself hangs while the run closes what it has open.
"""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from bot.config.problems import ExitCode
from bot.runtime.process import LET_GO_S
from tests.faults.hanging import trading
from tests.staging import QUIET
from tests.story import once, write_project

PATIENCE_S: Final = 20.0
"""That of a service manager (TimeoutStopSec)."""
LIBRARY: Final = "LD_PRELOAD"
HANGS_AT_THE_END = """
import asyncio, pathlib, threading, time
from bot import Strategy


class Left(Strategy):
    def on_start(self):
        loop, socket = asyncio.get_event_loop(), pathlib.Path({socket!r})

        def hang():
            while socket.exists():
                time.sleep(0.0002)
            loop.call_soon_threadsafe(time.sleep, 600)

        threading.Thread(target=hang, daemon=True).start()
"""


async def a_stop_on_a_frozen_disk(folder: Path) -> str:
    async with trading(folder) as hanging:
        (folder / "FROZEN").touch()
        await hanging.until(lambda it: it["state"] == "DEGRADED")
        began_s = time.monotonic()
        code, out, err, seconds = await hanging.end()
        statuses = set(hanging.orders().values())

    assert code == ExitCode.DATABASE, (code, err)
    assert seconds < PATIENCE_S, (seconds, time.monotonic() - began_s)
    assert "E-DB-010" in err, err
    assert "the emergency journal does not answer either: a halt of this run may be lost" in err, (
        err
    )
    assert "Traceback" not in out + err, err
    assert statuses == {"SENT"}, statuses
    return f"a stop on a frozen disk: gone after {seconds:.1f} s with code {code}"


async def a_start_after_it(folder: Path) -> str:
    async with trading(folder) as hanging:
        (folder / "FROZEN").touch()
        await hanging.until(lambda it: it["state"] == "DEGRADED")
        await hanging.end()
        (folder / "FROZEN").unlink()
        hanging.start_again()
        await hanging.until(lambda it: len(it.get("open_orders", ())) == len(hanging.orders()))
        code, _, err, _ = await hanging.end()

    assert (code, len(hanging.orders())) == (ExitCode.DONE, 2), (code, err)
    return "the start after it: both orders known, none placed twice"


async def a_loop_that_hangs_at_the_end(folder: Path) -> str:
    from tests.processes import BotProcess

    config = write_project(
        folder,
        scenario=QUIET,
        strategies=[once(name="left", use="left", params={})],
        sandbox={"scenario": "story.yaml", "speed": 5, "port": 0},
    )
    socket = folder / "state" / "control" / "socket"
    code = HANGS_AT_THE_END.format(socket=str(socket))
    (folder / "strategies" / "left.py").write_text(code)
    bot = BotProcess("run", "-c", str(config))
    assert any(" RUNNING " in line for line in iter(bot.stdout.readline, "")), bot.communicate()
    began_s = time.monotonic()
    bot.send_signal(signal.SIGTERM)
    _, err = await asyncio.to_thread(bot.communicate)
    seconds = time.monotonic() - began_s

    assert bot.returncode == ExitCode.DONE, (bot.returncode, err)
    assert seconds < PATIENCE_S, seconds
    words = "ended without waiting for a disk or database that hangs and still holds its files"
    assert words in err, err
    assert seconds > LET_GO_S, "nothing hung"
    return f"a loop that hangs at the end: gone after {seconds:.1f} s"


def main() -> int:
    if LIBRARY not in os.environ and shutil.which("cc"):
        with tempfile.TemporaryDirectory() as made:
            library = f"{made}/frozen_disk.so"
            source = Path(__file__).with_name("frozen_disk.c")
            flags = ["-shared", "-fPIC", "-O1", "-w"]
            subprocess.run(["cc", *flags, "-o", library, str(source), "-ldl"], check=True)
            command = [sys.executable, "-W", "ignore", "-m", "tests.faults.frozen"]
            return subprocess.run(
                command, check=False, env={**os.environ, LIBRARY: library}
            ).returncode
    stories = [a_loop_that_hangs_at_the_end]
    if LIBRARY in os.environ:
        stories += [a_stop_on_a_frozen_disk, a_start_after_it]
    else:
        sys.stdout.write("no C compiler: the frozen disk is left out\n")
    for story in stories:
        with tempfile.TemporaryDirectory() as folder:
            sys.stdout.write(f"{asyncio.run(story(Path(folder)))}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
