"""How a command is declared, and how the command line was called.

Each module of `commands/` has its command as `command`: a click command made by
`@define_command("orders", example="bot orders --open")` or `@define_group(…)`, with a help page
that opens with that example. A command that `changes` something in a bot must be sure which bot it
is (`target.py`).

One `Invocation` is made for each process. Its fields are set by the shared options, wherever they
are given: `bot --json orders` and `bot orders --json` are the same.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import click

from bot.config.problems import OperatorMistake
from bot.config.settings.places import in_folder
from bot.runtime.control.socket import ASK_TIMEOUT_S

Body = Callable[..., object]
WIDTH_MAX: Final = 100
COLORS: Final = ("auto", "always", "never")
LANGUAGES: Final = ("en", "vi")
ALSO: Final = (
    "Also: -c FILE, --state-dir DIR, --json, -q, -v, --color, --no-input, --lang, --debug: bot -h."
)
CONFIGURATION: Final = "configuration"
STATE_FOLDER: Final = "state folder"
FREE_TEXT: Final = frozenset({"reason"})
"""What may be empty: it names nothing, and a halt must not fail for want of it."""
HELP: Final = {"help_option_names": ["-h", "--help"], "max_content_width": WIDTH_MAX}


@dataclass(slots=True)
class Invocation:
    """The shared options, and what the command finds out while it runs.

    `state_dirs`: where to look for a running bot; `bot`: its name, mode and configuration;
    `account`: as reported by the running bot; `has_named_demo`: the user has been told that this is
    the demo. `lang`: the requested language, else the configuration's once that is read.
    `patience_s`: how long the running bot may take to answer. `does_change`: the command changes
    something, so it must be sure which bot it affects; `accepted`: the change that the bot has said
    yes to. `hide` removes a run's secrets from a text. `tell_end` tells a service's channels of an
    error that nobody expected. `looked_in`: the files and folders that it has used, and what each
    is.
    """

    config: Path | None = None
    json: bool = False
    lang: str = ""
    quiet: bool = False
    verbose: bool = False
    color: str = "auto"
    no_input: bool = False
    state_dir: Path | None = None
    is_debug: bool = False
    does_change: bool = False
    accepted: str = ""
    state_dirs: tuple[Path, ...] | None = None
    bot: Mapping[str, str] | None = None
    account: str = ""
    has_named_demo: bool = False
    patience_s: float = ASK_TIMEOUT_S
    hide: Callable[[str], str] = str
    tell_end: Callable[[OperatorMistake], object] = lambda _: None
    looked_in: dict[Path, str] = field(default_factory=dict)


def refuse_empty(command: click.Command, context: click.Context, words: Sequence[str]) -> None:
    """Raise UsageError for an empty name, folder or number: where it comes from an unset variable
    of a shell, whoever typed it means one thing, and none given would mean all, or another folder.
    """
    given, _, _ = command.make_parser(context).parse_args(list(words))
    for each in command.get_params(context):
        found = given.get(each.name or "")
        values = found if isinstance(found, list | tuple) else (found,)
        is_empty = any(isinstance(value, str) and not value.strip() for value in values)
        if is_empty and each.name not in FREE_TEXT:
            hint = each.get_error_hint(context)
            raise click.UsageError(f"{hint} is empty (an unset variable?): nothing was done")


class _Example:
    """Opens a help page with an example, and records whether the command changes something."""

    example = ""
    changes = False

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        assert isinstance(self, click.Command), "mixed into commands alone"
        if not ctx.resilient_parsing:
            refuse_empty(self, ctx, args)
        return super().parse_args(ctx, args)  # type: ignore[misc,no-any-return]

    def invoke(self, ctx: click.Context) -> object:
        ctx.ensure_object(Invocation).does_change = self.changes
        return super().invoke(ctx)  # type: ignore[misc]

    def format_usage(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        if self.example:
            formatter.write(f"Example: {self.example}\n\n")
        super().format_usage(context, formatter)  # type: ignore[misc]


class ExampleCommand(_Example, click.Command):
    """A command whose help opens with an example and ends with the shared options."""

    def format_epilog(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(context, formatter)
        formatter.write(f"\n{ALSO}\n")


class ExampleGroup(_Example, click.Group):
    """A group whose help opens with an example."""


def define_command(
    name: str, *, example: str, changes: bool = False, group: click.Group | None = None
) -> Callable[[Body], ExampleCommand]:
    """Turn a function into a command, of a `group` if given."""

    def make(body: Body) -> ExampleCommand:
        made = click.command(name, cls=ExampleCommand, context_settings=HELP)(body)
        made.example, made.changes = example, changes
        if group is not None:
            group.add_command(made)
        return made

    return make


def define_group(
    name: str,
    *,
    example: str,
    changes: bool = False,
    kind: type[ExampleGroup] = ExampleGroup,
    runs_alone: bool = False,
) -> Callable[[Body], ExampleGroup]:
    """Turn a function into a group; if it `runs_alone`, it also works without a subcommand."""

    def make(body: Body) -> ExampleGroup:
        decorate = click.group(
            name, cls=kind, context_settings=HELP, invoke_without_command=runs_alone
        )
        made = decorate(body)
        made.example, made.changes = example, changes
        return made

    return make


def shared_options(*, hidden: bool) -> list[click.Option]:
    """Return the options that every command takes; `hidden` ones are not shown in its help."""

    def keep(context: click.Context, parameter: click.Parameter, value: object) -> None:
        if parameter.name == "config" and isinstance(value, Path):
            value = in_folder(value)
        if value and parameter.name is not None:
            setattr(context.ensure_object(Invocation), parameter.name, value)

    path, colors = click.Path(path_type=Path), click.Choice(COLORS)
    kept = "Where the bot keeps its journal, token and socket."
    options = [
        click.Option(
            ["-c", "--config"], type=path, metavar="FILE", help="Else BOT_CONFIG, ./bot.yaml …"
        ),
        click.Option(["--json"], is_flag=True, help="Print one JSON value instead of text."),
        click.Option(["-q", "--quiet"], is_flag=True, help="Results and errors only."),
        click.Option(["-v", "--verbose"], is_flag=True, help="Say more about an error."),
        click.Option(["--color"], type=colors, help="When to use colours."),
        click.Option(["--no-input"], is_flag=True, help="Never ask."),
        click.Option(
            ["--lang"], type=click.Choice(LANGUAGES), help="Of alerts, status and errors."
        ),
        click.Option(["--state-dir"], type=path, metavar="DIR", help=kept),
        click.Option(["--debug", "is_debug"], is_flag=True, help="Show the traceback of an error."),
    ]
    for option in options:
        option.expose_value, option.callback, option.hidden = False, keep, hidden
    return options


def share_options(command: click.Command) -> click.Command:
    """Add the missing shared options to a command; only `--json` shows in its help."""
    taken = {name for each in command.params for name in each.opts}
    for option in shared_options(hidden=True):
        if not taken.intersection(option.opts):
            option.hidden = "--json" not in option.opts
            command.params.append(option)
    if isinstance(command, click.Group):
        for child in command.commands.values():
            share_options(child)
    return command
