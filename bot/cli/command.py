"""Commands and groups whose help opens with an example.

`@command("orders", example="bot orders --open")` and `@group(...)` are click's own with that line.
A command that `changes` something of a bot must be sure which one it is (`places.py`).
"""

from collections.abc import Callable
from typing import Final, TypeVar

import click

from bot.cli.invocation import Invocation

Body = Callable[..., object]
WIDTH_MAX: Final = 100
ALSO: Final = (
    "Also: -c FILE, --state-dir DIR, --json, -q, -v, --color, --no-input, --debug (see bot -h)."
)
_HELP: Final = {"help_option_names": ["-h", "--help"], "max_content_width": WIDTH_MAX}


class _Example:
    """Opens a help page with an example, and notes whether the command changes something."""

    example = ""
    changes = False

    def invoke(self, ctx: click.Context) -> object:
        """Run the command."""
        ctx.ensure_object(Invocation).does_change = self.changes
        return super().invoke(ctx)  # type: ignore[misc]

    def format_usage(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the example above the usage."""
        if self.example:
            formatter.write(f"Example: {self.example}\n\n")
        super().format_usage(context, formatter)  # type: ignore[misc]


class ExampleCommand(_Example, click.Command):
    """A command whose help opens with an example and ends with what every command takes."""

    def format_epilog(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Name the options of `bot` itself, which may stand here too."""
        super().format_epilog(context, formatter)
        formatter.write(f"\n{ALSO}\n")


class ExampleGroup(_Example, click.Group):
    """A group whose help opens with an example."""


C = TypeVar("C", ExampleCommand, ExampleGroup)


def command(name: str, *, example: str, changes: bool = False) -> Callable[[Body], ExampleCommand]:
    """Make a function a command; `changes`: it changes something of a bot."""

    def make(body: Body) -> ExampleCommand:
        made = click.command(name, cls=ExampleCommand, context_settings=_HELP)(body)
        made.changes = changes
        return made

    return _made(make, example)


def group(
    name: str, *, example: str, is_callable_alone: bool = False
) -> Callable[[Body], ExampleGroup]:
    """Make a function a group; one that is callable alone runs without a subcommand too."""
    make = click.group(
        name,
        cls=ExampleGroup,
        context_settings=_HELP,
        invoke_without_command=is_callable_alone,
        no_args_is_help=not is_callable_alone,
    )
    return _made(make, example)


def child(
    parent: click.Group, name: str, *, example: str, changes: bool = False
) -> Callable[[Body], ExampleCommand]:
    """Make a function a command of a group."""

    def add(body: Body) -> ExampleCommand:
        made = command(name, example=example, changes=changes)(body)
        parent.add_command(made)
        return made

    return add


def _made(make: Callable[[Body], C], example: str) -> Callable[[Body], C]:
    def decorate(body: Body) -> C:
        made = make(body)
        made.example = example
        return made

    return decorate
