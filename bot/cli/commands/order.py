"""`bot order ID`: one order, and with `--timeline` everything that happened to it."""

from collections.abc import Iterator, Sequence

import click

from bot.cli.command import command
from bot.cli.commands.orders import order_fields, reason_of, rest_of, status_of
from bot.cli.invocation import Invocation
from bot.cli.paper_words import paper_line
from bot.cli.places import open_journal
from bot.cli.rows import fields_of
from bot.cli.show import print_json, print_text, width
from bot.cli.telling.order_story import raw_story, story
from bot.cli.telling.wording import day_and_clock_of, order_words
from bot.config.problems import ExitCode, OperatorMistake
from bot.domain.account import masked_account
from bot.journal.errors import AmbiguousOrder, UnknownOrder
from bot.journal.reader import JournalReader
from bot.journal.values import OrderRow, TimelineRow


@command("order", example="bot order last --timeline")
@click.argument("reference", metavar="ID")
@click.option("--timeline", is_flag=True, help="Everything that happened, in order.")
@click.option("--raw", is_flag=True, help="With the requests and answers as they were (masked).")
@click.pass_obj
def order(invocation: Invocation, reference: str, timeline: bool, raw: bool) -> None:
    """Show one order. ID is ORD…, L-…, a unique part of either, or 'last'."""
    with open_journal(invocation) as reader:
        row = _find(reader, reference)
        paper = paper_line(reader)
        events = reader.timeline(row.id) if timeline or raw else []
    if invocation.json:
        extra = {"timeline": [fields_of(each) for each in events]} if timeline or raw else {}
        print_json({**order_fields(row), **extra})
        return
    for line in (*_head(row), *_body(row, events, raw=raw), *paper):
        print_text(line)


def _body(row: OrderRow, events: Sequence[TimelineRow], *, raw: bool) -> Iterator[str]:
    if not events:
        yield from _facts(row)
    elif raw:
        yield from raw_story(events)
    else:
        yield from story(events, row, limit=width())
        yield "every step, request and answer: --raw · as JSON: --json"


def _find(reader: JournalReader, reference: str) -> OrderRow:
    try:
        return reader.order(reference)
    except UnknownOrder as error:
        text = f"{error}. All of them: bot orders"
        raise OperatorMistake.of("E-ORD-001", text, ExitCode.USAGE) from error
    except AmbiguousOrder as error:
        text = f"'{reference}' could be {', '.join(error.candidates)}: give more of it"
        raise OperatorMistake.of("E-ORD-002", text, ExitCode.USAGE) from error


def _head(row: OrderRow) -> Iterator[str]:
    wish = order_words(
        side=row.side,
        quantity=row.quantity,
        symbol=row.symbol,
        order_type=row.order_type,
        price=row.price,
    )
    account = f"account {masked_account(row.account)}" if row.account else None
    names = dict.fromkeys((row.order_id, row.local_id))
    parts = (*names, wish, row.strategy, account)
    yield "  ".join(part for part in parts if part)
    if row.why:
        yield f"why  {row.why}"


def _facts(row: OrderRow) -> Iterator[str]:
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
    yield from (f"{name:<10} {value}" for name, value in facts.items())
    yield f"everything that happened: bot order {row.id} --timeline"
