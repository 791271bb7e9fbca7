"""`bot orders`: what was ordered, blocked requests among it, and why."""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

import click

from bot.cli.command import command
from bot.cli.invocation import Invocation
from bot.cli.paper_words import paper_line
from bot.cli.places import open_journal
from bot.cli.rows import Plain, fields_of, form_option, names_of, print_machine
from bot.cli.show import UNCUT, Row, print_lines, print_table, print_text, say
from bot.cli.since import since_of, since_option
from bot.cli.wording import clock_of, counted, day_and_clock_of
from bot.journal.values import OrderRow

HEADS: Final = (
    "TIME", "ID", "STRATEGY", "SIDE", "SYM", "QTY", "PRICE", "FILLED", "AVG", "STATUS",
    "WHY / REASON",
)  # fmt: skip
WIDE_HEADS: Final = (
    "TIME", "ID", "LOCAL", "STRATEGY", "SIDE", "SYM", "QTY", "TYPE", "PRICE", "FILLED", "AVG",
    "FEE", "TAX", "STATUS", "CODE", "WHY / REASON",
)  # fmt: skip
SPARE: Final = ("AVG", "STRATEGY", "WHY / REASON", "PRICE", "FILLED")
"""What is left out first where the screen is too narrow."""
STYLES: Final = {
    "MATCHED_ALL": "green",
    "REJECTED": "red",
    "FAILED": "red",
    "BLOCKED": "yellow",
    "UNKNOWN": "bright_red",
}


@command("orders", example="bot orders --open --since 1d")
@click.option("--open", "open_only", is_flag=True, help="Only those that may still trade.")
@click.option("--status", metavar="WORD", help="SENT, REJECTED, BLOCKED, filled, partly …")
@click.option("--symbol", metavar="SYM", help="Only this symbol.")
@click.option("--strategy", metavar="NAME", help="Only this strategy's.")
@since_option
@form_option
@click.pass_obj
def orders(
    invocation: Invocation,
    open_only: bool,
    status: str | None,
    symbol: str | None,
    strategy: str | None,
    since: str | None,
    form: str,
) -> None:
    """List orders. Those whose answer never came stand first."""
    with open_journal(invocation) as reader:
        found = reader.orders(
            since=since_of(since, reader),
            status=status,
            symbol=symbol.upper() if symbol else None,
            strategy=strategy,
            open_only=open_only,
        )
        paper = paper_line(reader)
        if status and not found:
            say(invocation, _statuses(reader.orders(), status))
    machine = [order_fields(row) for row in found]
    names = (*names_of(OrderRow), "outcome")
    if not print_machine(invocation, machine, form, what="orders", names=names):
        _print_table(invocation, found, is_wide=form == "wide")
        print_lines(paper)


def _statuses(found: Sequence[OrderRow], status: str) -> str:
    """What `--status` would find, where it found nothing."""
    words = sorted({word for row in found for word in (row.status, row.outcome)})
    listed = f"; there are: {', '.join(words)}" if words else ""
    return f"no order is {status!r} here{listed}"


def _print_table(invocation: Invocation, found: Sequence[OrderRow], *, is_wide: bool) -> None:
    if is_wide:
        wide = [_wide_row(row) for row in found]
        print_table(invocation, WIDE_HEADS, wide, styles=STYLES, limit=UNCUT)
    else:
        has_days = len({row.trading_date for row in found}) > 1
        rows = [_row(row, day_and_clock_of if has_days else clock_of) for row in found]
        print_table(invocation, HEADS, rows, styles=STYLES, spare=SPARE)
    print_text(foot(found))


def order_fields(row: OrderRow) -> Plain:
    """An order as JSON: its columns and its one-word outcome."""
    return {**fields_of(row), "outcome": row.outcome}


def foot(found: Sequence[OrderRow]) -> str:
    """`5 orders: 1 filled, 2 blocked · bot order ID --timeline`."""
    outcomes = Counter(row.outcome for row in found)
    listed = ", ".join(f"{count} {word}" for word, count in outcomes.most_common())
    colon = ": " if listed else ""
    return f"{counted(len(found), 'order')}{colon}{listed} · bot order ID --timeline"


def status_of(row: OrderRow) -> str:
    """The broker's word; `, cut` when a partly filled order has ended."""
    is_cut = row.outcome == "partly" and not row.is_open
    return f"{row.status}, cut" if is_cut else row.status


def ended_words(row: OrderRow) -> str:
    """`ORD3 CANCELLED: 300 cancelled, 200 kept`."""
    quantities = f"{row.cancelled_quantity:,} cancelled, {row.executed_quantity:,} kept"
    return f"{row.id} {row.state or row.status}: {quantities}"


def reason_of(row: OrderRow) -> str:
    """Why it is as it is: what refused it, how it ended, else why it was made."""
    if row.status == "BLOCKED":
        return " ".join(part for part in (row.code, row.reason) if part) or row.why or ""
    return row.reason or row.note or row.why or ""


def _row(row: OrderRow, time_of: Callable[[datetime], str]) -> Row:
    return (
        time_of(row.at),
        row.id,
        row.strategy,
        row.side,
        row.symbol,
        row.quantity,
        row.price,
        None if row.status == "BLOCKED" else row.executed_quantity,
        row.average_price,
        status_of(row),
        reason_of(row),
    )


def _wide_row(row: OrderRow) -> Row:
    return (
        day_and_clock_of(row.at),
        row.id,
        row.local_id,
        row.strategy,
        row.side,
        row.symbol,
        row.quantity,
        row.order_type,
        row.price,
        row.executed_quantity,
        row.average_price,
        row.fee,
        row.tax,
        status_of(row),
        row.code,
        reason_of(row),
    )
