"""How a start asks its broker until it answers.

Without open work, an unreachable broker ends the start at once, so that its operator sees why. With
open work, or as an unattended service, the bot has to be there when the broker comes back: it
retries at growing intervals, reports that, and accepts a stop meanwhile.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, TypeVar

from bot.broker.budget import Waiter
from bot.broker.errors import BrokerError, Malformed, NotNow, Refused, refuses_key
from bot.engine.control_state import Standing

RETRY_S: Final = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
"""Waits before the broker is asked again; the last one repeats until the bot is stopped."""
CLOCK_TRIES: Final = 3
"""How often a start that does not wait asks a broker whose 401 our clock explains: two answers show
how far it is off, and the third request is signed by the broker's time.
"""

UNUSABLE: Final = "the broker's answer can't be used"
LATER: Final = "the broker takes no request yet"

T = TypeVar("T")


@dataclass(slots=True)
class BrokerRetry:
    """Asks the broker, repeatedly if `is_needed`. `trouble`: why the last try failed, empty if it
    did not. `excuse`: what explains a 401 other than our key, empty if nothing does.
    """

    waiter: Waiter
    report: Callable[[str], None]
    is_needed: bool
    trouble: str = ""
    excuse: Callable[[], str] = str

    async def ask(self, question: Callable[[], Awaitable[T]], *, tries_max: int | None = None) -> T:
        """Return the answer. Raises BrokerError at once if it is not needed, and if the broker
        rejects the key; after CLOCK_TRIES if the clock explains that. The questions name nothing
        that the broker may not know, so a 404 is a dead route. `tries_max` limits the number of
        tries.
        """
        tries = 0
        while True:
            try:
                answer = await question()
            except BrokerError as error:
                failure, is_refused = error, refuses_key(error)
                excuse = self.excuse() if is_refused else ""
                most = tries_max or (None if self.is_needed else CLOCK_TRIES if excuse else 1)
                is_given_up = most is not None and tries + 1 >= most
                if is_given_up or (is_refused and not excuse):
                    self.trouble = ""
                    raise
            else:
                self.trouble = ""
                return answer
            pause_s = RETRY_S[min(tries, len(RETRY_S) - 1)]
            tries += 1
            refused, silent = "the broker answers with an error", "the broker does not answer"
            what = excuse or what_is_wrong(read_behind(failure), refused, silent)
            self.tell(f"{what} ({failure})", pause_s)
            await self.pause(pause_s)

    def tell(self, trouble: str, pause_s: float) -> None:
        """Show on the screen, and keep for the status, what is wrong and when it is retried."""
        self.trouble = trouble
        self.report(
            f"{trouble}. The bot stays and asks again in {pause_s:.0f} s. To end it: bot stop"
        )

    def standing(self) -> tuple[Standing, ...]:
        """Return the alert that holds while the start of the bot or of its day waits."""
        if not self.trouble:
            return ()
        text = (
            f"{self.trouble}. No order is sent until the bot has read where it stands; it asks "
            "again. If it lasts: bot doctor; to end it: bot stop"
        )
        return (Standing("START_WAITS", text, {"why": self.trouble}),)

    async def pause(self, seconds: float) -> None:
        """Wait on the clock by which requests are counted."""
        await self.waiter.sleep_until(self.waiter.now() + timedelta(seconds=seconds))


def what_is_wrong(error: BrokerError, refused: str, silent: str) -> str:
    """Say what kind of failure a read has had: one of these words, or why its answer is no use."""
    match error:
        case Refused():
            return refused
        case Malformed():
            return UNUSABLE
        case NotNow():
            return LATER
        case _:
            return silent


def read_behind(error: BrokerError) -> BrokerError:
    """Return the failed read itself, if a step of the start has failed by it."""
    return error.__cause__ if isinstance(error.__cause__, BrokerError) else error
