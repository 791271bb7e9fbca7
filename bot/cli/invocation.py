"""How the command line was called: what every command may ask of it.

One `Invocation` is made for each process. Its fields are what the shared options set, wherever
they stand: `bot --json orders` and `bot orders --json` are the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

COLORS: Final = ("auto", "always", "never")


@dataclass(slots=True)
class Invocation:
    """The shared options. `color` is auto, always or never; `is_debug` shows tracebacks.

    What a command finds out on its way: `state_dirs`, where a running bot is looked for; `bot`,
    its name, mode and configuration; `account`, as far as the running bot has told it;
    `is_demo_told`, that it has been said to be the demo. `does_change`: the command changes
    something, so that it must be sure whose bot it is.
    """

    config: Path | None = None
    json: bool = False
    quiet: bool = False
    verbose: bool = False
    color: str = "auto"
    no_input: bool = False
    state_dir: Path | None = None
    is_debug: bool = False
    does_change: bool = False
    state_dirs: tuple[Path, ...] | None = None
    bot: Mapping[str, str] | None = None
    account: str = ""
    is_demo_told: bool = False


def _keep(context: click.Context, parameter: click.Parameter, value: object) -> None:
    """Put a shared option that was given into the invocation."""
    if value and parameter.name is not None:
        invocation = context.ensure_object(Invocation)
        setattr(invocation, parameter.name, value)


def shared_options(*, hidden: bool) -> list[click.Option]:
    """Return the options that every command takes; `hidden` ones are not in its help."""
    path = click.Path(path_type=Path)
    options = [
        click.Option(
            ["-c", "--config"], type=path, metavar="FILE", help="Else BOT_CONFIG, ./bot.yaml …"
        ),
        click.Option(["--json"], is_flag=True, help="Print one JSON value instead of text."),
        click.Option(["-q", "--quiet"], is_flag=True, help="No talk on stderr."),
        click.Option(["-v", "--verbose"], is_flag=True, help="More talk on stderr."),
        click.Option(["--color"], type=click.Choice(COLORS), help="When to write colours."),
        click.Option(["--no-input"], is_flag=True, help="Never ask."),
        click.Option(
            ["--state-dir"],
            type=path,
            metavar="DIR",
            help="Where the bot keeps journal, token and socket.",
        ),
        click.Option(["--debug", "is_debug"], is_flag=True, help="Show the traceback of an error."),
    ]
    for option in options:
        option.expose_value, option.callback, option.hidden = False, _keep, hidden
    return options


def share_options(command: click.Command) -> click.Command:
    """Give a command the shared options that it has not got; only `--json` shows in its help."""
    taken = {name for each in command.params for name in each.opts}
    for option in shared_options(hidden=True):
        if not taken.intersection(option.opts):
            option.hidden = "--json" not in option.opts
            command.params.append(option)
    if isinstance(command, click.Group):
        for child in command.commands.values():
            share_options(child)
    return command
