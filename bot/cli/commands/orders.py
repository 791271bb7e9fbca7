"""`bot orders`: what was ordered, blocked requests among it, and why."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from difflib import get_close_matches
from typing import Final

import click

from bot.cli.command import command
from bot.cli.invocation import Invocation
from bot.cli.paper_words import paper_line
from bot.cli.places import open_journal, readable
from bot.cli.rows import Plain, fields_of, form_option, names_of, print_machine
from bot.cli.show import UNCUT, Row, print_lines, print_table, print_text, say
from bot.cli.since import since_of, since_option
from bot.cli.telling.refusal_words import in_words
from bot.cli.telling.wording import clock_of, counted, day_and_clock_of
from bot.config.problems import OperatorMistake
from bot.config.settings.load import Loaded
from bot.config.strategies.load import strategy_files
from bot.domain.scripted import split
from bot.journal.values import OrderRow

HEADS: Final = (
    "TIME", "ID", "STRATEGY", "SIDE", "SYM", "QTY", "PRICE", "FILLED", "AVG", "STATUS",
    "WHY / REASON",
)  # fmt: skip
WIDE_HEADS: Final = (
    "TIME", "ID", "LOCAL", "STRATEGY", "SIDE", "SYM", "QTY", "TYPE", "PRICE", "FILLED", "AVG",
    "FEE", "TAX", "STATUS", "CODE", "WHY / REASON",
)  # fmt: skip
_NAME_LINE: Final = re.compile(r"""^name:\s*['"]?([\w.-]+)""", re.MULTILINE)
_ASKED: Final = {"partly filled": "partly"}
"""A word of the screen, and the one that `--json` has for it."""
SPARE: Final = ("AVG", "STRATEGY", "WHY / REASON", "PRICE", "FILLED")
"""What is left out first where the screen is too narrow."""
STYLES: Final = {
    "MATCHED_ALL": "green",
    "REJECTED": "red",
    "FAILED": "red",
    "BLOCKED": "yellow",
    "EXPIRED": "yellow",
    "HELD": "yellow",
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
            status=_ASKED.get((status or "").lower(), status),
            symbol=symbol.upper() if symbol else None,
            strategy=strategy,
            open_only=open_only,
        )
        paper = paper_line(reader)
        if strategy and not found:
            _require_strategy(invocation, strategy, reader.strategies())
        if status and not found:
            say(invocation, _statuses(reader.orders(), status))
    machine = [order_fields(row) for row in found]
    names = (*names_of(OrderRow), "outcome")
    if not print_machine(invocation, machine, form, what="orders", names=names):
        _print_table(invocation, found, is_wide=form == "wide")
        print_lines(paper)


def _require_strategy(invocation: Invocation, name: str, written: Sequence[str]) -> None:
    """Refuse a name that neither the journal nor the configuration knows."""
    names = sorted({*written, *_configured(readable(invocation))})
    if name in names:
        return
    close = get_close_matches(name, names, n=1)
    meant = f" Did you mean {close[0]}?" if close else ""
    known = f" There are: {', '.join(names)}" if names else ""
    raise click.UsageError(f"no strategy is called {name!r}.{meant}{known}")


def _configured(loaded: Loaded) -> Iterator[str]:
    """The names in the strategy files, read without loading what they use."""
    try:
        files = strategy_files(loaded)
    except OperatorMistake:  # there are none; the journal may know some all the same
        return
    for file in files:
        named = _NAME_LINE.search(file.read_text(encoding="utf-8", errors="replace"))
        yield named[1] if named else file.stem


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
    words = {"partly": "partly filled"}
    counts = outcomes.most_common()
    listed = ", ".join(f"{count} {words.get(word, word)}" for word, count in counts)
    colon = ": " if listed else ""
    return f"{counted(len(found), 'order')}{colon}{listed} · bot order ID --timeline"


def status_of(row: OrderRow) -> str:
    """The broker's word, and ours for what the broker has no order of or no word for."""
    if rest_of(row):
        return "PARTLY FILLED"
    return "HELD" if row.outcome == "held" else row.status


def rest_of(row: OrderRow) -> str:
    """What became of the rest of a partly filled order that has ended: `rest cancelled`."""
    if row.outcome != "partly" or row.is_open:
        return ""
    return "rest lapsed" if row.state == "EXPIRED" else "rest cancelled"


def ended_words(row: OrderRow) -> str:
    """`ORD3 CANCELLED: 200 filled, 300 cancelled`."""
    filled, cancelled = row.executed_quantity, row.cancelled_quantity
    quantities = f"{filled:,} filled, {cancelled:,} cancelled"
    if not filled:
        quantities = f"{cancelled:,} cancelled unfilled" if cancelled else "nothing filled"
    return f"{row.id} {row.state or row.status}: {quantities}"


def reason_of(row: OrderRow) -> str:
    """Why it is as it is: what refused it, how it ended, else why it was made."""
    if row.order_id is None and row.outcome == "expired":
        return f"not sent: {row.reason or row.why}"
    if rest := rest_of(row):
        return f"{rest} ({row.note})" if row.note else rest
    if row.status == "BLOCKED":
        code = f"({row.code})" if row.code and row.reason else row.code
        return " ".join(part for part in (row.reason, code) if part) or row.why or ""
    words = in_words(row.code, row.reason) if row.outcome == "rejected" else ""
    told = f'{words}: "{row.reason}"' if words and row.reason else words or row.reason
    scripted = split(row.note or "")[1]
    if told and scripted:
        return f"{told} {scripted}"
    return told or row.note or row.why or ""


def _row(row: OrderRow, time_of: Callable[[datetime], str]) -> Row:
    return (
        time_of(row.at),
        row.id,
        row.strategy,
        row.side,
        row.symbol,
        row.quantity,
        row.price,
        row.executed_quantity if row.was_sent else None,
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
