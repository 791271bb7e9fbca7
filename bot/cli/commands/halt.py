"""`bot halt`: the kill switch, and what came of each cancel.

With --yes the halt goes first and nothing is asked before it. A cancel that was taken is not a
cancelled order, so each order's end is looked for in the journal, and one that has none is named.
"""

import sys
from collections.abc import Mapping
from typing import Final

import click

from bot.cli.command import command
from bot.cli.commands.operate import (
    OPERATOR,
    print_state,
    reason_option,
    tell_taken,
    wait_until,
)
from bot.cli.commands.orders import ended_words
from bot.cli.commands.status import find_status
from bot.cli.fields import Fields, each, inner, instant, text
from bot.cli.invocation import Invocation
from bot.cli.places import ask_bot, open_journal, which_bot
from bot.cli.show import confirm, print_json, print_text, show_mistake
from bot.cli.telling.wording import counted
from bot.config.problems import OperatorMistake
from bot.domain.entry import RunState

CANCELS_S: Final = 8.0
"""How long the ends of the cancelled orders are looked for."""


@command("halt", example='bot halt --yes --reason "wrong prices"', changes=True)
@click.option("--yes", is_flag=True, help="Do not ask.")
@reason_option
@click.pass_obj
def halt(invocation: Invocation, yes: bool, reason: str) -> None:
    """Stop trading at once: no new orders, all open ones are cancelled, positions are kept."""
    if not yes and not invocation.no_input and sys.stdin.isatty():
        ask_bot(invocation, "status")
        which = which_bot(invocation)
        question = f"Halt {which}: cancel all open orders and send no new ones?"
        if not confirm(question):
            raise click.Abort
    ask_bot(invocation, "halt", strategy=None, reason=reason, by=OPERATOR)
    asked = _open(find_status(invocation))
    found = wait_until(invocation, lambda now: text(now, "state") == RunState.HALTED)
    if not invocation.json:
        print_state(invocation, found, how_many_open(found))
        tell_taken(invocation, found, "halt", RunState.HALTED)
    found = wait_until(invocation, _is_settled, CANCELS_S)
    if invocation.json:
        print_json(found)
        return
    try:
        _tell_each(invocation, list(asked | _open(found)), _open(found))
    except OperatorMistake as unread:
        show_mistake(unread)


def how_many_open(found: Fields) -> str:
    """`2 orders open`; a bot that has not read the broker yet cannot tell."""
    if "open_orders" not in found:
        return "the broker is still to be read; what is open there is cancelled then"
    return f"{counted(len(_open(found)), 'order')} open"


def _open(found: Fields) -> dict[str, Fields]:
    """The bot's open orders by their id."""
    return {text(row, "order_id"): row for row in each(found, "open_orders")}


def _is_settled(found: Fields) -> bool:
    """Whether no cancel can still come through: none is open, or there is no token to send it."""
    return not _open(found) or instant(inner(found, "two_factor"), "until") is None


def _tell_each(invocation: Invocation, asked: list[str], still: Mapping[str, Fields]) -> None:
    if not asked:
        return
    with open_journal(invocation) as reader:
        for order_id in asked:
            if order_id in still:
                print_text(f"{order_id} STILL OPEN: bot order {order_id} --timeline")
            else:
                print_text(ended_words(reader.order(order_id)))
