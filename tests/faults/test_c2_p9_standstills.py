"""C2, P9: a bot that was stopped for a while reads everything again before it trades on."""

import asyncio
import re
import signal
from pathlib import Path

import pytest

from tests.faults.hanging import trading

pytestmark = [pytest.mark.wire, pytest.mark.process, pytest.mark.timeout(240), pytest.mark.long]

STOPPED_S = 7.0


@pytest.mark.one_strike
async def test_a_stopped_process_notices_reads_again_and_goes_on(tmp_path: Path) -> None:
    async with trading(tmp_path) as hanging:
        before = hanging.orders()
        hanging.bot.send_signal(signal.SIGSTOP)
        await asyncio.sleep(STOPPED_S)
        hanging.bot.send_signal(signal.SIGCONT)
        awake = await hanging.until(lambda it: it["state"] in {"DEGRADED", "RUNNING"})
        again = await hanging.until(lambda it: it["state"] == "RUNNING")
        await asyncio.sleep(1)
        after = hanging.orders()
        code, out, err, _ = await hanging.end()

    told = [line for line in out.splitlines() if "stood still for" in line]
    late = [float(seconds) for seconds in re.findall(r"came ([\d.]+) s late", out)]
    assert awake["at"] <= again["at"]
    assert any("ALERT" in line for line in told), out
    assert sum(seconds > STOPPED_S / 2 for seconds in late) == 1, out
    assert before == after
    assert len(again["open_orders"]) == len(before)
    assert (code, "Traceback" in out + err) == (0, False)
