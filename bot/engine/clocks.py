"""What happens to the machine's time: its wall clock is set, or it stands still for a while.

Neither moves the engine's own time, which counts both (`bot.clock`). After a standstill signals
from before are older than their limit, quotes and depths too; but the engine would trade on the
next quote with orders and an account of before. So no order leaves until the day order book and the
account were read again, by a request that began after it.
"""

from collections.abc import Iterable

from bot.domain.entry import Numbers
from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.machine import ClockStepped, StoodStill
from bot.domain.message import (
    AccountRead,
    Event,
    ReadAccount,
    ReadTodaysOrders,
    TodaysOrdersRead,
)
from bot.engine import gate
from bot.engine.state import State
from bot.engine.watched import Standing, Standstill

STANDSTILL = "standstill"
"""Who keeps orders back meanwhile."""


def on_clock_stepped(state: State, event: ClockStepped) -> None:
    """Say which clock the bot goes by."""
    state.machine.wall_is_ahead_by = event.ahead
    if event.ahead:
        told = _stepped(state)
        state.alert(told.code, told.text, told.facts)
    else:
        state.note("RESUME", "the machine's clock agrees with the bot's again")


def on_stood_still(state: State, event: StoodStill) -> None:
    """Keep orders back until everything was read again."""
    span_s = event.span.total_seconds()
    text = (
        f"the bot stood still for {span_s:.0f} s until {_local(state)}: the machine was suspended, "
        "or the process was stopped. What was decided before is too old and is not sent; no order "
        "leaves until the day order book and the account have been read again, by itself. "
        "Nothing to do, but look at the open orders: bot status"
    )
    state.alert("STOOD_STILL", text, {"span_s": round(span_s, 1), "now": _local(state)})
    state.machine.standstill = Standstill(state.now, due=state.now)
    why = f"stood still for {span_s:.0f} s; reading orders and account"
    gate.degrade(state, STANDSTILL, why, is_over=False)


def heard(state: State, event: Event) -> None:
    """Take note of what was read, if it was asked for since."""
    still = state.machine.standstill
    assert still is not None, "asked after a standstill"
    if isinstance(event, TodaysOrdersRead) and event.requested_at >= still.ended_at:
        still.has_orders = True
    elif isinstance(event, AccountRead) and event.snapshot.at >= still.ended_at:
        still.has_account = True
    if still.has_orders and still.has_account:
        state.machine.standstill = None
        why = "orders and account were read after the standstill"
        gate.degrade(state, STANDSTILL, why, is_over=True)


def advance(state: State) -> None:
    """Ask for what is still to be read, again and again."""
    still = state.machine.standstill
    assert still is not None, "asked after a standstill"
    if still.due > state.now:
        return
    still.due = state.now + state.settings.read_patience
    if not still.has_orders:
        state.command(ReadTodaysOrders("after a standstill"))
    if not still.has_account:
        state.command(ReadAccount("after a standstill"))


def alerts(state: State) -> Iterable[Standing]:
    """Return that the machine's clock is not the one that the bot goes by, while it is so."""
    return [_stepped(state)] if state.machine.wall_is_ahead_by else []


def _stepped(state: State) -> Standing:
    ahead_s = state.machine.wall_is_ahead_by.total_seconds()
    back_or_on = "ahead" if ahead_s > 0 else "back"
    text = (
        f"the machine's clock was set {back_or_on} by {abs(ahead_s):.1f} s. The bot goes on by the "
        f"time that it started with ({_local(state)} now): orders, polls and signatures do not "
        "notice. If the new time is the right one, restart the bot when the market is closed; else "
        "set the machine's clock right: timedatectl"
    )
    facts: Numbers = {"ahead_s": round(ahead_s, 1), "now": _local(state)}
    return Standing("CLOCK_STEPPED", text, facts)


def _local(state: State) -> str:
    return f"{state.now.astimezone(EXCHANGE_TZ):%H:%M:%S}"
