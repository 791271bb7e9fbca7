"""`bot order ID`: one order, and with `--timeline` everything that happened to it."""

import click

from bot.cli.command import Invocation, define_command
from bot.cli.commands.orders import find_order, order_fields, reason_of, rest_of, status_of
from bot.cli.rows import fields_of, paper_line
from bot.cli.show import print_json, print_lines, width
from bot.cli.target import open_journal
from bot.cli.telling.order_story import raw_story, story
from bot.cli.telling.wording import day_and_clock_of, order_in
from bot.domain.account import masked_account


@define_command("order", example="bot order last --timeline")
@click.argument("reference", metavar="ID")
@click.option("--timeline", is_flag=True, help="Everything that happened, in order.")
@click.option("--raw", is_flag=True, help="With the requests and answers as they were (masked).")
@click.pass_obj
def command(invocation: Invocation, reference: str, timeline: bool, raw: bool) -> None:
    """Show one order. ID is ORD…, L-…, a unique part of either, or 'last'."""
    with open_journal(invocation) as reader:
        row = find_order(reader, reference)
        paper = paper_line(reader)
        events = reader.timeline(row.id) if timeline or raw else []
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
