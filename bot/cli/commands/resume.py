"""`bot resume`: take new orders again, after a pause or a halt, or in one symbol."""

import click

from bot.cli.command import Invocation, define_command
from bot.cli.operating import OPERATOR, act, print_end, wait_until
from bot.cli.options import reason_option, strategy_option
from bot.cli.target import Fields, ask_bot, find_status
from bot.config.problems import ExitCode, OperatorMistake
from bot.domain.entry import RunState


@define_command("resume", example='bot resume --reason "checked the account"', changes=True)
@click.argument("symbol", required=False)
@strategy_option
@reason_option
@click.pass_obj
def command(invocation: Invocation, symbol: str | None, strategy: str | None, reason: str) -> None:
    """Take new orders again. Leaving HALTED needs a reason.

    With a SYMBOL only that one: it was halted, or its market data was not believed.
    """
    if symbol is not None:
        _resume_symbol(invocation, symbol.upper(), strategy, reason)
        return
    state = find_status(invocation).text("state")
    if state == RunState.HALTED and not reason.strip():
        message = 'the bot is HALTED: to leave that, say why: bot resume --reason "…"'
        raise OperatorMistake.of("E-RUN-003", message, ExitCode.REFUSED)
    on = {"on", "warming"}
    act(invocation, "resume", RunState.RUNNING, on, strategy=strategy, reason=reason)


def _resume_symbol(invocation: Invocation, symbol: str, strategy: str | None, reason: str) -> None:
    if strategy is not None:
        raise click.UsageError("a SYMBOL and --strategy do not go together")
    if not reason.strip():
        message = f'to take orders in {symbol} again, say why: bot resume {symbol} --reason "…"'
        raise OperatorMistake.of("E-RUN-003", message, ExitCode.REFUSED)

    def is_free(found: Fields) -> bool:
        is_held = any(text.startswith(f"{symbol}: ") for text in found.words("alerts"))
        return not is_held and symbol not in found.inner("halted_symbols")

    ask_bot(invocation, "resume", symbol=symbol, reason=reason, by=OPERATOR)
    print_end(invocation, wait_until(invocation, is_free))
