"""The broker of the kills, in a process of its own: it outlives every run of the bot.

    python -m bot.drill.broker FOLDER      FOLDER/scenario.json; the ledger is in FOLDER/state

Its first line on stdout is what `bot paper serve` prints; it ends when its standard input does.
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import Final

from bot.clock import ScaledClock, SystemClock
from bot.config.rulebook import load_rulebook
from bot.runtime.state_dir import LEDGER
from bot.sandbox.sandbox import Sandbox
from bot.sandbox.scenario import Scenario
from bot.sandbox.serve import credentials_line, run_free, serve

SCENARIO: Final = "scenario.json"
STATE: Final = "state"


async def _serve(folder: Path) -> None:
    wire = SystemClock()
    script = Scenario.model_validate_json((folder / SCENARIO).read_text())
    market = ScaledClock(wire, start=script.starts_at, speed=script.speed)
    ledger = folder / STATE / LEDGER
    sandbox = Sandbox(script, load_rulebook(), clock=market, wire=wire, ledger=ledger)
    async with serve(sandbox) as base_url:
        playing = asyncio.create_task(run_free(sandbox, market))
        os.write(sys.stdout.fileno(), f"{credentials_line(sandbox, base_url)}\n".encode())
        await asyncio.to_thread(sys.stdin.read)
        playing.cancel()
    sandbox.close()


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1])))
