"""`bot positions`: what each strategy holds."""

from typing import Final

import click

from bot.cli.command import Invocation, define_command
from bot.cli.options import form_option
from bot.cli.rows import paper_line, print_machine
from bot.cli.show import UNCUT, print_lines, print_table, write_line
from bot.cli.target import open_journal
from bot.cli.telling.wording import counted
from bot.journal.reading.values import PositionRow

HEADS: Final = ("STRATEGY", "SYM", "QTY", "AVG", "COST", "REALISED", "FEE", "TAX")


@define_command("positions", example="bot positions --json")
@form_option
@click.pass_obj
def command(invocation: Invocation, form: str) -> None:
    """List what each strategy holds, by its own fills."""
    with open_journal(invocation) as reader:
        found = reader.positions()
        paper = paper_line(reader)
    if print_machine(invocation, found, form, what="positions", kind=PositionRow):
        return
    rows = [
        (
            *(row.strategy, row.symbol, row.quantity, row.average_price, row.cost),
            *(row.realised, row.fee, row.tax),
        )
        for row in found
    ]
    limit = UNCUT if form == "wide" else None
    print_table(invocation, HEADS, rows, limit=limit, spare=("TAX", "FEE", "COST"))
    write_line(f"{counted(len(found), 'position')}, cost {sum(row.cost for row in found):,}")
    print_lines(paper)
