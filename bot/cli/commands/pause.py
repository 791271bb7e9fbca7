"""`bot pause`: no new orders until `bot resume`."""

import click

from bot.cli.command import Invocation, define_command
from bot.cli.operating import act
from bot.cli.options import reason_option, strategy_option
from bot.domain.entry import RunState


@define_command("pause", example='bot pause --reason "earnings tonight"', changes=True)
@strategy_option
@reason_option
@click.option("--entries", is_flag=True, help="Stop only buying; sells and cancels continue.")
@click.pass_obj
def command(invocation: Invocation, strategy: str | None, reason: str, entries: bool) -> None:
    """Send no new orders. Open ones stay and are still followed.

    With --entries the bot is REDUCING: it buys nothing, and sells what its strategies want sold.
    """
    if entries and strategy is not None:
        raise click.UsageError("--entries is for the whole bot; leave out --strategy")
    wanted = RunState.REDUCING if entries else RunState.PAUSED
    more = {"entries_only": True} if entries else {}
    act(invocation, "pause", wanted, {"paused"}, strategy=strategy, reason=reason, **more)
