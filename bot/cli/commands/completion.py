"""`bot completion SHELL`: what makes a shell suggest commands, strategies and orders."""

import click

from bot.cli.command import Invocation, define_command
from bot.cli.show import print_result


@define_command("completion", example='eval "$(bot completion bash)"')
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print the script that makes TAB complete bot commands.

    To install it: bot completion bash >> ~/.bashrc, bot completion zsh >> ~/.zshrc, or
    bot completion fish > ~/.config/fish/completions/bot.fish
    """
    # Nothing but this command and a shell that asks needs it.
    from bot.cli.completing import script_of

    text = script_of(context.find_root().command, shell)
    invocation = context.ensure_object(Invocation)
    print_result(invocation, {"shell": shell, "script": text}, text.splitlines())
