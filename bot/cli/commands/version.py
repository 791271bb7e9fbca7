"""`bot version`."""

import platform

import click

from bot import __version__
from bot.cli.command import Invocation, define_command
from bot.cli.show import print_json, write_line


@define_command("version", example="bot version --json")
@click.pass_obj
def command(invocation: Invocation) -> None:
    """Print the version of the program."""
    if invocation.json:
        print_json({"version": __version__, "python": platform.python_version()})
    else:
        write_line(f"vnbot {__version__}")
