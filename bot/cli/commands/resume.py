"""`bot resume`: take new orders again, after a pause or a halt, or in one symbol."""

import sys

import click

from bot.cli.command import Invocation, define_command
from bot.cli.operating import OPERATOR, act, print_end, require_running, wait_until
from bot.cli.options import reason_option, strategy_option
from bot.cli.show import ask_shown, write_line
from bot.cli.target import Fields, ask_bot, find_status, which_bot
from bot.config.problems import ExitCode, OperatorMistake
from bot.domain.entry import RunState


@define_command("resume", example='bot resume --reason "checked the account"', changes=True)
@click.argument("symbol", required=False)
@strategy_option
@reason_option
@click.option(
    "--account", default="", metavar="ID", help="The account's id, asked for in live mode."
)
@click.pass_obj
def command(
    invocation: Invocation, symbol: str | None, strategy: str | None, reason: str, account: str
) -> None:
    """Accept new orders again. Leaving HALTED needs a reason, and in live mode the account's id.

    With SYMBOL, only for that one: it was halted, or its market data was not trusted.
    """
    if symbol is not None:
        symbol = symbol.upper()
        if strategy is not None:
            raise click.UsageError("SYMBOL and --strategy: use one of them")
        if not reason.strip():
            message = f'to trade {symbol} again, give a reason: bot resume {symbol} --reason "…"'
            raise OperatorMistake.of("E-RUN-003", message, ExitCode.REFUSED)

        def is_free(found: Fields) -> bool:
            is_held = any(text.startswith(f"{symbol}: ") for text in found.words("alerts"))
            return not is_held and symbol not in found.inner("halted_symbols")

        ask_bot(invocation, "resume", symbol=symbol, reason=reason, by=OPERATOR)
        free = wait_until(invocation, is_free)
        require_running(invocation, free)
        print_end(invocation, free)
        return
    found = find_status(invocation)
    is_halted = RunState.HALTED in {row.text("state") for row in found.each("causes")}
    if is_halted and strategy is None and not reason.strip():
        message = 'the bot is HALTED; to resume, give a reason: bot resume --reason "…"'
        raise OperatorMistake.of("E-RUN-003", message, ExitCode.REFUSED)
    is_asked = is_halted and strategy is None and found.text("mode") == "live" and not account
    if is_asked and sys.stdin.isatty() and not invocation.no_input:
        write_line(f"{which_bot(invocation)} is HALTED: {found.text('reason')}")
        account = ask_shown("To trade with real money again, type the account's id")
    on, wanted = {"on", "warming"}, RunState.RUNNING
    act(invocation, "resume", wanted, on, strategy=strategy, reason=reason, account=account)
