"""The clocks of a start. A run reads its machine's clock once, and its rows carry that time: none
begins by one that is far off the broker's, or behind its own journal.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import count
from typing import Final

from bot.broker.broker import Broker
from bot.broker.clock_offset import ClockOffset
from bot.broker.errors import BrokerError
from bot.clock import Clock, SystemClock
from bot.config.problems import ExitCode, OperatorMistake
from bot.domain.operations import WARN_OFFSET, clock_words
from bot.domain.recovery import Recovery
from bot.runtime.start.retry import BrokerRetry

CLOCK_WAIT_MAX: Final = timedelta(minutes=1)
"""A clock set back by more is not waited for: with one so far off no order was sent (R25)."""
LOOK_S: Final = 5.0
"""How often a start looks whether its machine's clock was set."""


def clocks_fault(broker: Broker) -> str:
    """Say how far our clock is off if that explains the broker's 401; empty if it does not."""
    seen = broker.offset.seen
    if broker.breaker.has_refusal or abs(seen) < WARN_OFFSET:
        return ""
    return f"{clock_words(seen)}, which refuses what is signed by it"


async def require_near_clock(
    offset: ClockOffset,
    wire: Clock,
    retry: BrokerRetry,
    ask: Callable[[], Awaitable[object]],
    wall: Clock | None = None,
) -> None:
    """Begin no run by a clock that the broker's shows to be off by more than CLOCK_WAIT_MAX: once
    it is right, its rows would be of the future, or of another day.

    If the broker is needed, wait until the clock is set. Raises OperatorMistake, then too: this
    process has read it before, so another start has to. Each look asks the broker: a `Date` may
    have been wrong, then it refuses what is signed by that; and a clock may be slewed, which ours
    follows.
    """
    wall = wall or SystemClock()
    for looks in count():
        if abs(offset.applied) > CLOCK_WAIT_MAX:
            with suppress(BrokerError):
                await ask()
        off = offset.applied
        if abs(off) <= CLOCK_WAIT_MAX:
            retry.trouble = ""
            break
        words = f"{clock_words(off)}, and no run begins by it"
        if abs(off - (wall.now() - wire.now())) <= CLOCK_WAIT_MAX:
            text = (
                f"this machine's clock was set while the bot started ({words}). No order was "
                "sent. Start it again; a service does that by itself"
            )
            raise OperatorMistake.of("E-NET-004", text, ExitCode.UNREACHABLE)
        if not retry.is_needed:
            text = f"{words}. No order was sent. Set this machine's clock (timedatectl), then start"
            raise OperatorMistake.of("E-NET-004", f"{text} again", ExitCode.UNREACHABLE)
        if not looks:
            retry.report(
                f"{words}. Set this machine's clock (timedatectl); the bot waits for that. To end "
                "it: bot stop"
            )
            retry.trouble = words
        await retry.pause(LOOK_S)


async def wait_for_clock(
    left: Recovery,
    clock: Clock,
    pause: Callable[[timedelta], Awaitable[None]],
    retry: BrokerRetry,
    *,
    is_wall: bool,
) -> None:
    """Wait until it is as late as in the newest figures of the journal.

    By a clock that was set back meanwhile, or is behind another machine's, they would be of the
    future: a fill would count once more than the account shows it, and a row that is read now would
    be older than the last one.
    """
    newest, now = newest_of(left), clock.now()
    if newest is None or newest <= now:
        return
    seconds = (newest - now).total_seconds()
    text = f"the newest entry of the journal is {seconds:,.1f} s ahead of this machine's clock"
    if newest - now <= CLOCK_WAIT_MAX:
        end = "bot stop" if retry.is_needed else "Ctrl-C"
        retry.report(f"{text}. The bot waits until that time has come. To end it: {end}")
        retry.trouble = text
        await pause(newest - now)
        retry.trouble = ""
    elif is_wall:
        more = "what was filled of late may count twice, and new rows as old, until then"
        retry.report(f"{text}: {more}. Set the clock, then restart the bot")


def newest_of(left: Recovery) -> datetime | None:
    """Return when the newest row, fill or read of an account in the journal was, if any."""
    rows = (row.at for row in (*left.orders, *left.traded_elsewhere))
    reads = (read.at for read in (*left.bases, *left.account_reads))
    return max((*rows, *reads, *(fill.at for _, fill in left.recent_fills)), default=None)
