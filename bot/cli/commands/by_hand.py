"""`bot modify` and `bot cancel`: one order by hand, with the checks and the journal of every other.

The running bot takes the ask or refuses it at once; what comes of it is waited for here.
"""

from collections.abc import Iterator, Mapping, Sequence
from time import sleep
from typing import Final

import click

from bot.cli.command import command
from bot.cli.commands.operate import OPERATOR, reason_option
from bot.cli.commands.orders import ended_words, order_fields
from bot.cli.commands.status import find_status
from bot.cli.fields import Fields, each, instant, text, whole
from bot.cli.invocation import Invocation
from bot.cli.lengths import Length
from bot.cli.places import Reply, ask_bot, find_bot, no_bot, open_journal, refusal, which_bot
from bot.cli.show import print_json, print_text, say, show_mistake
from bot.cli.telling.wording import counted, minute_of
from bot.clock import monotonic_s
from bot.config.problems import ExitCode, OperatorMistake
from bot.domain.entry import RunState
from bot.domain.order import OrderState
from bot.journal.errors import AmbiguousOrder, UnknownOrder
from bot.journal.reader import JournalReader
from bot.journal.values import OrderRow

LOOK_EVERY_S: Final = 0.1

_EXIT_CODES: Final[Mapping[str, ExitCode]] = {
    "DONE": ExitCode.DONE,
    "BLOCKED": ExitCode.REFUSED,
    "REFUSED": ExitCode.REJECTED,
    "NOT_DONE": ExitCode.REJECTED,
    "ENDED": ExitCode.REJECTED,
    "DIFFERS": ExitCode.DIFFERS,
}
"""What each verdict on an amendment means to a script."""
_NO_TOKEN: Final = ("OTP_SESSION_", "TWO_FACTOR")

timeout_option: Final = click.option(
    "--timeout", type=Length(), default=60.0, metavar="TIME", help="At most how long to wait."
)


@command("modify", example="bot modify last --limit 27050", changes=True)
@click.argument("reference", metavar="ID")
@click.option("--limit", type=click.IntRange(min=1), metavar="P", help="The new limit, in VND.")
@click.option("--qty", type=click.IntRange(min=1), metavar="N", help="The new total, in shares.")
@reason_option
@timeout_option
@click.pass_obj
def modify(
    invocation: Invocation,
    reference: str,
    limit: int | None,
    qty: int | None,
    reason: str,
    timeout: float,
) -> ExitCode:
    """Change the limit or the total quantity of an open order: one of them at a time.

    ID is ORD…, L-…, a unique part of either, or 'last'. Off unless risk.allow_amend is true.
    """
    if (limit is None) is (qty is None):
        raise click.UsageError("give one of --limit and --qty: one field is changed at a time")
    _running_status(invocation)
    with open_journal(invocation) as reader:
        order_id = _found(reader, reference).id
    request = {"order_id": order_id, "limit": limit, "quantity": qty}
    taken = ask_bot(invocation, "modify", **request, reason=reason, by=OPERATOR)
    amend = _wait_for_verdict(invocation, order_id, text(taken, "asked_at"), timeout)
    if invocation.json:
        print_json(amend)
    else:
        print_text(f"{which_bot(invocation)}: {_amend_words(amend)}")
    return _exit_code(amend)


def _wait_for_verdict(
    invocation: Invocation, order_id: str, asked_at: str, timeout: float
) -> Fields:
    deadline = monotonic_s() + timeout
    while monotonic_s() < deadline:
        for amend in each(_running_status(invocation), "amends"):
            is_ours = text(amend, "order_id") == order_id and text(amend, "asked_at") == asked_at
            if is_ours and text(amend, "verdict"):
                return amend
        sleep(LOOK_EVERY_S)
    message = f"no verdict after {timeout:g} s; it goes on: bot order {order_id} --timeline"
    raise OperatorMistake.of("E-ASK-002", message, ExitCode.TIMED_OUT)


def _amend_words(amend: Fields) -> str:
    change = f"{text(amend, 'field')} {whole(amend, 'old'):,} to {whole(amend, 'new'):,}"
    return f"{text(amend, 'order_id')} {change}: {text(amend, 'verdict')} · {text(amend, 'text')}"


def _exit_code(amend: Fields) -> ExitCode:
    lacks_token = text(amend, "code").startswith(_NO_TOKEN)
    return ExitCode.NEEDS_2FA if lacks_token else _EXIT_CODES[text(amend, "verdict")]


# ------------------------------------------------------------------------------------------- cancel


@command("cancel", example="bot cancel last", changes=True)
@click.argument("references", metavar="ID...", nargs=-1)
@click.option("--all", "is_all", is_flag=True, help="Every open order of the bot.")
@reason_option
@timeout_option
@click.pass_obj
def cancel(
    invocation: Invocation,
    references: tuple[str, ...],
    is_all: bool,
    reason: str,
    timeout: float,
) -> ExitCode:
    """Cancel the open part of orders and wait until the broker's rows show it.

    ID is ORD…, L-…, a unique part of either, or 'last'. Strategies go on and may order again; to
    stop that too: bot halt
    """
    if is_all and references:
        named = " ".join(references)
        raise click.UsageError(f"--all and {named} contradict each other: give one of them")
    if not (is_all or references):
        raise click.UsageError("name the orders to cancel, or say --all")
    running = _running_status(invocation)
    with open_journal(invocation) as reader:
        if is_all:
            wanted = [text(row, "order_id") for row in each(running, "open_orders") if _is_own(row)]
            ask_bot(invocation, "cancel", all=True, reason=reason, by=OPERATOR)
            _print_which(invocation, len(wanted))
            refused: list[Reply] = []
        else:
            wanted = list(dict.fromkeys(_found(reader, each_one).id for each_one in references))
            _print_which(invocation, len(wanted))
            refused = list(_ask_each(invocation, wanted, reason))
        rows = _wait_for_ends(invocation, reader, wanted, timeout)
    _print_rows(invocation, rows, asked=len(rows) + len(refused))
    return _worst([*map(_exit_code_of, rows), *(ExitCode.REFUSED for _ in refused)])


def _print_which(invocation: Invocation, orders: int) -> None:
    if not invocation.json:
        print_text(f"{which_bot(invocation)}: {counted(orders, 'order')} to cancel")


def _is_own(row: Fields) -> bool:
    return bool(text(row, "intent_id"))


def _ask_each(invocation: Invocation, wanted: list[str], reason: str) -> Iterator[Reply]:
    """Ask for each; show what is refused, take it out of what is wanted, and yield it."""
    for order_id in list(wanted):
        reply = find_bot(invocation, "cancel", order_id=order_id, reason=reason, by=OPERATOR)
        if reply is None:
            raise no_bot(invocation)
        if not reply.get("ok"):
            show_mistake(refusal(invocation, reply))
            wanted.remove(order_id)
            yield reply


def _wait_for_ends(
    invocation: Invocation, reader: JournalReader, wanted: Sequence[str], timeout: float
) -> list[OrderRow]:
    deadline = monotonic_s() + timeout
    while True:
        rows = [reader.order(order_id) for order_id in wanted]
        still_open = [row.id for row in rows if row.is_open]
        if not still_open:
            return rows
        found = _running_status(invocation)
        if text(found, "state") == RunState.NEEDS_2FA:
            message = f"{', '.join(still_open)}: the cancel waits for a 2FA token: bot otp"
            raise OperatorMistake.of("E-2FA-004", message, ExitCode.NEEDS_2FA)
        if monotonic_s() >= deadline:
            message = f"still open after {timeout:g} s: {', '.join(_whys(found, still_open))}"
            raise OperatorMistake.of("E-ASK-002", message, ExitCode.TIMED_OUT)
        sleep(LOOK_EVERY_S)


def _whys(found: Fields, still_open: Sequence[str]) -> Iterator[str]:
    """Name the orders, and until when the exchange takes no cancels."""
    until = {text(row, "order_id"): instant(row, "queued_until") for row in each(found, "cancels")}
    for order_id in still_open:
        queued = until.get(order_id)
        yield f"{order_id} (waits until {minute_of(queued)})" if queued else order_id


def _print_rows(invocation: Invocation, rows: Sequence[OrderRow], asked: int) -> None:
    if invocation.json:
        print_json({"orders": [order_fields(row) for row in rows]})
        return
    if asked == 0:
        say(invocation, "no order of the bot is open")
        return
    for row in rows:
        print_text(ended_words(row))
    done = sum(row.state == OrderState.CANCELLED for row in rows)
    say(invocation, f"{counted(done, 'order')} cancelled of {asked}")


def _exit_code_of(row: OrderRow) -> ExitCode:
    is_done = row.state == OrderState.CANCELLED
    return ExitCode.DONE if is_done else ExitCode.REJECTED


def _worst(codes: Sequence[ExitCode]) -> ExitCode:
    return max(codes, default=ExitCode.DONE)


# ------------------------------------------------------------------------------- what both do


def _running_status(invocation: Invocation) -> Fields:
    """Return the status of the running bot. Raises OperatorMistake when none runs."""
    found = find_status(invocation)
    if text(found, "state") == RunState.STOPPED:
        raise no_bot(invocation)
    return found


def _found(reader: JournalReader, reference: str) -> OrderRow:
    try:
        return reader.order(reference)
    except UnknownOrder as error:
        message = f"{error}. All of them: bot orders"
        raise OperatorMistake.of("E-ORD-001", message, ExitCode.USAGE) from error
    except AmbiguousOrder as error:
        message = f"'{reference}' could be {', '.join(error.candidates)}: give more of it"
        raise OperatorMistake.of("E-ORD-002", message, ExitCode.USAGE) from error
