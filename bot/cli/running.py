"""Runs the bot in the foreground of a terminal: what `bot run` and `bot demo` share."""

import asyncio
from dataclasses import replace
from functools import partial

from bot.cli import messages
from bot.cli.code_prompt import CodePrompt
from bot.cli.invocation import Invocation
from bot.cli.screen import TerminalScreen
from bot.cli.show import is_attended, say, write_line
from bot.config.settings.load import Loaded
from bot.runtime.run import RunEnd, run_bot
from bot.runtime.run_controls import RunOptions


def run_in_foreground(invocation: Invocation, loaded: Loaded, options: RunOptions) -> RunEnd:
    """Run until stopped, showing everything. Raises OperatorMistake."""
    screen = TerminalScreen(invocation, loaded.settings.mode)
    talk = partial(write_line, err=True) if invocation.quiet else screen.talk
    prompt = CodePrompt(talk)
    if options.answer_otp_after is None and is_attended(invocation):
        options = replace(options, ask_code=prompt)
    try:
        return asyncio.run(run_bot(loaded, options, screen))
    finally:
        prompt.restore()
        screen.close()


def with_free_port(invocation: Invocation, loaded: Loaded) -> Loaded:
    """See that the embedded sandbox can listen, and say so where its port is not the usual one.

    Raises OperatorMistake.
    """
    if not loaded.settings.is_embedded:
        return loaded
    from bot.runtime.worlds.sandbox import settle_port

    settled = settle_port(loaded)
    if settled is not loaded:
        taken, free = loaded.settings.sandbox.port, settled.settings.sandbox.port
        say(invocation, messages.OTHER_PORT.format(taken=taken, free=free))
    return settled
