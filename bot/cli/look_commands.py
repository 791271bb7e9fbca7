"""`bot fills` and `bot positions`."""

from typing import Final

import click

from bot.cli.command import command
from bot.cli.invocation import Invocation
from bot.cli.places import open_journal
from bot.cli.rows import fields_of, form_option, print_machine
from bot.cli.show import print_table, print_text
from bot.cli.since import since_of, since_option
from bot.cli.wording import counted, day_and_clock_of

FILL_HEADS: Final = (
    "TIME", "ID", "STRATEGY", "SIDE", "SYM", "QTY", "PRICE", "AMOUNT", "FEE", "TAX", "RESULT",
    "POSITION",
)  # fmt: skip
POSITION_HEADS: Final = (
    "STRATEGY", "SYM", "QTY", "AVG", "COST", "REALISED", "FEE", "TAX",
)  # fmt: skip


@command("fills", example="bot fills --since 1d")
@click.option("--symbol", metavar="SYM", help="Only this symbol.")
@click.option("--strategy", metavar="NAME", help="Only this strategy's.")
@since_option
@form_option
@click.pass_obj
def fills(
    invocation: Invocation, symbol: str | None, strategy: str | None, since: str | None, form: str
) -> None:
    """List what was bought and sold. RESULT is a sale's, before fee and tax."""
    with open_journal(invocation) as reader:
        wanted = symbol.upper() if symbol else None
        found = reader.fills(since=since_of(since, reader), symbol=wanted, strategy=strategy)
    if print_machine(invocation, [fields_of(row) for row in found], form):
        return
    rows = [
        (
            day_and_clock_of(row.at),
            row.order_id,
            row.strategy,
            row.side,
            row.symbol,
            row.quantity,
            row.price,
            row.amount,
            row.fee,
            row.tax,
            row.realised,
            row.position,
        )
        for row in found
    ]
    print_table(invocation, FILL_HEADS, rows)
    fees, taxes = sum(row.fee for row in found), sum(row.tax for row in found)
    print_text(f"{counted(len(found), 'fill')}, fees {fees:,}, tax {taxes:,}")


@command("positions", example="bot positions --json")
@form_option
@click.pass_obj
def positions(invocation: Invocation, form: str) -> None:
    """List what each strategy holds, by its own fills."""
    with open_journal(invocation) as reader:
        found = reader.positions()
    if print_machine(invocation, [fields_of(row) for row in found], form):
        return
    rows = [
        (
            row.strategy,
            row.symbol,
            row.quantity,
            row.average_price,
            row.cost,
            row.realised,
            row.fee,
            row.tax,
        )
        for row in found
    ]
    print_table(invocation, POSITION_HEADS, rows)
    print_text(f"{counted(len(found), 'position')}, cost {sum(r.cost for r in found):,}")
