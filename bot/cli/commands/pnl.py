"""`bot pnl`: profit and loss after fee and tax, and open positions."""

from collections.abc import Iterator
from typing import Final

import click

from bot.cli.command import Invocation, define_command
from bot.cli.options import form_option, since_of, since_option
from bot.cli.rows import fields_of, paper_line, print_machine
from bot.cli.show import UNCUT, print_json, print_lines, print_table, write_line
from bot.cli.target import open_journal
from bot.cli.telling.wording import counted
from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.local_time import day_and_clock_of
from bot.journal.reading.money import By, Profit, ResultRow, profit_of

HEADS: Final = (
    "OF", "FILLS", "BOUGHT", "FOR", "SOLD", "FOR", "REALISED", "FEE", "TAX", "NET",
)  # fmt: skip
OPEN_HEADS: Final = ("STILL OPEN", "STRATEGY", "QTY", "COST", "LAST", "AT", "VALUE", "UNREALISED")
RULES: Final = (
    "realised is against average cost; net is after fees and tax, unrealised before",
    "not included: dividends and new shares from ex-dates, which no fill of ours brings",
)


@define_command("pnl", example="bot pnl --by day --since 7d")
@click.option(
    "--by",
    type=click.Choice([each.value for each in By]),
    default=By.SYMBOL.value,
    help="What to group by.",
)
@since_option
@form_option
@click.pass_obj
def command(invocation: Invocation, by: str, since: str | None, form: str) -> None:
    """Show profit and loss: realised after fees and taxes, to the VND, and what is still open.

    From the journal alone. A sale's result is against the average cost of its strategy's shares.
    What is still open is valued at the last price the bot trusted, shown with its time. Days count
    whole: --since 2h is all of the day that it falls on.
    """
    with open_journal(invocation) as reader:
        begin = since_of(since, reader)
        first = begin.astimezone(EXCHANGE_TZ).date() if begin else None
        positions = reader.positions()
        prices = reader.prices(sorted({row.symbol for row in positions}))
        found = profit_of(reader.profits(), positions, prices, by=By(by), since=first)
        paper = paper_line(reader)
    if invocation.json and form == "table":
        print_json({**fields_of(found), "unrealised": found.unrealised})
        return
    if print_machine(invocation, found.rows, form, what="pnl", kind=ResultRow):
        return
    limit = UNCUT if form == "wide" else None
    rows = [*found.rows, found.total]
    cells = [
        (
            *(row.of, row.fills, row.bought, row.bought_amount, row.sold, row.sold_amount),
            *(row.realised, row.fee, row.tax, row.net),
        )
        for row in rows
    ]
    print_table(invocation, HEADS, cells, limit=limit)
    if found.held:
        write_line("")
        held = [
            (
                *(row.symbol, row.strategy, row.quantity, row.cost, row.last),
                *(day_and_clock_of(row.last_at) if row.last_at else None, row.value),
                row.unrealised,
            )
            for row in found.held
        ]
        print_table(invocation, OPEN_HEADS, held, limit=limit, spare=("COST",))
    write_line("")
    print_lines([*profit_lines(found), *_period(found), *RULES, *paper])


def _period(found: Profit) -> Iterator[str]:
    """Say from which day on results count, as `--since` may name a part of one."""
    if found.since is not None:
        yield f"of whole days, from {found.since} on"


def profit_lines(found: Profit) -> Iterator[str]:
    """Report realised and unrealised profit on two lines."""
    total = found.total
    costs = f"after fees {total.fee:,} and tax {total.tax:,}"
    yield f"realised {total.net:+,} VND {costs}, {counted(total.fills, 'fill')}"
    if found.held:
        unpriced = found.unpriced
        unknown = f", no price known for {', '.join(unpriced)}" if unpriced else ""
        positions = counted(len(found.held), "position")
        yield f"unrealised {found.unrealised:+,} VND in {positions} still open{unknown}"
