"""`bot cancel`: cancel open orders by hand, checked and journalled like every other cancel.

The running bot accepts or refuses the request at once; this command waits until the bot has none of
the orders open any more, and looks up in the journal how each has ended. The bot cancels while it
can't write its journal, too, so that is opened only for what the bot's own status does not say.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from time import sleep
from typing import Final

import click

from bot.cli.command import Invocation, define_command
from bot.cli.commands.orders import ended_words, find_order, order_fields
from bot.cli.operating import LOOK_AT_ORDERS_EVERY_S, OPERATOR
from bot.cli.options import reason_option, timeout_option
from bot.cli.show import print_json, say, show_mistake, write_line
from bot.cli.target import (
    Fields,
    ask_bot,
    find_bot,
    no_bot,
    open_journal,
    refusal,
    running_status,
    which_bot,
)
from bot.cli.telling.wording import counted
from bot.clock import monotonic_s
from bot.config.problems import ExitCode, OperatorMistake
from bot.domain.entry import RunState
from bot.domain.order import OrderState
from bot.journal.errors import UnknownOrder
from bot.journal.reading.values import OrderRow

FOLLOWS_S: Final = 5.0
"""How long the journal may take to have the end of an order that the bot knows already."""
TELL_AFTER_S: Final = 8.0
"""By then it says why it still waits; a halt ends its own wait by then."""
_UNKNOWN: Final = (
    "{} UNKNOWN: its answer was lost, so it is not known whether it is at the broker. The cancel is"
    " kept, also over a restart, and goes out as soon as the order shows up there: bot status"
)
_UNREAD: Final = "{} is no longer open; how it ended, once the journal can be read: bot orders"
_WHOLE_IDS: Final = (
    "without the journal an order is named by its whole id, as bot status shows it; or use --all"
)


@define_command("cancel", example="bot cancel last", changes=True)
@click.argument("references", metavar="ID...", nargs=-1)
@click.option("--all", "is_all", is_flag=True, help="Every open order of the bot.")
@reason_option
@timeout_option
@click.pass_obj
def command(
    invocation: Invocation, references: tuple[str, ...], is_all: bool, reason: str, timeout: float
) -> ExitCode:
    """Cancel the open part of orders and wait until the broker's order list shows it.

    The cancel of an order of unknown outcome is kept, and goes out as soon as it shows up.

    ID is ORD…, L-…, a unique part of either, or 'last'. Strategies keep running and may order
    again; to stop that too: bot halt

    Exit code 11 when an order is still open or its outcome is unknown.
    """
    if is_all and references:
        written = " ".join(references)
        raise click.UsageError(f"--all and {written} contradict each other: use one of them")
    if not (is_all or references):
        raise click.UsageError("name the orders to cancel, or use --all")
    running = running_status(invocation)
    if is_all:
        ask_bot(invocation, "cancel", all=True, reason=reason, by=OPERATOR)
        # What was being sent may be open by now, under its other id.
        named = wanted = _all_of(running, running_status(invocation))
        _print_which(invocation, len(named))
    else:
        named = _named(invocation, running, references)
        _print_which(invocation, len(named))
        wanted = [name for name in named if _is_accepted(invocation, name, reason)]
    rows, unknown = _wait_for_ends(invocation, wanted, timeout)
    unread = [name for name in wanted if name not in rows and name not in unknown]
    ended = [row for row in rows.values() if not row.is_open]
    done = sum(row.state == OrderState.CANCELLED or not row.was_sent for row in ended)
    if invocation.json:
        orders = [order_fields(row) for row in rows.values()]
        print_json({"orders": orders, "unknown": unknown, "unread": unread})
    elif not named:
        say(invocation, "the bot has no open orders")
    else:
        lines = [*map(ended_words, rows.values()), *map(_UNKNOWN.format, unknown)]
        for text in (*lines, *map(_UNREAD.format, unread)):
            write_line(text)
        over = f", {len(unread)} no longer open" if unread else ""
        say(invocation, f"{done} of {counted(len(named), 'order')} cancelled{over}")
    if unknown or unread or len(ended) < len(rows):
        return ExitCode.TIMED_OUT
    if done < len(rows):
        return ExitCode.REJECTED
    return ExitCode.REFUSED if len(wanted) < len(named) else ExitCode.DONE


def _open(found: Fields) -> dict[str, str]:
    """Return the broker's id of each own open order, by that id and by ours."""
    own = [row for row in found.each("open_orders") if row.text("intent_id")]
    return {row.text(id_): row.text("order_id") for row in own for id_ in ("order_id", "intent_id")}


def _all_of(*looks: Fields) -> list[str]:
    """Return each own order that may be, or come to be, at the broker, by its id there if known."""
    ids, names = dict[str, str](), list[str]()
    for found in looks:
        ids |= _open(found)
        names += [*_open(found).values(), *found.words("sending"), *found.words("unknown")]
        names += [row.text("intent_id") for row in found.each("held")]
    return list(dict.fromkeys(ids.get(name, name) for name in names))


def _named(invocation: Invocation, running: Fields, references: Sequence[str]) -> list[str]:
    """Return the ids of the orders that are meant. Raises OperatorMistake."""
    ids = _open(running)
    if others := [name for name in references if name not in ids]:
        try:
            with open_journal(invocation) as reader:
                ids |= {name: find_order(reader, name).id for name in others}
        except OperatorMistake as unread:
            if unread.exit_code is ExitCode.DATABASE:
                write_line(_WHOLE_IDS, err=True)
            raise
    return list(dict.fromkeys(ids[name] for name in references))


def _is_accepted(invocation: Invocation, order_id: str, reason: str) -> bool:
    """Ask for a cancel, and print a refusal. Raises OperatorMistake if no bot runs."""
    reply = find_bot(invocation, "cancel", order_id=order_id, reason=reason, by=OPERATOR)
    if reply is None:
        raise no_bot(invocation)
    if not reply.get("ok"):
        show_mistake(refusal(invocation, reply))
        return False
    return True


def _print_which(invocation: Invocation, orders: int) -> None:
    if not invocation.json:
        write_line(f"{which_bot(invocation)}: {counted(orders, 'order')} to cancel")


def _wait_for_ends(
    invocation: Invocation, wanted: Sequence[str], timeout: float
) -> tuple[dict[str, OrderRow], list[str]]:
    """Wait until the bot has none of them open. Return the journal's rows of those that ended or
    are still on their way, as far as it can be read, and those of unknown outcome. Raises
    OperatorMistake.
    """
    begun_s = monotonic_s()
    deadline, has_told = begun_s + timeout, False
    give_up: float | None = None
    while True:
        found = running_status(invocation)
        ids, unknown = _open(found), [each for each in found.words("unknown") if each in wanted]
        ids |= {name: name for name in found.words("sending")}
        if still_open := [ids[name] for name in wanted if name in ids]:
            _require_time(found, still_open, timeout, is_over=monotonic_s() >= deadline)
            if not has_told and monotonic_s() - begun_s >= TELL_AFTER_S:
                has_told = True
                say(
                    invocation,
                    f"{_still(found, still_open, TELL_AFTER_S)}; this waits {timeout:g} s in all",
                )
            sleep(LOOK_AT_ORDERS_EVERY_S)
            continue
        ended = [name for name in wanted if name not in unknown]
        if not ended or found.inner("trouble"):  # it may be the journal, so do not wait for it
            return {}, unknown
        try:
            rows = _rows_of(invocation, ended)
        except OperatorMistake as unread:
            show_mistake(unread)
            return {}, unknown
        give_up = give_up or monotonic_s() + FOLLOWS_S
        over = [name for name, row in rows.items() if not row.is_open]
        if len(over) == len(ended) or monotonic_s() >= give_up:
            return rows, unknown
        sleep(LOOK_AT_ORDERS_EVERY_S)


def _require_time(found: Fields, still_open: Sequence[str], timeout: float, is_over: bool) -> None:
    """Raise OperatorMistake if a cancel waits for a token, or the time for all of them is over."""
    if found.text("state") == RunState.NEEDS_2FA:
        message = f"{', '.join(still_open)}: the cancel is waiting for a 2FA token: bot otp"
        raise OperatorMistake.of("E-2FA-004", message, ExitCode.NEEDS_2FA)
    if is_over:
        message = _still(found, still_open, timeout)
        raise OperatorMistake.of("E-ASK-002", message, ExitCode.TIMED_OUT)


def _still(found: Fields, still_open: Sequence[str], after_s: float) -> str:
    """Name what is still open, and why."""
    why = {row.text("order_id"): row.text("why") for row in found.each("cancels")}
    why |= dict.fromkeys(found.words("sending"), "it is being sent and has no answer yet")
    whys = [f"{order_id} ({why.get(order_id) or 'no cancel'})" for order_id in still_open]
    return f"still open after {after_s:g} s, the bot keeps trying: {'; '.join(whys)}"


def _rows_of(invocation: Invocation, names: Iterable[str]) -> dict[str, OrderRow]:
    """Return the rows that show an end, which the journal may not have yet, or no id yet."""
    rows = dict[str, OrderRow]()
    with open_journal(invocation) as reader:
        for name in names:
            with suppress(UnknownOrder):
                rows[name] = reader.order(name)
    return {name: row for name, row in rows.items() if not (row.is_open and row.order_id)}
