"""`bot halt`: the kill switch, and what came of each cancel.

With --yes the halt goes first and nothing is asked before it. A cancel that was accepted is not a
cancelled order, so the end of each order is looked up in the journal, and one without is named.
"""

import sys
from typing import Final

import click

from bot.cli.command import Invocation, define_command
from bot.cli.commands.orders import ended_words
from bot.cli.operating import OPERATOR, print_accepted, print_state, wait_until
from bot.cli.options import reason_option
from bot.cli.show import confirm, print_json, show_mistake, write_line
from bot.cli.target import Fields, ask_bot, find_status, open_journal, which_bot
from bot.cli.telling.wording import counted
from bot.config.problems import OperatorMistake
from bot.domain.entry import RunState

CANCELS_S: Final = 8.0
"""How long to wait for the ends of the cancelled orders."""
_UNKNOWN_WHY: Final = "its cancel is over, and no row has shown it yet: bot orders"


@define_command("halt", example='bot halt --yes --reason "wrong prices"', changes=True)
@click.option("--yes", is_flag=True, help="Do not ask.")
@reason_option
@click.pass_obj
def command(invocation: Invocation, yes: bool, reason: str) -> None:
    """Stop trading at once: no new orders, all open ones are cancelled, positions are kept."""
    if not yes and not invocation.no_input and sys.stdin.isatty():
        ask_bot(invocation, "status")
        which = which_bot(invocation)
        if not confirm(f"Halt {which}: cancel all open orders and send no new ones?"):
            raise click.Abort
    ask_bot(invocation, "halt", strategy=None, reason=reason, by=OPERATOR)
    asked = _open(find_status(invocation))
    found = wait_until(invocation, lambda now: now.text("state") == RunState.HALTED)
    if not invocation.json:
        print_state(invocation, found, how_many_open(found))
        print_accepted(invocation, found, "halt", RunState.HALTED)

    def is_settled(now: Fields) -> bool:  # without a token no cancel can be sent any more
        return not _open(now) or now.inner("two_factor").instant("until") is None

    found = wait_until(invocation, is_settled, CANCELS_S)
    if invocation.json:
        print_json(found)
        return
    still, whys = _open(found), why_open(found)
    if not asked | still:
        return
    if found.inner("trouble"):  # it may be the journal: it is not waited for
        for order_id in still:
            write_line(f"{order_id} STILL OPEN: {whys.get(order_id) or _UNKNOWN_WHY}")
        listed = ", ".join(still) or "none"
        write_line(f"still open: {listed}; the rest: bot orders, when the trouble is over")
        return
    try:
        with open_journal(invocation) as reader:
            for order_id in asked | still:
                if order_id in still:
                    write_line(f"{order_id} STILL OPEN: {whys.get(order_id) or _UNKNOWN_WHY}")
                else:
                    write_line(ended_words(reader.order(order_id)))
    except OperatorMistake as unread:
        show_mistake(unread)


def how_many_open(found: Fields) -> str:
    """`2 orders open`; a bot that has not read the broker yet cannot say."""
    if "open_orders" not in found:
        return "the broker has not been read yet; whatever is open there will be cancelled then"
    return f"{counted(len(_open(found)), 'order')} open"


def why_open(found: Fields) -> dict[str, str]:
    """Why each order that is being cancelled is still open, and when its next cancel goes."""
    return {row.text("order_id"): row.text("why") for row in found.each("cancels")}


def _open(found: Fields) -> dict[str, Fields]:
    """The bot's open orders by their id."""
    return {row.text("order_id"): row for row in found.each("open_orders")}
