"""`bot run`: the daemon in the foreground."""

import os
from datetime import timedelta
from typing import Final

import click

from bot import __version__
from bot.cli import messages
from bot.cli.command import Invocation, define_command
from bot.cli.foreground import ending_while_it_starts, run_in_foreground, with_free_port
from bot.cli.show import say
from bot.cli.target import load, name_demo, require_none_running, runs
from bot.cli.telling.wording import span_of
from bot.config.problems import ExitCode, OperatorMistake

OWN_FOLDER: Final = (
    "a bot is already running on {state_dir}, and a standby beside it needs its own state_dir: "
    "set BOT_STATE_DIR, or state_dir in its configuration"
)
_PLAYED: Final = {"paper": timedelta(seconds=5)}
"""Modes with simulated 2FA: nobody has to supply a code each morning."""


@define_command("run", example="bot run -c config/bot.yaml --dry-run")
@click.option("--dry-run", is_flag=True, help="Decide, sign and journal, but send no order.")
@click.option("--only", multiple=True, metavar="NAME", help="Only this strategy (repeatable).")
@click.option(
    "--standby", is_flag=True, help="Wait for another bot's journal, and take over from it."
)
@click.pass_obj
def command(invocation: Invocation, dry_run: bool, only: tuple[str, ...], standby: bool) -> None:
    """Run the bot until SIGTERM or Ctrl-C, which stop it cleanly.

    A second Ctrl-C ends it at once. `mode` in the configuration says which broker it trades
    with, and whether with real money.
    """
    with ending_while_it_starts(invocation):
        # Help pages need not import what only a run uses.
        from bot.runtime.run_controls import RunOptions

        loaded = load(invocation)
        name_demo(invocation, loaded, messages.DEMO_RUN)
        if standby and runs(loaded.state_dir):
            raise OperatorMistake.of(
                "E-RUN-004", OWN_FOLDER.format(state_dir=loaded.state_dir), ExitCode.NOT_RUNNING
            )
        require_none_running(loaded.state_dir)
        loaded = with_free_port(invocation, loaded)
        mode = loaded.settings.mode
        money = "REAL ORDERS" if mode == "live" else "nothing here is real money"
        tail = " · dry run, nothing is sent" if dry_run else ""
        say(invocation, f"vnbot {__version__} run · {mode.upper()} · {money}{tail}")
        options = RunOptions(
            dry_run=dry_run,
            only=only,
            is_standby=standby,
            is_service="NOTIFY_SOCKET" in os.environ,
            answer_otp_after=_PLAYED.get(mode),
        )
        end = run_in_foreground(invocation, loaded, options)
    say(invocation, f"stopped by {end.reason} after {span_of(timedelta(seconds=end.seconds))}")
