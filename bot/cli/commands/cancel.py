"""`bot cancel`: cancel open orders by hand, checked and journalled like every other cancel.

The running bot accepts or refuses the request at once; this command waits for the end of each
order.
"""

from collections.abc import Sequence
from time import sleep
from typing import TYPE_CHECKING

import click

from bot.cli.command import Invocation, define_command
from bot.cli.commands.orders import ended_words, find_order, order_fields
from bot.cli.operating import LOOK_AT_ORDERS_EVERY_S, OPERATOR
from bot.cli.options import reason_option, timeout_option
from bot.cli.show import print_json, say, show_mistake, write_line
from bot.cli.target import (
    ask_bot,
    find_bot,
    no_bot,
    open_journal,
    refusal,
    running_status,
    which_bot,
)
from bot.cli.telling.wording import counted
from bot.clock import monotonic_s
from bot.config.problems import ExitCode, OperatorMistake
from bot.domain.entry import RunState
from bot.domain.order import OrderState
from bot.journal.reading.values import OrderRow

if TYPE_CHECKING:
    from bot.journal.reading.reader import JournalReader


@define_command("cancel", example="bot cancel last", changes=True)
@click.argument("references", metavar="ID...", nargs=-1)
@click.option("--all", "is_all", is_flag=True, help="Every open order of the bot.")
@reason_option
@timeout_option
@click.pass_obj
def command(
    invocation: Invocation, references: tuple[str, ...], is_all: bool, reason: str, timeout: float
) -> ExitCode:
    """Cancel the open part of orders and wait until the broker's order list shows it.

    ID is ORD…, L-…, a unique part of either, or 'last'. Strategies keep running and may order
    again; to stop that too: bot halt
    """
    if is_all and references:
        named = " ".join(references)
        raise click.UsageError(f"--all and {named} contradict each other: use one of them")
    if not (is_all or references):
        raise click.UsageError("name the orders to cancel, or use --all")
    running, refused = running_status(invocation), 0
    with open_journal(invocation) as reader:
        if is_all:
            own = [row for row in running.each("open_orders") if row.text("intent_id")]
            wanted = [row.text("order_id") for row in own]
            ask_bot(invocation, "cancel", all=True, reason=reason, by=OPERATOR)
            _print_which(invocation, len(wanted))
        else:
            wanted = list(dict.fromkeys(find_order(reader, name).id for name in references))
            _print_which(invocation, len(wanted))
            for order_id in list(wanted):
                request = {"order_id": order_id, "reason": reason, "by": OPERATOR}
                reply = find_bot(invocation, "cancel", **request)
                if reply is None:
                    raise no_bot(invocation)
                if not reply.get("ok"):
                    show_mistake(refusal(invocation, reply))
                    wanted.remove(order_id)
                    refused += 1
        rows = _wait_for_ends(invocation, reader, wanted, timeout)
    done = sum(row.state == OrderState.CANCELLED for row in rows)
    if invocation.json:
        print_json({"orders": [order_fields(row) for row in rows]})
    elif not (rows or refused):
        say(invocation, "the bot has no open orders")
    else:
        for row in rows:
            write_line(ended_words(row))
        say(invocation, f"{done} of {counted(len(rows) + refused, 'order')} cancelled")
    if done < len(rows):
        return ExitCode.REJECTED
    return ExitCode.REFUSED if refused else ExitCode.DONE


def _print_which(invocation: Invocation, orders: int) -> None:
    if not invocation.json:
        write_line(f"{which_bot(invocation)}: {counted(orders, 'order')} to cancel")


def _wait_for_ends(
    invocation: Invocation, reader: "JournalReader", wanted: Sequence[str], timeout: float
) -> list[OrderRow]:
    deadline = monotonic_s() + timeout
    while True:
        rows = [reader.order(order_id) for order_id in wanted]
        still_open = [row.id for row in rows if row.is_open]
        if not still_open:
            return rows
        found = running_status(invocation)
        if found.text("state") == RunState.NEEDS_2FA:
            message = f"{', '.join(still_open)}: the cancel is waiting for a 2FA token: bot otp"
            raise OperatorMistake.of("E-2FA-004", message, ExitCode.NEEDS_2FA)
        if monotonic_s() >= deadline:
            why = {row.text("order_id"): row.text("why") for row in found.each("cancels")}
            whys = [f"{order_id} ({why.get(order_id) or 'no cancel'})" for order_id in still_open]
            message = f"still open after {timeout:g} s, the bot keeps trying: {'; '.join(whys)}"
            raise OperatorMistake.of("E-ASK-002", message, ExitCode.TIMED_OUT)
        sleep(LOOK_AT_ORDERS_EVERY_S)
