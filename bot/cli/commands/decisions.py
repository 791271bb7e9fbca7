"""`bot decisions`: why it traded, and why it did not."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final

import click

from bot.cli.command import Invocation, define_command
from bot.cli.options import form_option, since_of, since_option, strategy_option, symbol_option
from bot.cli.rows import print_machine
from bot.cli.show import UNCUT, Row, print_table, say, write_line
from bot.cli.target import open_journal, readable
from bot.cli.telling.wording import counted
from bot.clock import SystemClock
from bot.config.problems import OperatorMistake
from bot.domain.local_time import clock_of, day_and_clock_of, local_date, minute_of, minute_on
from bot.journal.reading.values import (
    LASTS,
    STOPPED,
    DecisionGroup,
    DecisionRow,
    Page,
    ReasonRow,
)

if TYPE_CHECKING:
    from bot.journal.reading.reader import JournalReader

NOT_POLLED: Final = "NOT_POLLED"
NOT_WOKEN: Final = "NOT_WOKEN"
"""The code for a symbol without any decision."""
NEWEST: Final = 50
NEWEST_GROUPED: Final = 50_000
"""How many decisions are shown, and how many are read for grouping, by default."""
HEADS: Final = ("TIME", "STRATEGY", "SYM", "WHAT", "CODE", "ID", "WHY")
GROUP_HEADS: Final = ("TIME", "STRATEGY", "SYM", "TIMES", "WHAT", "CODE", "WHY")
SPARE: Final = {HEADS: ("ID", "WHAT"), GROUP_HEADS: ("WHAT", "TIMES")}
"""Columns dropped first if the screen is too narrow."""
INTERNAL: Final = "CODE"
"""A column with our own codes: only for `-o wide`."""
WORDS: Final = {
    "PASSED": "ORDER",
    "SKIPPED": "SKIP",
    "BLOCKED": "BLOCK",
    "WATCHED": "WATCH",
    "HELD": "HELD",
    "EXPIRED": "EXPIRED",
    "FAILED": "FAULT",
    STOPPED: "STOP",
}
"""The results of decisions, in the words of a run's lines."""


@define_command("decisions", example="bot decisions --why-not FPT --since 1h")
@click.option(
    "--why-not",
    is_flag=False,
    flag_value="",
    metavar="[SYMBOL]",
    help="Only what led to no order, grouped; for a symbol, also when nothing could be decided.",
)
@click.option(
    "--missed",
    is_flag=True,
    help="Only signals that led to no order because the 2FA token was missing.",
)
@symbol_option
@strategy_option
@since_option
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    metavar="N",
    help=f"The newest N ({NEWEST}; with --why-not or --missed {NEWEST_GROUPED:,}).",
)
@click.option("--all", "is_all", is_flag=True, help="Show all, however many.")
@form_option
@click.pass_obj
def command(
    invocation: Invocation,
    why_not: str | None,
    missed: bool,
    symbol: str | None,
    strategy: str | None,
    since: str | None,
    limit: int | None,
    is_all: bool,
    form: str,
) -> None:
    """List decisions: every order a strategy asked for, and every skip with its reason.

    Shows the newest ones, oldest first, and says how many came before.
    """
    if is_all and limit is not None:
        raise click.UsageError("--all and --limit contradict each other: use one of them")
    if why_not and symbol:
        raise click.UsageError(
            f"--why-not {why_not} and --symbol {symbol} contradict each other: use one of them"
        )
    symbol = (why_not or symbol or "").upper() or None
    is_grouped = why_not is not None or missed
    newest = None if is_all else limit or (NEWEST_GROUPED if is_grouped else NEWEST)
    with open_journal(invocation) as reader:
        asked = partial(
            reader.decisions,
            why_not=why_not is not None,
            missed=missed,
            symbol=symbol,
            strategy=strategy,
            since=(start := since_of(since, reader)),
            newest=newest,
        )
        if is_grouped:
            with asked(ReasonRow) as reasons:
                from bot.journal.reading.folding import group

                groups = group(reasons.rows)
            if symbol and why_not and not missed:
                if not groups:
                    groups.append(_unwatched(invocation, reader, symbol))
                groups += reader.stops(symbol, strategy=strategy, since=start)
            count = sum(each.count for each in groups if each.verdict != STOPPED)
            grouped = Page(count, reasons.earlier, iter(groups))
            _print(invocation, form, grouped, DecisionGroup, has_days=_has_days(groups))
        else:
            last = reader.last_decision_at()
            with asked(DecisionRow) as decisions:
                first = next(decisions.rows, None)  # the oldest
                has_days = first and last and local_date(first.at) < local_date(last)
                rows = chain([first] if first else [], decisions.rows)
                page = replace(decisions, rows=rows)
                _print(invocation, form, page, DecisionRow, has_days=bool(has_days))


def _has_days(groups: Sequence[DecisionGroup]) -> bool:
    """Return whether they are of more than one day."""
    times = (at for each in groups for at in (each.first_at, each.last_at) if at != LASTS)
    return len(set(map(local_date, times))) > 1


def _unwatched(invocation: Invocation, reader: "JournalReader", symbol: str) -> DecisionGroup:
    """Explain why there is no decision at all: no strategy trades the symbol, or none was woken."""
    # Only needed if there is nothing else to show.
    from bot.config.strategies.load import load_sound

    try:
        plans = [each.plan for each in load_sound(readable(invocation)).strategies]
    except OperatorMistake:
        plans = []
    names = [plan.name for plan in plans if symbol in plan.symbols]
    code, why = NOT_POLLED, f"no strategy has {symbol} among its symbols, so it is not polled"
    if names:
        listed = ", ".join(names)
        code, why = NOT_WOKEN, f"{listed} got no quote, depth or bar of it in its hours, or was off"
    at = reader.last_decision_at() or SystemClock().now()
    named = {"strategy": ", ".join(names) or "-", "symbol": symbol, "verdict": STOPPED}
    return DecisionGroup(first_at=at, last_at=at, **named, code=code, count=1, why=why, ranges={})


def _print(
    invocation: Invocation,
    form: str,
    page: Page[DecisionRow] | Page[DecisionGroup],
    kind: type,
    *,
    has_days: bool,
) -> None:
    earlier = f"… {page.earlier:,} earlier: --limit N, or --all" if page.earlier else ""
    also = {"earlier": page.earlier}
    if print_machine(invocation, page.rows, form, what="decisions", kind=kind, also=also):
        if earlier:
            say(invocation, earlier)
        return
    heads = GROUP_HEADS if kind is DecisionGroup else HEADS
    cells_of = partial(_cells, has_days=has_days or form == "wide")
    rows, is_cut = map(cells_of, page.rows), False
    if form == "wide":
        print_table(invocation, heads, rows, limit=UNCUT)
    else:
        at = heads.index(INTERNAL)
        narrow = ([*cells[:at], *cells[at + 1 :]] for cells in rows)
        shown = [*heads[:at], *heads[at + 1 :]]
        is_cut = print_table(invocation, shown, narrow, spare=SPARE[heads])
    rest = "cut to the screen, whole with -o wide" if is_cut else ""
    write_line(" · ".join(filter(None, (counted(page.count, "decision"), earlier, rest))))


def _cells(each: DecisionRow | DecisionGroup, has_days: bool) -> Row:
    """A row of the table, in the columns of `HEADS` or `GROUP_HEADS`."""
    from bot.journal.reading.folding import (
        reason_of,  # this imports the database's library
        unfolded,
    )

    if isinstance(each, DecisionRow):
        time = day_and_clock_of(each.at) if has_days else clock_of(each.at)
        named = (time, each.strategy, each.symbol, WORDS[each.verdict])
        stands, reason = unfolded(each.at, each.numbers, each.why), reason_of(each)
        if stands.count > 1:
            reason = f"{reason} · {stands.count:,}x since {clock_of(stands.first_at)}"
        return (*named, each.code, each.order_id or each.local_id, reason)
    begun = local_date(each.first_at)
    first = f"{begun} {minute_of(each.first_at)}" if has_days else minute_of(each.first_at)
    last = "…" if each.last_at == LASTS else minute_on(begun, each.last_at)
    time = first if first.endswith(last) else f"{first}-{last}"
    named = (time, each.strategy, each.symbol, f"{each.count}x")
    return (*named, WORDS[each.verdict], each.code, each.why)
