"""`bot reconcile`: compares journal, day order book and account.

A running bot shows what it last read; without one this command reads the broker. Neither changes
anything. Accepted breaks are journalled with their reason by the running bot; a break prevents it
from beginning a day, but not from running.
"""

import asyncio
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from time import sleep
from typing import Final

import click

from bot.cli.command import Invocation, define_command
from bot.cli.operating import LOOK_AT_ORDERS_EVERY_S, OPERATOR
from bot.cli.options import reason_option, timeout_option
from bot.cli.show import aligned, print_json, print_lines, say, width, write_line
from bot.cli.target import Fields, ask_bot, find_bot, readable_journal, refusal, which_bot
from bot.cli.telling.wording import counted, span_of
from bot.clock import monotonic_s
from bot.config.problems import ExitCode, OperatorMistake
from bot.domain.local_time import clock_of, day_and_clock_of, local_date

ORDERS_MAX: Final = 5
"""How many orders of a break are named; --json has all of them."""
FOLLOWS_S: Final = 5.0
"""How long the account's next read may take after a fill, unless the quota delays it."""
HEADS: Final = ("ACCOUNT", "WHAT", "STRATEGIES", "JOURNAL", "BROKER", "DIFFERENCE")
LOST: Final = ("SENDING", "UNKNOWN", "REACHED", "AMBIGUOUS")
"""How places stand that may be at the broker without a row here."""


@define_command("reconcile", example="bot reconcile --apply")
@click.option("--apply", "does_apply", is_flag=True, help="Read now, merge, and compare again.")
@click.option("--accept", "accepted", metavar="ID", help="Accept a break; needs --reason.")
@reason_option
@timeout_option
@click.pass_obj
def command(
    invocation: Invocation, does_apply: bool, accepted: str | None, reason: str, timeout: float
) -> ExitCode:
    """Compare the journal with the broker's order book, shares and cash.

    A difference that nothing explains is a break, B-…: the next day does not begin until it is
    accepted. Orders placed elsewhere are listed; the bot never touches them. Exit code 12 while
    something does not match.
    """
    if does_apply and accepted:
        raise click.UsageError("--apply and --accept: use one at a time")
    invocation.does_change = does_apply or accepted is not None
    if accepted is not None:
        if not reason.strip():
            raise click.UsageError("accepting a break needs a reason: --reason TEXT")

        def is_gone(now: Fields) -> bool:
            return accepted not in {row.text("break_id") for row in now.each("breaks")}

        ask_bot(invocation, "accept", break_id=accepted, reason=reason, by=OPERATOR)
        found = _wait(invocation, timeout, is_gone)
    elif does_apply:
        asked_at = ask_bot(invocation, "read_all", by=OPERATOR).text("asked_at")

        def is_read(now: Fields) -> bool:
            read = min(now.text("book_read_at"), now.text("account_read_at"))
            return read >= asked_at and not now.words("doubts")

        found = _wait(invocation, timeout, is_read)
    else:
        reply = find_bot(invocation, "reconcile")
        if reply is not None and not reply.get("ok"):
            raise refusal(invocation, reply)
        found = _without_bot(invocation) if reply is None else reply.inner("compared")
        give_up = monotonic_s() + FOLLOWS_S
        while reply is not None and _may_follow(found) and monotonic_s() < give_up:
            sleep(LOOK_AT_ORDERS_EVERY_S)
            found = ask_bot(invocation, "reconcile").inner("compared")
    if invocation.json:
        print_json(found)
    else:
        if invocation.does_change:
            done = "read and merged" if does_apply else f"{accepted} accepted: {reason}"
            write_line(f"{which_bot(invocation)}: {done}")
        print_lines(_lines(found))
    return _judged(invocation, found)


def _judged(invocation: Invocation, found: Fields) -> ExitCode:
    """Say whether everything agrees."""
    if unread := _unread(found):
        say(invocation, f"{unread}. What is above may be old")
        return ExitCode.DIFFERS
    if not (found.text("book_read_at") and found.text("account_read_at")):
        say(invocation, "orders or account have not been read yet: try again, or use --apply")
        return ExitCode.DIFFERS
    named = found.each("breaks"), found.words("doubts"), found.each("not_listed")
    if any((*named, found.each("gone"), found.words("rows"))):
        return ExitCode.DIFFERS
    if _may_follow(found):
        say(
            invocation,
            "an order may have filled since the account was read, or one that works explains it: "
            "--apply reads both again",
        )
        return ExitCode.DIFFERS
    if lost := [each.split()[0] for each in found.words("unsettled") if each.endswith(LOST)]:
        say(invocation, f"what became of {', '.join(lost)} is not known yet: bot order {lost[0]}")
        return ExitCode.DIFFERS
    say(invocation, "everything agrees")
    return ExitCode.DONE


def _unread(found: Fields) -> str:
    """Return which of the two reads fails or is overdue; empty: none."""
    told = list[str]()
    for row in found.each("unread"):
        age_s, detail = row.maybe_whole("age_s"), row.text("detail")
        ago = "has not been read yet"
        if age_s is not None:
            ago = f"was last read {span_of(timedelta(seconds=age_s))} ago"
        fails = f" and can't be read: {detail}" if detail else ""
        told.append(f"{row.text('read')} {ago}{fails}")
    return "; ".join(told)


def _may_follow(found: Fields) -> bool:
    """Return whether numbers differ that no second read has confirmed: perhaps a fill
    on its way.
    """
    is_sure = found.each("breaks") or found.words("doubts")
    return not is_sure and any(row.whole("difference") for row in found.each("numbers"))


def _without_bot(invocation: Invocation) -> Fields:
    # The client and the strategies are slow to import, and not needed if a bot is running.
    from bot.runtime.without_bot import compare_without_bot

    with readable_journal(invocation) as loaded:
        if loaded.settings.mode == "paper":  # the broker's account is not the journal's
            message = (
                f"no bot is running on {loaded.state_dir}, and in paper mode the bot itself plays "
                "orders and account: there is nothing to compare with. Start it: bot run"
            )
            raise OperatorMistake.of("E-RUN-001", message, ExitCode.NOT_RUNNING)
        say(invocation, "no bot is running: asking the broker directly")
        return Fields(asyncio.run(compare_without_bot(loaded)))


def _wait(invocation: Invocation, timeout: float, is_done: Callable[[Fields], bool]) -> Fields:
    """Poll until it is done: a difference needs a second read before it counts."""
    deadline = monotonic_s() + timeout
    while True:
        found = ask_bot(invocation, "reconcile").inner("compared")
        if is_done(found):
            return found
        if monotonic_s() >= deadline:
            why = "; ".join(filter(None, (_unread(found), *found.words("doubts"))))
            message = f"not done after {timeout:g} s{f': {why}' if why else ''}"
            raise OperatorMistake.of("E-ASK-002", message, ExitCode.TIMED_OUT)
        sleep(LOOK_AT_ORDERS_EVERY_S)


def _when(at: datetime, now: datetime | None) -> str:
    """Return the time, with its date if that is not today's."""
    is_today = now is None or local_date(at) == local_date(now)
    return clock_of(at) if is_today else day_and_clock_of(at)


def _lines(found: Fields) -> Iterator[str]:
    rows = [
        (
            *(row.text("account"), row.text("symbol") or "cash", row.whole("own") or None),
            *(row.whole("ours"), row.whole("theirs"), f"{row.whole('difference'):+,}"),
        )
        for row in found.each("numbers")
    ]
    yield from aligned(HEADS, rows, limit=width())
    read = (found.instant("book_read_at"), found.instant("account_read_at"))
    now = found.instant("at")
    book, account = (_when(at, now) if at else "never" for at in read)
    yield f"order book read {book}, account {account}"
    for row in found.each("breaks"):
        named = row.words("rests_on")
        more = f" and {len(named) - ORDERS_MAX} more" if len(named) > ORDERS_MAX else ""
        orders = ", ".join(named[:ORDERS_MAX]) + more
        yield f"break {row.text('break_id')}  {row.text('text')}{f' ({orders})' if orders else ''}"
    for text in found.words("doubts"):
        yield f"in doubt  {text}: it will be read again"
    for row in found.each("gone"):
        what = f"{row.whole('shares'):,} {row.text('symbol')} that strategies count"
        yield f"gone      {what} and account {row.text('account')} lacks: bot status"
    for text in found.words("rows"):
        yield f"differs   {text}: bot order {text.split()[0]}"
    for text in found.words("unsettled"):
        yield f"unknown   {text}"
    missing = {row.text("order_id"): row for row in found.each("not_listed")}
    for order_id, row in missing.items():
        name = f"{row.text('intent_id')} ({order_id})" if row.text("intent_id") else order_id
        size = f"{row.text('side')} {row.whole('quantity'):,} {row.text('symbol')}"
        where = "open in the journal, in no row of the order book: look in the broker's app"
        yield f"missing   {name} {size}: {where}"
    for row in found.each("external"):
        if row.text("order_id") in missing:
            continue
        size = f"{row.text('side')} {row.whole('quantity'):,} {row.text('symbol')}"
        done = f"{row.whole('executed'):,} executed, {row.text('state')}"
        yield f"elsewhere {row.text('order_id')} {size}: {done}"
    if breaks := found.each("breaks"):
        name = breaks[0].text("break_id")
        yield f'{counted(len(breaks), "break")}: bot reconcile --accept {name} --reason "…"'
