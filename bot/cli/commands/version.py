"""`bot version`."""

import platform

import click

from bot import __version__
from bot.cli.command import Invocation, define_command
from bot.cli.show import print_result


@define_command("version", example="bot version --json")
@click.pass_obj
def command(invocation: Invocation) -> None:
    """Print the version of the program."""
    found = {"version": __version__, "python": platform.python_version()}
    print_result(invocation, found, [f"vnbot {__version__}"])
