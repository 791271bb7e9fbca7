"""`bot decisions`: why it traded, and why it did not."""

from typing import Final

import click

from bot.cli.command import Invocation, define_command
from bot.cli.options import form_option, since_of, since_option, strategy_option, symbol_option
from bot.cli.rows import print_machine
from bot.cli.show import UNCUT, Row, print_table, write_line
from bot.cli.target import open_journal
from bot.cli.telling.wording import clock_of, counted, minute_of
from bot.journal.grouping import group, reason_of
from bot.journal.values import DecisionGroup, DecisionRow

HEADS: Final = ("TIME", "STRATEGY", "SYM", "WHAT", "CODE", "ID", "WHY")
GROUP_HEADS: Final = ("TIME", "STRATEGY", "SYM", "TIMES", "WHAT", "CODE", "WHY")
SPARE: Final = {HEADS: ("ID", "WHAT"), GROUP_HEADS: ("WHAT", "TIMES")}
"""What is left out first where the screen is too narrow."""
INTERNAL: Final = "CODE"
"""A column of our own codes: for `-o wide` alone."""
WORDS: Final = {
    "PASSED": "ORDER",
    "SKIPPED": "SKIP",
    "BLOCKED": "BLOCK",
    "WATCHED": "WATCH",
    "HELD": "HELD",
    "EXPIRED": "EXPIRED",
    "FAILED": "FAULT",
}
"""What became of a decision, in the words of a run's lines."""


@define_command("decisions", example="bot decisions --why-not --symbol FPT --since 1h")
@click.option("--why-not", is_flag=True, help="Only those that became no order, alike ones once.")
@click.option("--missed", is_flag=True, help="Only signals that 2FA kept from becoming orders.")
@symbol_option
@strategy_option
@since_option
@form_option
@click.pass_obj
def command(
    invocation: Invocation,
    why_not: bool,
    missed: bool,
    symbol: str | None,
    strategy: str | None,
    since: str | None,
    form: str,
) -> None:
    """List decisions: every order a strategy asked for, and every skip with its reason."""
    with open_journal(invocation) as reader:
        found = reader.decisions(
            why_not=why_not,
            missed=missed,
            symbol=symbol.upper() if symbol else None,
            strategy=strategy,
            since=since_of(since, reader),
        )
    is_grouped = why_not or missed
    groups = group(found) if is_grouped else []
    kind = DecisionGroup if is_grouped else DecisionRow
    if print_machine(invocation, groups or found, form, what="decisions", kind=kind):
        return
    heads = GROUP_HEADS if is_grouped else HEADS
    rows: list[Row] = []
    for each in groups:
        first, last = minute_of(each.first_at), minute_of(each.last_at)
        time = first if first == last else f"{first}-{last}"
        named, times = (time, each.strategy, each.symbol), f"{each.count}x"
        rows.append((*named, times, WORDS[each.verdict], each.code, each.why))
    for row in () if is_grouped else found:
        named = (clock_of(row.at), row.strategy, row.symbol)
        order_id = row.order_id or row.local_id
        rows.append((*named, WORDS[row.verdict], row.code, order_id, reason_of(row)))
    if form == "wide":
        print_table(invocation, heads, rows, limit=UNCUT)
    else:
        at = heads.index(INTERNAL)
        rows = [[*cells[:at], *cells[at + 1 :]] for cells in rows]
        print_table(invocation, [*heads[:at], *heads[at + 1 :]], rows, spare=SPARE[heads])
    write_line(counted(len(found), "decision"))
