"""`bot run`: the daemon in the foreground."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

import click

from bot import __version__
from bot.cli.command import command
from bot.cli.invocation import Invocation
from bot.cli.places import load, require_none_running
from bot.cli.running import run_in_foreground, with_free_port
from bot.cli.show import say
from bot.cli.telling.wording import span_of
from bot.config.settings.load import Loaded
from bot.runtime.run_controls import RunOptions

_PLAYED: Final[Mapping[str, timedelta]] = {"paper": timedelta(seconds=5)}
"""Modes whose second factor is played here: nobody has to give a code each morning."""


@command("run", example="bot run -c config/bot.yaml --dry-run")
@click.option("--dry-run", is_flag=True, help="Decide, sign and journal, but send no order.")
@click.option("--only", multiple=True, metavar="NAME", help="Only this strategy (repeatable).")
@click.pass_obj
def run(invocation: Invocation, dry_run: bool, only: tuple[str, ...]) -> None:
    """Run the bot until SIGTERM or Ctrl-C, which end it cleanly.

    A second Ctrl-C ends it at once. Which broker and whose money is the configuration's `mode`.
    """
    loaded = load(invocation)
    require_none_running(loaded.state_dir)
    loaded = with_free_port(invocation, loaded)
    say(invocation, _head(loaded, dry_run=dry_run))
    options = RunOptions(
        dry_run=dry_run, only=only, answer_otp_after=_PLAYED.get(loaded.settings.mode)
    )
    end = run_in_foreground(invocation, loaded, options)
    say(invocation, f"stopped by {end.reason} after {span_of(timedelta(seconds=end.seconds))}")


def _head(loaded: Loaded, *, dry_run: bool) -> str:
    mode = loaded.settings.mode
    money = {"live": "REAL ORDERS"}.get(mode, "nothing here is real money")
    tail = " · dry run, nothing is sent" if dry_run else ""
    return f"vnbot {__version__} run · {mode.upper()} · {money}{tail}"
