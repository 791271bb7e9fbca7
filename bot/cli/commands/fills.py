"""`bot fills`: what was bought and sold."""

from typing import Final

import click

from bot.cli.command import Invocation, define_command
from bot.cli.options import form_option, since_of, since_option, strategy_option, symbol_option
from bot.cli.rows import paper_line, print_machine
from bot.cli.show import UNCUT, print_lines, print_table, write_line
from bot.cli.target import open_journal
from bot.cli.telling.wording import counted
from bot.domain.local_time import clock_of, day_and_clock_of
from bot.journal.reading.values import FillRow

HEADS: Final = (
    "TIME", "ID", "STRATEGY", "SIDE", "SYM", "QTY", "PRICE", "AMOUNT", "FEE", "TAX", "RESULT",
    "POSITION",
)  # fmt: skip
SPARE: Final = ("AMOUNT", "STRATEGY", "TAX", "FEE", "RESULT")
"""Columns dropped first if the screen is too narrow; `-o wide` has everything."""


@define_command("fills", example="bot fills --since 1d")
@symbol_option
@strategy_option
@since_option
@form_option
@click.pass_obj
def command(
    invocation: Invocation, symbol: str | None, strategy: str | None, since: str | None, form: str
) -> None:
    """List what was bought and sold. RESULT is that of a sale, before fee and tax."""
    with open_journal(invocation) as reader:
        wanted = symbol.upper() if symbol else None
        found = reader.fills(since=since_of(since, reader), symbol=wanted, strategy=strategy)
        paper = paper_line(reader)
    if print_machine(invocation, found, form, what="fills", kind=FillRow):
        return
    has_days = form == "wide" or len({row.trading_date for row in found}) > 1
    time_of = day_and_clock_of if has_days else clock_of
    rows = [
        (
            *(time_of(row.at), row.order_id, row.strategy, row.side, row.symbol, row.quantity),
            *(row.price, row.amount, row.fee, row.tax, row.realised, row.position),
        )
        for row in found
    ]
    limit = UNCUT if form == "wide" else None
    print_table(invocation, HEADS, rows, limit=limit, spare=SPARE)
    fees, taxes = sum(row.fee for row in found), sum(row.tax for row in found)
    write_line(f"{counted(len(found), 'fill')}, fees {fees:,}, tax {taxes:,}")
    print_lines(paper)
