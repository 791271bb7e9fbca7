"""`bot orders`: what was ordered, blocked requests included, and why."""

import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

import click

from bot.cli.command import Invocation, define_command
from bot.cli.options import form_option, since_of, since_option, strategy_option, symbol_option
from bot.cli.rows import Plain, fields_of, paper_line, print_machine
from bot.cli.show import UNCUT, print_lines, print_table, say, write_line
from bot.cli.target import open_journal, readable
from bot.cli.telling.wording import counted, known_reason
from bot.config.problems import ExitCode, OperatorMistake
from bot.domain.local_time import clock_of, day_and_clock_of
from bot.domain.scripted import split
from bot.journal.errors import AmbiguousOrder, UnknownOrder
from bot.journal.reading.values import OrderRow

if TYPE_CHECKING:
    from bot.journal.reading.reader import JournalReader

HEADS: Final = (
    "TIME", "ID", "STRATEGY", "SIDE", "SYM", "QTY", "PRICE", "FILLED", "AVG", "STATUS",
    "WHY / REASON",
)  # fmt: skip
WIDE_HEADS: Final = (
    "TIME", "ID", "LOCAL", "STRATEGY", "SIDE", "SYM", "QTY", "TYPE", "PRICE", "FILLED", "AVG",
    "FEE", "TAX", "STATUS", "CODE", "WHY / REASON",
)  # fmt: skip
_NEVER_PLACED: Final = frozenset({"NOT_PLACED", "EOD_ABSENT"})
SPARE: Final = ("AVG", "STRATEGY", "WHY / REASON", "PRICE", "FILLED")
"""Columns dropped first if the screen is too narrow."""
STYLES: Final = {
    "MATCHED_ALL": "green",
    "REJECTED": "red",
    "FAILED": "red",
    "BLOCKED": "yellow",
    "EXPIRED": "yellow",
    "HELD": "yellow",
    "UNKNOWN": "bright_red",
}
_NAME_LINE: Final = re.compile(r"""^name:\s*['"]?([\w.-]+)""", re.MULTILINE)
_OUTCOMES: Final = {"partly": "partly filled"}
"""A word of `--json`, and the one that the screen uses for it."""


@define_command("orders", example="bot orders --open --since 1d")
@click.option(
    "--open", "open_only", is_flag=True, help="Only those that may still trade or be sent."
)
@click.option("--status", metavar="WORD", help="SENT, REJECTED, BLOCKED, filled, partly …")
@symbol_option
@strategy_option
@since_option
@form_option
@click.pass_obj
def command(
    invocation: Invocation,
    open_only: bool,
    status: str | None,
    symbol: str | None,
    strategy: str | None,
    since: str | None,
    form: str,
) -> None:
    """List orders. Those that never got an answer come first."""
    asked = {shown: outcome for outcome, shown in _OUTCOMES.items()}
    with open_journal(invocation) as reader:
        found = reader.orders(
            since=since_of(since, reader),
            status=asked.get((status or "").lower(), status),
            symbol=symbol.upper() if symbol else None,
            strategy=strategy,
            open_only=open_only,
        )
        paper = paper_line(reader)
        if strategy and not found:
            from bot.config.strategies.load import strategy_files  # only needed after a mistake

            known_names = set(reader.strategies())
            loaded = readable(invocation)
            with suppress(OperatorMistake):  # no file; the journal may know some anyway
                for file in strategy_files(loaded):
                    named = _NAME_LINE.search(file.read_text(encoding="utf-8", errors="replace"))
                    known_names.add(named[1] if named else file.stem)
            names = sorted(known_names)
            if strategy not in names:
                close = get_close_matches(strategy, names, n=1)
                meant = f" Did you mean {close[0]}?" if close else ""
                known = f" Known: {', '.join(names)}" if names else ""
                raise click.UsageError(f"no strategy is called {strategy!r}.{meant}{known}")
        if status and not found:
            words = {word for row in reader.orders() for word in (row.status, row.outcome)}
            listed = f"; found: {', '.join(sorted(words))}" if words else ""
            say(invocation, f"no order has status {status!r}{listed}")
    if not print_machine(invocation, found, form, what="orders", kind=OrderRow, more=("outcome",)):
        _print_table(invocation, found, is_wide=form == "wide")
        print_lines(paper)


def _print_table(invocation: Invocation, found: Sequence[OrderRow], *, is_wide: bool) -> None:
    has_days = len({row.trading_date for row in found}) > 1
    if is_wide:
        rows = [
            (
                *(day_and_clock_of(row.at), row.id, row.local_id, row.strategy, row.side),
                *(row.symbol, row.quantity, row.order_type, row.price, row.executed_quantity),
                *(row.average_price, row.fee, row.tax, status_of(row), row.code, reason_of(row)),
            )
            for row in found
        ]
        print_table(invocation, WIDE_HEADS, rows, styles=STYLES, limit=UNCUT)
    else:
        time_of = day_and_clock_of if has_days else clock_of
        narrow = [
            (
                *(time_of(row.at), row.id, row.strategy, row.side, row.symbol, row.quantity),
                *(row.price, row.executed_quantity if row.was_sent else None, row.average_price),
                *(status_of(row), reason_of(row)),
            )
            for row in found
        ]
        print_table(invocation, HEADS, narrow, styles=STYLES, spare=SPARE)
    counts = Counter(row.outcome for row in found).most_common()
    listed = ", ".join(f"{count} {_OUTCOMES.get(word, word)}" for word, count in counts)
    total = f"{counted(len(found), 'order')}{': ' if listed else ''}{listed}"
    write_line(f"{total} · bot order ID --timeline")


def find_order(reader: "JournalReader", reference: str) -> OrderRow:
    """Find an order by ORD…, L-…, a unique part of either, or 'last'. Raises OperatorMistake."""
    try:
        return reader.order(reference)
    except UnknownOrder as error:
        message = f"{error}. To list all: bot orders"
        raise OperatorMistake.of("E-ORD-001", message, ExitCode.USAGE) from error
    except AmbiguousOrder as error:
        message = f"'{reference}' could be {', '.join(error.candidates)}: type more of it"
        raise OperatorMistake.of("E-ORD-002", message, ExitCode.USAGE) from error


def order_fields(row: OrderRow) -> Plain:
    """An order as JSON: its columns and its one-word outcome."""
    return {**fields_of(row), "outcome": row.outcome}


def status_of(row: OrderRow) -> str:
    """The broker's status, or ours if the broker has no order or no status."""
    if rest_of(row):
        return "PARTLY FILLED"
    return "HELD" if row.outcome == "held" else row.status


def rest_of(row: OrderRow) -> str:
    """What became of the remainder of a partly filled order that has ended: `rest cancelled`."""
    if row.outcome != "partly" or row.is_open:
        return ""
    return "rest lapsed" if row.state == "EXPIRED" else "rest cancelled"


def ended_words(row: OrderRow) -> str:
    """`ORD3 CANCELLED: 200 filled, 300 cancelled`, `L-0007 not sent: cancelled by ann`."""
    if row.order_id is None and row.outcome == "expired":
        return f"{row.id} {reason_of(row)}"
    filled, cancelled = row.executed_quantity, row.cancelled_quantity
    quantities = f"{filled:,} filled, {cancelled:,} cancelled"
    if not filled:
        quantities = f"{cancelled:,} cancelled unfilled" if cancelled else "nothing filled"
    return f"{row.id} {row.state or row.status}: {quantities}"


def reason_of(row: OrderRow) -> str:
    """Why the order is in its state: the refusal, the end, or else the reason for it."""
    if row.send_state in _NEVER_PLACED:
        return f"never placed; its answer was lost: {row.reason}"
    if row.order_id is None and row.outcome == "expired":
        return f"not sent: {row.reason or row.why}"
    if rest := rest_of(row):
        return f"{rest} ({row.note})" if row.note else rest
    if row.status == "BLOCKED":
        code = f"({row.code})" if row.code and row.reason else row.code
        return " ".join(part for part in (row.reason, code) if part) or row.why or ""
    words = known_reason(row.code, row.reason) if row.outcome == "rejected" else ""
    reason = f'{words}: "{row.reason}"' if words and row.reason else words or row.reason
    scripted = split(row.note or "")[1]
    if reason and scripted:
        return f"{reason} {scripted}"
    return reason or row.note or row.why or ""
