"""`bot otp`: the second factor. Codes and tokens are typed or piped in, never an argument.

What is typed goes to the running bot over its control socket and is nowhere kept or shown.
"""

import sys

import click

from bot.cli import messages
from bot.cli.command import ExampleGroup, child
from bot.cli.fields import instant, text
from bot.cli.invocation import Invocation
from bot.cli.places import Reply, ask_bot, find_bot, no_bot, refusal, which_bot
from bot.cli.show import (
    ask_hidden,
    confirm,
    print_json,
    print_text,
    say,
    show_mistake,
    write_line,
)
from bot.cli.telling.wording import minute_of
from bot.config.problems import ExitCode

STDIN = "-"
UNPROVEN = " · unproven until the first order"
_TRY_AGAIN = frozenset({"E-2FA-003", "E-2FA-006"})
"""A wrong code of which tries are left, and what was no code at all."""


class _OtpGroup(ExampleGroup):
    """Refuses what could be a code without repeating it."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the subcommand; anything else is refused with the reason."""
        if args and args[0] not in self.commands:
            raise click.UsageError(messages.NO_CODE_AS_ARGUMENT, ctx)
        return super().resolve_command(ctx, args)


@click.group(
    "otp",
    cls=_OtpGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.pass_context
def otp(context: click.Context) -> None:
    """Show how 2FA stands, and ask for what is missing.

    Never give a code or token as an argument.
    """
    if context.invoked_subcommand is None:
        invocation = context.ensure_object(Invocation)
        state = ask_bot(invocation, "otp_state")
        if state.get("is_ready") or not _may_ask(invocation):
            _print_state(invocation, state)
        else:
            _ask_for_it(invocation, state)


otp.example = "pass broker/otp | bot otp submit -"
otp.changes = True


@child(otp, "request", example="bot otp request", changes=True)
@click.pass_obj
def request(invocation: Invocation) -> None:
    """Have the broker send a code. It allows five a day."""
    reply = ask_bot(invocation, "otp_request")
    if invocation.json:
        print_json(reply)
    else:
        print_text(f"{which_bot(invocation)}: {text(reply, 'message')}. Now: bot otp submit")


@child(otp, "submit", example="pass broker/otp | bot otp submit -", changes=True)
@click.argument("source", required=False, metavar="[-]")
@click.pass_obj
def submit(invocation: Invocation, source: str | None) -> None:
    """Trade a code for a token; the code is asked for, or read from stdin with '-'."""
    code = _typed(invocation, source, "Code")
    _print_state(invocation, ask_bot(invocation, "otp_submit", code=code), tail=UNPROVEN)


@child(otp, "token", example="bot otp token - < token.txt", changes=True)
@click.argument("source", required=False, metavar="[-]")
@click.pass_obj
def token(invocation: Invocation, source: str | None) -> None:
    """Use a token that was made elsewhere; asked for, or read from stdin with '-'."""
    given = _typed(invocation, source, "Token")
    _print_state(invocation, ask_bot(invocation, "otp_token", token=given), tail=UNPROVEN)


@child(otp, "forget", example="bot otp forget", changes=True)
@click.pass_obj
def forget(invocation: Invocation) -> None:
    """Drop the token. No order is sent until there is a new one."""
    _print_state(invocation, ask_bot(invocation, "otp_forget"))


def _typed(invocation: Invocation, source: str | None, what: str) -> str:
    """Read from stdin, or ask without echo. Raises UsageError for anything like an argument."""
    stdin = sys.stdin
    if source not in {None, STDIN}:
        raise click.UsageError(messages.NO_CODE_AS_ARGUMENT)
    if source == STDIN or not stdin.isatty():
        typed = stdin.readline().strip()
    elif invocation.no_input:
        typed = ""
    else:
        typed = ask_hidden(f"{what} (hidden)").strip()
    if not typed:
        raise click.UsageError(f"no {what.lower()} was given: type it, or pipe it to '-'")
    return typed


def _may_ask(invocation: Invocation) -> bool:
    stdin = sys.stdin
    return stdin.isatty() and not invocation.no_input and not invocation.json


def _ask_for_it(invocation: Invocation, state: Reply) -> None:
    """Have a code mailed if the person wants one, and ask for it while tries are left."""
    if not state.get("has_ticket"):
        used = f"{state.get('codes_used')} of the day's {state.get('codes_per_day')} used"
        if not confirm(f"No 2FA token. Have the broker mail a code ({used})?"):
            say(invocation, "A token made elsewhere goes in with: bot otp token")
            return
        say(invocation, text(ask_bot(invocation, "otp_request"), "message"))
    while True:
        code = _typed(invocation, None, "Code")
        reply = find_bot(invocation, "otp_submit", code=code)
        if reply is None:
            raise no_bot(invocation)
        if reply.get("ok"):
            _print_state(invocation, reply, tail=UNPROVEN)
            return
        if reply.get("code") not in _TRY_AGAIN:
            raise refusal(invocation, reply)
        show_mistake(refusal(invocation, reply))


def _print_state(invocation: Invocation, state: Reply, *, tail: str = "") -> None:
    """Print how it stands; without a token exit code 5."""
    until = instant(state, "until")
    if invocation.json:
        print_json({name: value for name, value in state.items() if name != "ok"})
    elif until is not None:
        print_text(f"{which_bot(invocation)}: 2FA ok until {minute_of(until)}{tail}")
    else:
        print_text(f"{which_bot(invocation)}: 2FA needed: {_what_is_missing(state)}")
    if warning := text(state, "warning"):
        write_line(f"warning: {warning}", err=True)
    if until is None and state.get("is_ready") is False:
        raise click.exceptions.Exit(ExitCode.NEEDS_2FA)


def _what_is_missing(state: Reply) -> str:
    if not state.get("has_ticket"):
        used = f"{state.get('codes_used')} of the day's {state.get('codes_per_day')} used"
        return f"have a code mailed with bot otp request ({used}), or give a token: bot otp token"
    left = state.get("tries_left")
    tries = "1 try" if left == 1 else f"{left} tries"
    return f"a code was mailed to {text(state, 'sent_to')} ({tries} left). Give it: bot otp submit"
