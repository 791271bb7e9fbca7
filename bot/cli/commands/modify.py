"""`bot modify`: change one open order by hand, checked and journalled like every other change.

The running bot accepts or refuses the request at once; this command waits for the result.
"""

from time import sleep
from typing import Final

import click

from bot.cli.command import Invocation, define_command
from bot.cli.commands.orders import find_order
from bot.cli.operating import LOOK_AT_ORDERS_EVERY_S, OPERATOR
from bot.cli.options import reason_option, timeout_option, whole_from
from bot.cli.show import print_json, write_line
from bot.cli.target import ask_bot, open_journal, running_status, which_bot
from bot.clock import monotonic_s
from bot.config.problems import ExitCode, OperatorMistake

_EXIT_CODES: Final = {
    "DONE": ExitCode.DONE,
    "BLOCKED": ExitCode.REFUSED,
    "REFUSED": ExitCode.REJECTED,
    "NOT_DONE": ExitCode.REJECTED,
    "ENDED": ExitCode.REJECTED,
    "DIFFERS": ExitCode.DIFFERS,
}
"""The exit code for each verdict on an amendment."""
_NO_TOKEN: Final = ("OTP_SESSION_", "TWO_FACTOR")


@define_command("modify", example="bot modify last --limit 27050", changes=True)
@click.argument("reference", metavar="ID")
@click.option(
    "--limit", type=whole_from("whole VND"), metavar="P", help="The new limit price, in VND."
)
@click.option(
    "--qty", type=whole_from("a number of shares"), metavar="N", help="The new total, in shares."
)
@reason_option
@timeout_option
@click.pass_obj
def command(
    invocation: Invocation,
    reference: str,
    limit: int | None,
    qty: int | None,
    reason: str,
    timeout: float,
) -> ExitCode:
    """Change the limit price or the total quantity of an open order, one at a time.

    ID is ORD…, L-…, a unique part of either, or 'last'. Needs risk.allow_amend: true.
    """
    if (limit is None) is (qty is None):
        raise click.UsageError("use one of --limit and --qty: only one can be changed at a time")
    running_status(invocation)
    with open_journal(invocation) as reader:
        order_id = find_order(reader, reference).id
    request = {"order_id": order_id, "limit": limit, "quantity": qty}
    accepted = ask_bot(invocation, "modify", **request, reason=reason, by=OPERATOR)
    ours = (order_id, accepted.text("asked_at"))
    deadline = monotonic_s() + timeout
    while monotonic_s() < deadline:
        for amend in running_status(invocation).each("amends"):
            verdict = amend.text("verdict")
            if not verdict or (amend.text("order_id"), amend.text("asked_at")) != ours:
                continue
            if invocation.json:
                print_json(amend)
            else:
                change = f"{amend.text('field')} {amend.whole('old'):,} to {amend.whole('new'):,}"
                # The text of one that is done begins so; the others' say only why not.
                text = amend.text("text")
                result = text if text.startswith("done") else f"{verdict} · {text}"
                write_line(f"{which_bot(invocation)}: {order_id} {change}: {result}")
            lacks_token = amend.text("code").startswith(_NO_TOKEN)
            return ExitCode.NEEDS_2FA if lacks_token else _EXIT_CODES[verdict]
        sleep(LOOK_AT_ORDERS_EVERY_S)
    message = f"no result after {timeout:g} s; still under way: bot order {order_id} --timeline"
    raise OperatorMistake.of("E-ASK-002", message, ExitCode.TIMED_OUT)
