"""`bot pause`: no new orders until `bot resume`."""

import click

from bot.cli.command import Invocation, define_command
from bot.cli.operating import act
from bot.cli.options import reason_option, strategy_option
from bot.domain.entry import RunState


@define_command("pause", example='bot pause --reason "earnings tonight"', changes=True)
@strategy_option
@reason_option
@click.pass_obj
def command(invocation: Invocation, strategy: str | None, reason: str) -> None:
    """Send no new orders. Open ones stay and are followed."""
    act(invocation, "pause", RunState.PAUSED, {"paused"}, strategy=strategy, reason=reason)
