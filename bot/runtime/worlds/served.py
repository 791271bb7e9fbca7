"""The environment of a sandbox in another process: its market time runs by itself, at any speed.

`bot paper serve` gives its market time, the wire's and the speed on a loopback path; from then on
market time here is computed from the machine's clock, and both sides agree to a few milliseconds.
"""

import json
from contextlib import AsyncExitStack
from datetime import datetime
from typing import Final

from bot.broker.broker import connect
from bot.broker.errors import Malformed, Unreachable
from bot.broker.link import READ_BOUNDS, HttpRequest, Traffic
from bot.clock import Clock, ScaledClock
from bot.protocol.envelope import Answer
from bot.runtime.worlds.environment import Access
from bot.runtime.worlds.system import SystemEnvironment

CONTROL_PATH: Final = "/_sandbox/control"
_CALL: Final = "sandbox clocks"


class ServedEnvironment(SystemEnvironment):
    """The sandbox's market time, and the machine's as wire time."""

    async def open(self, _stack: AsyncExitStack) -> Access:
        """Learn how its market time runs. Raises BrokerError."""
        found = await read_market_clock(self._access.base_url, self.wire)
        if found is not None:
            self.market, self._speed = found
            self.has_machines_time = False
            self.quota_speed = self._speed
        return self._access


async def read_market_clock(base_url: str, wire: Clock) -> tuple[ScaledClock, float] | None:
    """Ask a server whether it is a sandbox, and how its market time runs; None: it is not one.

    Raises Unreachable, or Malformed when the path answers what no sandbox would.
    """
    link = connect(base_url, traffic=Traffic())
    try:
        answer = await link.exchange(HttpRequest("GET", CONTROL_PATH, {}), READ_BOUNDS)
    finally:
        await link.close()
    if not isinstance(answer, Answer):
        raise Unreachable(_CALL, answer.reason)
    if answer.http_status == 404:
        return None
    try:
        found = json.loads(answer.body)
        market, speed = datetime.fromisoformat(found["market"]), float(found["speed"])
    except (ValueError, KeyError, TypeError) as error:
        raise Malformed(_CALL, "no market time and speed") from error
    return ScaledClock(wire, start=market, speed=speed), speed
