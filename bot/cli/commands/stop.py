"""`bot stop`: end the running bot, and wait until it is gone."""

from time import sleep
from typing import Final

import click

from bot.cli.command import Invocation, define_command
from bot.cli.last_run import lines_left_open
from bot.cli.operating import LOOK_EVERY_S, OPERATOR, print_end
from bot.cli.options import length_from, reason_option
from bot.cli.show import write_line
from bot.cli.target import STOPPED, ask_bot, find_bot, which_bot
from bot.clock import monotonic_s
from bot.config.problems import ExitCode, OperatorMistake

LEAST_S: Final = 2.0
"""The least time to wait for an answer, however short the timeout."""


@define_command("stop", example="bot stop --cancel-open --timeout 30s", changes=True)
@click.option("--cancel-open/--keep-open", default=False, help="Cancel open orders first.")
@click.option(
    "--timeout", type=length_from(0), default="30", metavar="TIME", help="How long to wait."
)
@reason_option
@click.pass_obj
def command(invocation: Invocation, cancel_open: bool, timeout: float, reason: str) -> None:
    """Stop the running bot cleanly and wait until it is gone."""
    invocation.patience_s = min(invocation.patience_s, max(timeout, LEAST_S))
    request = {"reason": reason or "bot stop", "by": OPERATOR, "cancel_open": cancel_open}
    ask_bot(invocation, "stop", **request)
    deadline = monotonic_s() + timeout
    while find_bot(invocation, "status") is not None:
        if monotonic_s() >= deadline:
            which = which_bot(invocation)
            message = f"{which} is still stopping after {timeout:g} s, and continues to"
            raise OperatorMistake.of("E-RUN-002", message, ExitCode.TIMED_OUT)
        sleep(LOOK_EVERY_S)
    print_end(invocation, STOPPED)
    for line in lines_left_open(invocation):
        write_line(line, err=invocation.json)
