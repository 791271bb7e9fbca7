"""`bot decisions`: why it traded, and why it did not."""

from functools import partial
from typing import Final

import click

from bot.cli.command import Invocation, define_command
from bot.cli.options import form_option, since_of, since_option, strategy_option, symbol_option
from bot.cli.rows import print_machine
from bot.cli.show import UNCUT, Row, print_table, say, write_line
from bot.cli.target import open_journal
from bot.cli.telling.wording import clock_of, counted, minute_of
from bot.journal.grouping import group, reason_of
from bot.journal.values import DecisionGroup, DecisionRow, Page, ReasonRow

NEWEST: Final = 50
NEWEST_GROUPED: Final = 50_000
"""What is shown, and what is looked at for groups, unless more is asked for."""
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
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    metavar="N",
    help=f"The newest N ({NEWEST}; with --why-not or --missed {NEWEST_GROUPED:,}).",
)
@click.option("--all", "is_all", is_flag=True, help="All there are, however many.")
@form_option
@click.pass_obj
def command(
    invocation: Invocation,
    why_not: bool,
    missed: bool,
    symbol: str | None,
    strategy: str | None,
    since: str | None,
    limit: int | None,
    is_all: bool,
    form: str,
) -> None:
    """List decisions: every order a strategy asked for, and every skip with its reason.

    The newest are shown, oldest first; it is said how many there are before.
    """
    if is_all and limit is not None:
        raise click.UsageError("--all and --limit contradict each other: give one of them")
    is_grouped = why_not or missed
    newest = None if is_all else limit or (NEWEST_GROUPED if is_grouped else NEWEST)
    with open_journal(invocation) as reader:
        asked = partial(
            reader.decisions,
            why_not=why_not,
            missed=missed,
            symbol=symbol.upper() if symbol else None,
            strategy=strategy,
            since=since_of(since, reader),
            newest=newest,
        )
        if is_grouped:
            with asked(ReasonRow) as reasons:
                groups = iter(group(reasons.rows))
                grouped = Page(reasons.count, reasons.earlier, groups)
                _print(invocation, form, grouped, DecisionGroup)
        else:
            with asked(DecisionRow) as decisions:
                _print(invocation, form, decisions, DecisionRow)


def _print(
    invocation: Invocation, form: str, page: Page[DecisionRow] | Page[DecisionGroup], kind: type
) -> None:
    earlier = f"… {page.earlier:,} earlier: --limit N, or --all" if page.earlier else ""
    also = {"earlier": page.earlier}
    if print_machine(invocation, page.rows, form, what="decisions", kind=kind, also=also):
        if earlier:
            say(invocation, earlier)
        return
    heads = GROUP_HEADS if kind is DecisionGroup else HEADS
    rows = map(_cells, page.rows)
    if form == "wide":
        print_table(invocation, heads, rows, limit=UNCUT)
    else:
        at = heads.index(INTERNAL)
        narrow = ([*cells[:at], *cells[at + 1 :]] for cells in rows)
        print_table(invocation, [*heads[:at], *heads[at + 1 :]], narrow, spare=SPARE[heads])
    write_line(" · ".join(filter(None, (counted(page.count, "decision"), earlier))))


def _cells(each: DecisionRow | DecisionGroup) -> Row:
    """A row of the table, as `HEADS` or `GROUP_HEADS` has it."""
    if isinstance(each, DecisionRow):
        named = (clock_of(each.at), each.strategy, each.symbol, WORDS[each.verdict])
        return (*named, each.code, each.order_id or each.local_id, reason_of(each))
    first, last = minute_of(each.first_at), minute_of(each.last_at)
    time = first if first == last else f"{first}-{last}"
    named = (time, each.strategy, each.symbol, f"{each.count}x")
    return (*named, WORDS[each.verdict], each.code, each.why)
