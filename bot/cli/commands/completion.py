"""`bot completion SHELL`, and the suggestions for a shell: commands, strategies, orders.

The shell asks by a call of `bot` with `_BOT_COMPLETE` set. If anything is wrong with a
configuration or a journal, the answer is an empty list, as an error message would disturb the line
being typed.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import click
from click.shell_completion import CompletionItem, get_completion_class

from bot.cli.command import Invocation, define_command
from bot.cli.show import print_result, write_line
from bot.cli.target import open_journal, readable
from bot.config.problems import OperatorMistake

PROGRAM: Final = "bot"
VARIABLE: Final = "_BOT_COMPLETE"
SHELLS: Final = ("bash", "zsh", "fish")
ORDERS_MAX: Final = 30
"""The newest ones are suggested; an older one has to be typed."""


_ZSH_READY: Final = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit -i }"


class OrderId(click.ParamType[str]):
    """An order, by the broker's id or ours."""

    name = "order"

    def shell_complete(
        self, ctx: click.Context, _param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Suggest the newest orders of the journal, each with a description."""
        found = [CompletionItem("last")]
        try:
            with open_journal(_quiet(ctx)) as journal:
                for row in reversed(journal.orders()[-ORDERS_MAX:]):
                    what = f"{row.side} {row.quantity} {row.symbol}"
                    ids = (row.order_id, row.local_id)
                    found += [CompletionItem(each, help=what) for each in ids if each]
        except (OperatorMistake, OSError):
            return []
        return [each for each in found if str(each.value).startswith(incomplete)]


class StrategyName(click.ParamType[str]):
    """A strategy by the name in its file."""

    name = "strategy"

    def shell_complete(
        self, ctx: click.Context, _param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Suggest names from the strategy files, without executing anything."""
        try:
            files = readable(_quiet(ctx)).strategy_files
            lines = [line for file in files for line in file.read_text("utf-8").splitlines()]
            named = [line.removeprefix("name:") for line in lines if line.startswith("name:")]
            names = sorted({each.split("#")[0].strip() for each in named})
        except (OperatorMistake, OSError, UnicodeDecodeError):
            return []
        return [CompletionItem(each) for each in names if each.startswith(incomplete)]


KINDS: Final[Mapping[str, click.ParamType[str]]] = {
    "reference": OrderId(),
    "references": OrderId(),
    "strategy": StrategyName(),
}
"""The type of a command's parameter, by its name; only needed when a shell asks."""


def complete(root: click.Command, commands: Iterable[click.Command], instruction: str) -> int:
    """Answer a shell's question on stdout; return the exit code."""
    for command in commands:
        for parameter in command.params:
            parameter.type = KINDS.get(parameter.name or "", parameter.type)
    shell, _, _ = instruction.partition("_")
    kind = get_completion_class(shell)
    if kind is None or shell not in SHELLS:
        return 1
    for line in kind(root, {}, PROGRAM, VARIABLE).complete().splitlines():
        write_line(line)
    return 0


def script_of(root: click.Command, shell: str) -> str:
    """Return the code that a shell has to run once to enable this."""
    kind = get_completion_class(shell)
    assert kind is not None, "click knows the three"
    asking = kind(root, {}, PROGRAM, VARIABLE)
    # For its own help texts fish would show only the part before the first comma.
    template = asking.source_template.replace('string split ","', 'string split -m 1 ","')
    # A plain zsh has completion switched off, and would complain of this at each start.
    template = template.replace("    compdef", f"    {_ZSH_READY}\n    compdef")
    return template % asking.source_vars()


def _quiet(context: click.Context) -> Invocation:
    """Suppress all output about whose journal is used."""
    invocation = context.find_object(Invocation) or Invocation()
    invocation.has_named_demo = True
    return invocation


@define_command("completion", example='eval "$(bot completion bash)"')
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print the script that makes TAB complete bot commands.

    To install it: bot completion bash >> ~/.bashrc, bot completion zsh >> ~/.zshrc, or
    bot completion fish > ~/.config/fish/completions/bot.fish
    """
    text = script_of(context.find_root().command, shell)
    invocation = context.ensure_object(Invocation)
    print_result(invocation, {"shell": shell, "script": text}, text.splitlines())
