"""`bot resume`: take new orders again, after a pause or a halt."""

import click

from bot.cli.command import Invocation, define_command
from bot.cli.operating import act
from bot.cli.options import reason_option, strategy_option
from bot.cli.target import find_status
from bot.config.problems import ExitCode, OperatorMistake
from bot.domain.entry import RunState


@define_command("resume", example='bot resume --reason "checked the account"', changes=True)
@strategy_option
@reason_option
@click.pass_obj
def command(invocation: Invocation, strategy: str | None, reason: str) -> None:
    """Take new orders again. Leaving HALTED needs a reason."""
    state = find_status(invocation).text("state")
    if state == RunState.HALTED and not reason.strip():
        message = 'the bot is HALTED: to leave that, say why: bot resume --reason "…"'
        raise OperatorMistake.of("E-RUN-003", message, ExitCode.REFUSED)
    on = {"on", "warming"}
    act(invocation, "resume", RunState.RUNNING, on, strategy=strategy, reason=reason)
