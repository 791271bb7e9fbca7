"""`bot errors CODE`: what a code means and what to do, in English and Vietnamese, offline."""

import click

from bot.cli.command import Invocation, define_command
from bot.cli.show import print_result
from bot.config.problems import ExitCode, OperatorMistake


@define_command("errors", example="bot errors OTP_SESSION_EXPIRED")
@click.argument("code", required=False)
@click.pass_obj
def command(invocation: Invocation, code: str | None) -> None:
    """Explain a code: one of vnbot's (E-…, a check, an alert), one of the broker's, an HTTP status,
    or an order status. Without CODE: list them all.
    """
    # Help pages need no catalogue.
    from bot.cli.explaining import entries, nearest

    known = entries()
    found = [each for each in known if code is None or each.answers_to(code)]
    if not found:
        close = nearest(code or "")
        hint = f"Did you mean: bot errors {close}" if close else "To list all: bot errors"
        text = f"{code!r} is not a known code. {hint}"
        raise OperatorMistake.of("E-ERR-001", text, ExitCode.USAGE)
    if code is None:
        lines = [f"{each.code:<36} {each.kind}" for each in found]
    else:
        lines = []
        for each in found:
            risk = f", {each.risk}" if each.risk else ""
            same = f" (also {', '.join(each.also)})" if each.also else ""
            lines.append(f"{each.code}{same}: {each.kind}{risk}")
            shown = [invocation.lang] if invocation.lang else ["en", "vi"]
            for language in shown:
                lines += [f"  {sentence}" for sentence in each.sentences(language)]
    print_result(invocation, {"errors": [each.fields for each in found]}, lines)


command.context_settings = {**command.context_settings, "ignore_unknown_options": True}
"""The broker's codes begin with a minus, like -700114."""
