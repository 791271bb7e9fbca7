"""`bot pause`, `resume` and `stop`: what an operator does to the running bot."""

from collections.abc import Callable, Collection
from time import sleep
from typing import Final

import click

from bot.cli import messages
from bot.cli.command import command
from bot.cli.commands.status import find_status
from bot.cli.fields import Fields, each, inner, text
from bot.cli.invocation import Invocation
from bot.cli.lengths import Length
from bot.cli.places import ask_bot, find_bot, which_bot
from bot.cli.show import print_json, print_text
from bot.cli.telling.wording import counted
from bot.clock import monotonic_s
from bot.config.problems import ExitCode, OperatorMistake
from bot.domain.entry import RunState

SETTLE_S: Final = 2.0
"""How long to look for the effect of an order to the bot, which is carried out a moment later."""
LOOK_EVERY_S: Final = 0.05
OPERATOR: Final = "operator"

strategy_option: Final = click.option("--strategy", metavar="NAME", help="Only this one.")
reason_option: Final = click.option("--reason", default="", metavar="TEXT", help="Is journalled.")

_OFF: Final = frozenset({"paused", "disabled"})
_PAUSED: Final = frozenset({"paused"})
_RESUMED: Final = frozenset({"on", "warming"})


@command("pause", example='bot pause --reason "earnings tonight"', changes=True)
@strategy_option
@reason_option
@click.pass_obj
def pause(invocation: Invocation, strategy: str | None, reason: str) -> None:
    """Send no new orders. Open ones stay and are followed."""
    _act(invocation, "pause", RunState.PAUSED, _PAUSED, strategy, reason)


@command("resume", example='bot resume --reason "checked the account"', changes=True)
@strategy_option
@reason_option
@click.pass_obj
def resume(invocation: Invocation, strategy: str | None, reason: str) -> None:
    """Take new orders again. Leaving HALTED needs a reason."""
    state = text(find_status(invocation), "state")
    if state == RunState.HALTED and not reason.strip():
        message = 'the bot is HALTED: to leave that, say why: bot resume --reason "…"'
        raise OperatorMistake.of("E-RUN-003", message, ExitCode.REFUSED)
    _act(invocation, "resume", RunState.RUNNING, _RESUMED, strategy, reason)


@command("stop", example="bot stop --cancel-open --timeout 30s", changes=True)
@click.option("--cancel-open/--keep-open", default=False, help="Cancel open orders first.")
@click.option("--timeout", type=Length(), default=30.0, metavar="TIME", help="At most how long.")
@reason_option
@click.pass_obj
def stop(invocation: Invocation, cancel_open: bool, timeout: float, reason: str) -> None:
    """Stop the running bot cleanly and wait until it is gone."""
    request = {"reason": reason or "bot stop", "by": OPERATOR, "cancel_open": cancel_open}
    ask_bot(invocation, "stop", **request)
    deadline = monotonic_s() + timeout
    while find_bot(invocation, "status") is not None:
        if monotonic_s() >= deadline:
            which = which_bot(invocation)
            message = f"{which} is still stopping after {timeout:g} s; it goes on stopping"
            raise OperatorMistake.of("E-RUN-002", message, ExitCode.TIMED_OUT)
        sleep(LOOK_EVERY_S)
    _print(invocation, {"state": RunState.STOPPED})


def _act(
    invocation: Invocation,
    do: str,
    wanted: RunState,
    wanted_of_strategy: Collection[str],
    strategy: str | None,
    reason: str,
) -> None:
    if strategy is not None:
        _require_strategy(invocation, strategy)
    ask_bot(invocation, do, strategy=strategy, reason=reason, by=OPERATOR)
    reached = {wanted} if strategy is None else wanted_of_strategy
    found = wait_until(invocation, lambda now: _state(now, strategy) in reached)
    _print(invocation, found)
    if strategy is None:
        tell_taken(invocation, found, do, wanted)
    elif not invocation.json and _state(found, strategy) == "on":
        print_text(f"{strategy} on")


def wait_until(
    invocation: Invocation, is_reached: Callable[[Fields], bool], within_s: float = SETTLE_S
) -> Fields:
    """Look until the bot is as it should be, or the time is up; return how it is."""
    deadline = monotonic_s() + within_s
    found = find_status(invocation)
    while not is_reached(found) and monotonic_s() < deadline:
        sleep(LOOK_EVERY_S)
        found = find_status(invocation)
    return found


def tell_taken(invocation: Invocation, found: Fields, do: str, wanted: RunState) -> None:
    """Say that an act has been taken where another state still hides it."""
    if not invocation.json and text(found, "state") != wanted:
        print_text(messages.TAKEN.format(do=do, state=text(found, "state")))


def _require_strategy(invocation: Invocation, strategy: str) -> None:
    names = [
        text(row, "name")
        for row in each(inner(ask_bot(invocation, "status"), "status"), "strategies")
    ]
    if strategy not in names:
        raise click.UsageError(f"no strategy '{strategy}' runs; these do: {', '.join(names)}")


def _state(found: Fields, strategy: str | None) -> str:
    if strategy is None:
        return text(found, "state")
    rows = {text(row, "name"): text(row, "state") for row in each(found, "strategies")}
    return rows.get(strategy, "")


def _print(invocation: Invocation, found: Fields) -> None:
    """Say how the bot is now, and which orders are still open."""
    if invocation.json:
        print_json(found)
        return
    print_state(invocation, found)
    orders = each(found, "open_orders")
    if orders:
        listed = ", ".join(text(row, "order_id") for row in orders)
        print_text(f"{counted(len(orders), 'order')} still open: {listed}")


def print_state(invocation: Invocation, found: Fields, more: str = "") -> None:
    """Say which bot it is and how it is now, and which strategies are off."""
    reason = text(found, "reason")
    tail = f"{f', {more}' if more else ''}{f': {reason}' if reason else ''}"
    print_text(f"{text(found, 'state')} {which_bot(invocation)}{tail}")
    paused = [row for row in each(found, "strategies") if text(row, "state") in _OFF]
    for row in paused:
        because = text(row, "reason")
        print_text(f"{text(row, 'name')} {text(row, 'state')}{f': {because}' if because else ''}")
