"""Shared by commands that act on the running bot: act, wait for the effect, and show it."""

from collections.abc import Callable, Collection
from time import sleep
from typing import Final

import click

from bot.cli import messages
from bot.cli.command import Invocation
from bot.cli.show import print_json, write_line
from bot.cli.target import Fields, ask_bot, find_status, no_bot, which_bot
from bot.cli.telling.wording import counted
from bot.clock import monotonic_s
from bot.config.problems import OperatorMistake
from bot.domain.entry import RunState

SETTLE_S: Final = 2.0
"""How long to wait for the effect of a request, which the bot carries out a moment later."""
LOOK_EVERY_S: Final = 0.05
LOOK_AT_ORDERS_EVERY_S: Final = 0.1
"""An order takes its way to the broker and back; a state is reached at once."""
OPERATOR: Final = "operator"
_BY_HAND: Final = frozenset({RunState.REDUCING, RunState.PAUSED, RunState.HALTED})
OFF: Final = frozenset({"paused", "disabled"})


def act(
    invocation: Invocation,
    do: str,
    wanted: RunState,
    wanted_of_strategy: Collection[str],
    *,
    strategy: str | None,
    reason: str,
    **more: object,
) -> None:
    """Have the bot, or one strategy, do something; show its state a moment later."""

    def state(found: Fields) -> str:
        rows = {row.text("name"): row.text("state") for row in found.each("strategies")}
        return found.text("state") if strategy is None else rows.get(strategy, "")

    if strategy is not None:
        running = ask_bot(invocation, "status").inner("status")
        names = [row.text("name") for row in running.each("strategies")]
        if strategy not in names:
            raise click.UsageError(
                f"no strategy '{strategy}' is running; running: {', '.join(names)}"
            )

    def holds(found: Fields) -> bool:
        """Return whether the state holds below a stronger one that hides it."""
        causes = {row.text("state") for row in found.each("causes")}
        is_free = wanted is RunState.RUNNING and not causes & _BY_HAND
        return strategy is None and (is_free or wanted in causes)

    ask_bot(invocation, do, strategy=strategy, reason=reason, by=OPERATOR, **more)
    reached = {wanted} if strategy is None else wanted_of_strategy
    found = wait_until(invocation, lambda now: state(now) in reached or holds(now))
    require_running(invocation, found)
    print_end(invocation, found)
    if strategy is None:
        print_accepted(invocation, found, do, wanted)
    elif not invocation.json and state(found) == "on":
        write_line(f"{strategy} on")


def wait_until(
    invocation: Invocation, is_reached: Callable[[Fields], bool], within_s: float = SETTLE_S
) -> Fields:
    """Poll until the bot is in the wanted state or has ended, or the time is up; return its
    state.
    """
    deadline = monotonic_s() + within_s
    found = find_status(invocation)
    while not (is_reached(found) or _is_over(found)) and monotonic_s() < deadline:
        sleep(LOOK_EVERY_S)
        found = find_status(invocation)
    return found


def require_running(invocation: Invocation, found: Fields) -> None:
    """Raise OperatorMistake if the bot has ended since it was asked."""
    if _is_over(found):
        mistake = no_bot(invocation)
        text = f"{messages.HALT_ENDED} {mistake.problems[0].message}"
        raise OperatorMistake.of("E-RUN-001", text, mistake.exit_code)


def _is_over(found: Fields) -> bool:
    return found.text("state") == RunState.STOPPED


def print_accepted(invocation: Invocation, found: Fields, do: str, wanted: RunState) -> None:
    """Report that the bot has accepted the action although another state still hides it."""
    if not invocation.json and found.text("state") != wanted:
        write_line(messages.TAKEN.format(do=do, state=found.text("state")))


def print_end(invocation: Invocation, found: Fields) -> None:
    """Print the bot's state now, and which orders are still open."""
    if invocation.json:
        print_json(found)
        return
    print_state(invocation, found)
    if orders := found.each("open_orders"):
        listed = ", ".join(row.text("order_id") for row in orders)
        write_line(f"{counted(len(orders), 'order')} still open: {listed}")


def print_state(invocation: Invocation, found: Fields, more: str = "") -> None:
    """Print which bot it is, its state now, and which strategies are off."""
    is_well = found.text("state") == RunState.RUNNING
    reason = "" if is_well else found.text("reason")  # old, or typed a moment ago
    tail = f"{f', {more}' if more else ''}{f': {reason}' if reason else ''}"
    write_line(f"{found.text('state')} {which_bot(invocation)}{tail}")
    for row in found.each("strategies"):
        if row.text("state") in OFF:
            why = row.text("reason")
            write_line(f"{row.text('name')} {row.text('state')}{f': {why}' if why else ''}")
