"""A stopped process: whoever asks hears so at once; later only what is safer is still done."""

import asyncio
import signal
from pathlib import Path

import pytest

from tests.faults.hanging import RESTING, trading

pytestmark = [pytest.mark.process, pytest.mark.timeout(240)]


async def test_a_stopped_bot_is_named_its_orders_too_and_it_obeys_the_halt_alone_when_it_moves(
    tmp_path: Path,
) -> None:
    async with trading(tmp_path) as hanging:
        await hanging.until(lambda _: hanging.journalled("ACCEPTED") == len(RESTING))
        hanging.bot.send_signal(signal.SIGSTOP)
        (halted, halt_s), (stopped, stop_s) = await asyncio.gather(
            hanging.call("halt", "--yes", "--reason", "it hangs"),
            hanging.call("stop", "--timeout", "2s"),
        )
        hanging.bot.send_signal(signal.SIGCONT)
        found = await hanging.until(lambda it: it["state"] == "HALTED" and not it["open_orders"])
        await asyncio.sleep(0.5)

        assert hanging.bot.poll() is None, "the stop was given up"
        assert found["reason"] == "it hangs"
        silence = f"(process {hanging.bot.pid}) does not answer: it is stopped"
        assert silence in halted
        assert silence in stopped
        assert "'stop' will not be done later either" in stopped
        assert halted.count("open, according to the journal: ORD") == len(RESTING)
        assert "E-RUN-011" in halted
        assert max(halt_s, stop_s) < 60
        assert set(hanging.orders().values()) == {"CANCELLED"}
