"""A halt that sells goes on after a kill, and ends when somebody halts without selling."""

import asyncio
import os
from pathlib import Path

import pytest

from bot.runtime.brake import FLAG
from tests.faults.hanging import Hanging, trading
from tests.story import once

pytestmark = pytest.mark.process


async def _again(hanging: Hanging, *, touch: bool = False) -> dict[str, str]:
    """Kill it and start it again; return what stays wrong, by its code, once it is back."""
    await hanging.kill()
    if touch:
        os.utime(hanging.state_dir / FLAG)
    hanging.start_again()
    await hanging.until(lambda it: it["state"] == "HALTED" and it.get("positions"))
    await asyncio.sleep(0.5)
    found = await hanging.status()
    return {str(each["code"]): str(each["text"]) for each in found["standing"]}


async def test_a_kill_ends_no_flatten_and_a_plain_halt_beside_the_dead_bot_does(
    tmp_path: Path,
) -> None:
    buyer = once(wake={"quote": "1s"})
    async with trading(tmp_path, strategies=[buyer], is_signed_in=False) as hanging:
        await hanging.give_token()
        await hanging.until(lambda it: it["positions"])
        told, _ = await hanging.call("halt", "--flatten", "--yes", "--reason", "enough")
        orders = hanging.orders()

        after_a_kill = await _again(hanging)
        after_a_halt = await _again(hanging, touch=True)

        what = "flatten: once still holds 100 HPG: "
        assert f"{what}not settled until " in told
        assert after_a_kill["FLATTEN"].startswith(what)
        assert "FLATTEN" not in after_a_halt
        assert hanging.orders() == orders, "nothing that is not settled is sold"
