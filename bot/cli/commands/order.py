"""`bot order ID`: one order, and with `--timeline` everything that happened to it.

With `--not-placed` or `--is` a person says what became of an order of unknown outcome: the running
bot accepts or refuses that, and journals it with what was known.
"""

import sys
from time import sleep
from typing import Final

import click

from bot.cli.command import Invocation, define_command
from bot.cli.commands.orders import find_order, order_fields, reason_of, rest_of, status_of
from bot.cli.operating import LOOK_EVERY_S, OPERATOR, SETTLE_S, wait_until
from bot.cli.options import reason_option
from bot.cli.rows import fields_of, paper_line
from bot.cli.show import confirm, print_json, print_lines, width, write_line
from bot.cli.target import ask_bot, open_journal, running_status, which_bot
from bot.cli.telling.order_story import raw_story, story
from bot.cli.telling.wording import order_in
from bot.clock import monotonic_s
from bot.domain.account import masked_account
from bot.domain.local_time import day_and_clock_of
from bot.domain.order import SendState

_IN_QUESTION: Final = frozenset(
    {SendState.UNKNOWN, SendState.FRESH, SendState.REACHED, SendState.AMBIGUOUS}
)


@define_command("order", example="bot order last --timeline")
@click.argument("reference", metavar="ID")
@click.option("--timeline", is_flag=True, help="Everything that happened, in order.")
@click.option("--raw", is_flag=True, help="With the original requests and answers (masked).")
@click.option("--not-placed", is_flag=True, help="Say that it never reached the broker.")
@click.option("--is", "order_id", metavar="ORD…", help="Say which order of the broker it is.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@reason_option
@click.pass_obj
def command(
    invocation: Invocation,
    reference: str,
    timeline: bool,
    raw: bool,
    not_placed: bool,
    order_id: str | None,
    yes: bool,
    reason: str,
) -> None:
    """Show one order. ID is ORD…, L-…, a unique part of either, or 'last'.

    For an order whose outcome is unknown (bot status), say what became of it once you have checked
    the broker's app: --not-placed or --is, with a --reason.
    """
    if not_placed or order_id is not None:
        if not_placed and order_id is not None:
            raise click.UsageError("--not-placed and --is contradict each other: use one of them")
        if not reason.strip():
            raise click.UsageError('say how you know: --reason "…"')
        invocation.does_change = True
        _give_verdict(invocation, reference, order_id, reason, is_sure=yes)
        return
    with open_journal(invocation) as reader:
        row = find_order(reader, reference)
        paper = paper_line(reader)
        events = reader.timeline_of(row) if timeline or raw else []
    if invocation.json:
        extra = {"timeline": [fields_of(each) for each in events]} if timeline or raw else {}
        print_json({**order_fields(row), **extra})
        return
    account = f"account {masked_account(row.account)}" if row.account else None
    names = dict.fromkeys((row.order_id, row.local_id))
    lines = ["  ".join(filter(None, (*names, order_in(row), row.strategy, account)))]
    if row.why:
        lines.append(f"why  {row.why}")
    if not events:
        average = f" @ {row.average_price:,}" if row.average_price is not None else ""
        facts = {
            "time": day_and_clock_of(row.at),
            "status": ", ".join(filter(None, (status_of(row), rest_of(row)))),
            "filled": f"{row.executed_quantity:,}{average}, amount {row.executed_amount:,}",
            "cancelled": f"{row.cancelled_quantity:,}",
            "fee, tax": f"{row.fee:,}, {row.tax:,}",
            "code": row.code or "-",
            "reason": reason_of(row) or "-",
        }
        lines += [f"{name:<10} {value}" for name, value in facts.items()]
        lines.append(f"everything that happened: bot order {row.id} --timeline")
    elif raw:
        lines += raw_story(events)
    else:
        lines += story(events, row, limit=width())
        lines.append("every step, request and answer: --raw · as JSON: --json")
    print_lines([*lines, *paper])


def _give_verdict(
    invocation: Invocation, reference: str, order_id: str | None, reason: str, *, is_sure: bool
) -> None:
    """Pass a verdict to the running bot, and show the order's state a moment later."""
    running_status(invocation)
    with open_journal(invocation) as reader:
        row = find_order(reader, reference)
        name = row.local_id or row.id
        told = "was never placed" if order_id is None else f"is {order_id}"
        if not is_sure and not invocation.no_input and sys.stdin.isatty():
            which = which_bot(invocation)
            if not confirm(f"Tell {which} that {name} ({order_in(row)}) {told}?"):
                raise click.Abort
        request = {"intent_id": name, "order_id": order_id, "reason": reason, "by": OPERATOR}
        ask_bot(invocation, "verdict", **request)
        wait_until(invocation, lambda now: name not in now.words("unknown"))
        # The bot commits a moment later what it says already.
        deadline = monotonic_s() + SETTLE_S
        while (row := reader.order(name)).send_state in _IN_QUESTION and monotonic_s() < deadline:
            sleep(LOOK_EVERY_S)
    if invocation.json:
        print_json(order_fields(row))
        return
    is_late = row.send_state in _IN_QUESTION
    now_is = "accepted, but not in the journal yet" if is_late else status_of(row)
    write_line(f"{which_bot(invocation)}: {name} {told}: {now_is}")
