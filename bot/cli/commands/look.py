"""`bot fills` and `bot positions`."""

from typing import Final

import click

from bot.cli.command import command
from bot.cli.invocation import Invocation
from bot.cli.paper_words import paper_line
from bot.cli.places import open_journal
from bot.cli.rows import fields_of, form_option, names_of, print_machine
from bot.cli.show import UNCUT, print_lines, print_table, print_text
from bot.cli.since import since_of, since_option
from bot.cli.telling.wording import clock_of, counted, day_and_clock_of
from bot.journal.values import FillRow, PositionRow

FILL_HEADS: Final = (
    "TIME", "ID", "STRATEGY", "SIDE", "SYM", "QTY", "PRICE", "AMOUNT", "FEE", "TAX", "RESULT",
    "POSITION",
)  # fmt: skip
FILL_SPARE: Final = ("AMOUNT", "STRATEGY", "TAX", "FEE", "RESULT")
"""What is left out first where the screen is too narrow; `-o wide` has everything."""
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
        paper = paper_line(reader)
    machine = [fields_of(row) for row in found]
    if print_machine(invocation, machine, form, what="fills", names=names_of(FillRow)):
        return
    has_days = form == "wide" or len({row.trading_date for row in found}) > 1
    time_of = day_and_clock_of if has_days else clock_of
    rows = [
        (
            time_of(row.at),
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
    limit = UNCUT if form == "wide" else None
    print_table(invocation, FILL_HEADS, rows, limit=limit, spare=FILL_SPARE)
    fees, taxes = sum(row.fee for row in found), sum(row.tax for row in found)
    print_text(f"{counted(len(found), 'fill')}, fees {fees:,}, tax {taxes:,}")
    print_lines(paper)


@command("positions", example="bot positions --json")
@form_option
@click.pass_obj
def positions(invocation: Invocation, form: str) -> None:
    """List what each strategy holds, by its own fills."""
    with open_journal(invocation) as reader:
        found = reader.positions()
        paper = paper_line(reader)
    machine = [fields_of(row) for row in found]
    if print_machine(invocation, machine, form, what="positions", names=names_of(PositionRow)):
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
    limit = UNCUT if form == "wide" else None
    print_table(invocation, POSITION_HEADS, rows, limit=limit, spare=("TAX", "FEE", "COST"))
    print_text(f"{counted(len(found), 'position')}, cost {sum(r.cost for r in found):,}")
    print_lines(paper)
