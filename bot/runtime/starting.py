"""A broker that is away at a start while orders may be open: it is asked until it answers.

A bot without open work ends at once, so that its operator sees why. With open work somebody has to
be there when the broker comes back: the bot asks again, at growing distances, says so, and answers
`bot status` and `bot stop` meanwhile.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, TypeVar

from bot.broker.errors import BrokerError, is_unknown, refuses_key
from bot.broker.waiter import Waiter
from bot.domain.entry import RunState
from bot.domain.order import TERMINAL_STATES, UNRESOLVED_SENDS
from bot.domain.recovery import Recovery
from bot.runtime.control import Handler, Reply, Request
from bot.runtime.control_server import while_starting

RETRY_S: Final = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
"""How long is waited before the broker is asked again; the last one repeats until somebody stops
the bot.
"""

T = TypeVar("T")


def has_open_work(recovery: Recovery) -> bool:
    """Whether the journal knows of an order that may be open at the broker, or may have arrived."""
    is_open = any(row.intent_id and row.state not in TERMINAL_STATES for row in recovery.orders)
    return is_open or any(stored.state in UNRESOLVED_SENDS for stored in recovery.intents)


@dataclass(slots=True)
class Insistence:
    """Asks the broker, again and again where that `is_needed`. `trouble` is why the last ask
    failed; empty when it did not.
    """

    waiter: Waiter
    tell: Callable[[str], None]
    is_needed: bool
    trouble: str = ""

    async def ask(self, question: Callable[[], Awaitable[T]]) -> T:
        """Return the answer. Raises BrokerError at once where nothing is open, and for a key or a
        name that the broker does not take.
        """
        tries = 0
        while True:
            try:
                answer = await question()
            except BrokerError as error:
                if not self.is_needed or refuses_key(error) or is_unknown(error):
                    raise
                self.trouble = f"the broker does not answer ({error})"
            else:
                self.trouble = ""
                return answer
            pause_s = RETRY_S[min(tries, len(RETRY_S) - 1)]
            tries += 1
            self.tell(
                f"{self.trouble}. Orders may be open, so the bot stays and asks again in "
                f"{pause_s:.0f} s. To end it: bot stop"
            )
            await self.waiter.sleep_until(self.waiter.now() + timedelta(seconds=pause_s))


def handlers_of(
    insistence: Insistence, fields: Mapping[str, object], stop: Callable[[str, str], None]
) -> Mapping[str, Handler]:
    """Return what answers until the broker does: as at every start, with why it takes so long, and
    the stop.
    """
    usual = while_starting(fields)

    async def status(request: Request) -> Reply:
        if not insistence.trouble:
            return await usual["status"](request)
        state = {"state": RunState.STARTING, "reason": insistence.trouble, **fields}
        return {"ok": True, "status": state}

    async def end(request: Request) -> Reply:
        stop(str(request.get("reason") or "stopped"), str(request.get("by") or "operator"))
        return {"ok": True}

    return defaultdict(lambda: usual["any other"], status=status, stop=end)
