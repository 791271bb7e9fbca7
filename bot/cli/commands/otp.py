"""`bot otp`: two-factor authentication. Codes and tokens are typed or piped in, never arguments.

Input goes to the running bot over its control socket and is neither stored nor shown.
"""

import sys
from time import sleep
from typing import Final

import click

from bot.cli import messages
from bot.cli.code_prompt import WAITING
from bot.cli.command import ExampleGroup, Invocation, define_command, define_group
from bot.cli.show import (
    confirm,
    is_attended,
    print_json,
    print_result,
    say,
    show_mistake,
    typed_or_piped,
    write_line,
)
from bot.cli.target import Fields, ask_bot, find_bot, no_bot, refusal, which_bot
from bot.config.problems import ExitCode
from bot.domain.local_time import minute_of

STDIN: Final = "-"
JWT_DOTS: Final = 2
UNPROVEN: Final = " · unproven until the first order"
DROPPED: Final = "the token is dropped: the bot holds none now"
REVOKED: Final = "the broker has ended the token's session: the bot holds none now"
_TRY_AGAIN: Final = frozenset({"E-2FA-003", "E-2FA-006"})
"""A wrong code with tries left, and something that is not a code."""


class _OtpGroup(ExampleGroup):
    """Refuses anything that could be a code, without repeating it."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands:
            raise click.UsageError(messages.NO_CODE_AS_ARGUMENT + messages.TYPE_CODE, ctx)
        return super().resolve_command(ctx, args)


@define_group(
    "otp",
    example="pass broker/otp | bot otp submit -",
    changes=True,
    kind=_OtpGroup,
    runs_alone=True,
)
@click.pass_context
def command(context: click.Context) -> None:
    """Show the state of the second factor, and ask for what is missing.

    Never pass a code or token as an argument.
    """
    if context.invoked_subcommand is not None:
        return
    invocation = context.ensure_object(Invocation)
    state = ask_bot(invocation, "otp_state")
    may_ask = sys.stdin.isatty() and not invocation.no_input and not invocation.json
    if state.get("is_ready") or not may_ask:
        _print_state(invocation, state)
        return
    if not state.get("has_ticket"):
        if not confirm(f"No 2FA token. Have the broker mail a code ({_left(state)})?"):
            say(invocation, "If you have a token from elsewhere: bot otp token")
            return
        say(invocation, ask_bot(invocation, "otp_request").text("message"))
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
        if (wait_s := reply.get("wait_s")) and isinstance(wait_s, int):
            say(invocation, WAITING.format(seconds=wait_s))
            sleep(wait_s)


@define_command("request", group=command, example="bot otp request", changes=True)
@click.pass_obj
def request(invocation: Invocation) -> None:
    """Have the broker mail a code. It allows five a day."""
    reply = ask_bot(invocation, "otp_request")
    sent = f"{which_bot(invocation)}: {reply.text('message')}. Now: bot otp submit"
    print_result(invocation, reply, [sent])


@define_command("submit", group=command, example="pass broker/otp | bot otp submit -", changes=True)
@click.argument("source", required=False, metavar="[-]")
@click.pass_obj
def submit(invocation: Invocation, source: str | None) -> None:
    """Exchange a code for a token; asks for the code, or reads it from stdin with '-'."""
    code = _typed(invocation, source, "Code")
    _print_state(invocation, ask_bot(invocation, "otp_submit", code=code), tail=UNPROVEN)


@define_command("token", group=command, example="bot otp token - < token.txt", changes=True)
@click.argument("source", required=False, metavar="[-]")
@click.option("--yes", is_flag=True, help="Replace a good token by any word without asking.")
@click.pass_obj
def token(invocation: Invocation, source: str | None, yes: bool) -> None:
    """Use a token obtained elsewhere; asks for it, or reads it from stdin with '-'."""
    given = _typed(invocation, source, "Token")
    if not yes and given.count(".") != JWT_DOTS:
        _spare_a_good_token(invocation)
    _print_state(invocation, ask_bot(invocation, "otp_token", token=given), tail=UNPROVEN)


@define_command("forget", group=command, example="bot otp forget", changes=True)
@click.pass_obj
def forget(invocation: Invocation) -> None:
    """Drop the token. No order is sent without a new one."""
    state = ask_bot(invocation, "otp_forget")
    say(invocation, DROPPED)
    _print_state(invocation, state)


@define_command("revoke", group=command, example="bot otp revoke", changes=True)
@click.pass_obj
def revoke(invocation: Invocation) -> None:
    """Have the broker end the token's session, for every program that uses it."""
    state = ask_bot(invocation, "otp_revoke")
    say(invocation, DROPPED if state.text("warning") else REVOKED)
    _print_state(invocation, state)


def _spare_a_good_token(invocation: Invocation) -> None:
    """Ask before a word that looks like no token replaces one that is good. Raises UsageError."""
    state = ask_bot(invocation, "otp_state")
    until = state.instant("until")
    if until is None or not state.get("is_ready"):
        return
    held = f"this does not look like a token, and the bot holds one until {minute_of(until)}"
    if not is_attended(invocation):
        raise click.UsageError(f"{held}: nothing was replaced. If it is one: --yes")
    if not confirm(f"{held}. Replace it?"):
        raise click.Abort


def _typed(invocation: Invocation, source: str | None, what: str) -> str:
    """Read typed or piped input. Raises UsageError for anything like an argument."""
    if source not in {None, STDIN}:
        raise click.UsageError(messages.NO_CODE_AS_ARGUMENT + messages.TYPE_CODE)
    return typed_or_piped(invocation, what, is_piped=source == STDIN)


def _print_state(invocation: Invocation, state: Fields, *, tail: str = "") -> None:
    """Print the state of 2FA; without a token the exit code is 5."""
    until = state.instant("until")
    if invocation.json:
        print_json({name: value for name, value in state.items() if name != "ok"})
    elif until is not None:
        write_line(f"{which_bot(invocation)}: 2FA ok until {minute_of(until)}{tail}")
    else:
        by_mail = f"have a code mailed with bot otp request ({_left(state)})"
        missing = f"{by_mail}, or enter a token: bot otp token"
        if state.get("has_ticket"):
            left = state.get("tries_left")
            tries = "1 try" if left == 1 else f"{left} tries"
            mailed = f"a code was mailed to {state.text('sent_to')} ({tries} left)"
            missing = f"{mailed}. Enter it: bot otp submit. For another: {by_mail}"
        write_line(f"{which_bot(invocation)}: 2FA needed: {missing}")
    if warning := state.text("warning"):
        write_line(f"warning: {warning}", err=True)
    if until is None and state.get("is_ready") is False:
        raise click.exceptions.Exit(ExitCode.NEEDS_2FA)


def _left(state: Fields) -> str:
    limit = state.whole("codes_per_day")
    return f"{max(0, limit - state.whole('codes_used'))} of the day's {limit} codes left"
