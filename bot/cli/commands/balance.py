"""`bot balance`: cash, amounts due, shares and net assets, ours and the broker's side by side."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

import click

from bot.cli.command import Invocation, define_command
from bot.cli.options import form_option
from bot.cli.rows import csv_lines, print_csv
from bot.cli.show import UNCUT, aligned, json_text, print_json, print_lines, width, write_json
from bot.cli.target import Fields, find_bot, readable_journal, refusal, which_bot
from bot.cli.telling.wording import span_of
from bot.clock import SystemClock
from bot.domain.local_time import day_and_clock_of

HEADS: Final = ("SYM", "SHARES", "SELLABLE", "COMING", "LAST", "AT", "VALUE")
UNTOLD: Final = "  (the broker does not say which prices, dividends and debt are in it)"
MONEY_HEADS: Final = ("", "OURS", "BROKER", "DIFFERENCE")
"""Amounts known to both sides; those known to one side only have a separate line."""


@define_command("balance", example="bot balance --json")
@form_option
@click.pass_obj
def command(invocation: Invocation, form: str) -> None:
    """Show cash, buying power, what is due and when, the value of shares, and net assets.

    From the running bot, or from the journal if none is running. OURS applies our fills to the
    numbers that last agreed; BROKER was read at the time shown.
    """
    if invocation.json and form != "table":
        raise click.UsageError(f"--json and -o {form} contradict each other: use one of them")
    reply = find_bot(invocation, "balance")
    if reply is None:
        # The engine is slow to import, and not needed if a bot is running.
        from bot.runtime.without_bot import balances_without_bot

        with readable_journal(invocation) as loaded:
            at, rows = balances_without_bot(loaded)
        found = [Fields(each) for each in rows]
    elif reply.get("ok"):
        at, found = reply.instant("at") or SystemClock().now(), reply.each("balances")
    else:
        raise refusal(invocation, reply)
    is_running = reply is not None
    if invocation.json:
        print_json({"running": is_running, "at": at.isoformat(), "balances": found})
    elif form == "jsonl":
        for each in found:
            write_json(json_text(each))
    elif form == "csv":
        rows = [row for each in found for row in plain_rows(each)]
        print_csv(csv_lines(rows, ("account", "what", "of", "amount", "at")))
    else:
        who = which_bot(invocation) if is_running else "no bot is running: from the journal"
        print_lines([f"{who} · {day_and_clock_of(at)}"])
        limit = UNCUT if form == "wide" else width()
        for each in found:
            print_lines(_lines(each, at, limit))
        if not found:
            print_lines(["no account has been read yet: run the bot first"])


def _lines(each: Fields, at: datetime, limit: int) -> Iterator[str]:
    broker, difference, read_at = each.inner("broker"), each.inner("difference"), each["read_at"]
    read = each.instant("read_at") or at
    yield ""
    old = f"{span_of(at - read)} ago" if at > read else "now"
    yield f"account {each.text('account')} · the broker's numbers as of {_when(read_at)}, {old}"
    compared = []
    for name, key in (("cash", "cash"), ("net assets", "net_assets")):
        apart = difference.maybe_whole(key)
        shown = "?" if apart is None else f"{apart:+,}"
        compared.append((name, each.maybe_whole(key), broker.maybe_whole(key), shown))
    yield from aligned(MONEY_HEADS, compared, limit=limit)
    yield f"buying power {each.whole('buying_power'):,}"
    for due in each.each("due"):
        shares = [f"{symbol} {count:,} shares" for symbol, count in due.inner("shares").items()]
        money = [f"{due.whole('cash'):,} VND"] if due.whole("cash") else []
        yield f"due {_when(due['at'])}: {' · '.join([*money, *shares])}"
    held = each.each("holdings")
    if held:
        yield ""
        cells = []
        for row in held:
            last_at = row.instant("last_at")
            counts = (row.whole("total"), row.whole("sellable"), row.whole("receiving"))
            price = (row.maybe_whole("last"), day_and_clock_of(last_at) if last_at else None)
            cells.append((row.text("symbol"), *counts, *price, row.maybe_whole("value")))
        yield from aligned(HEADS, cells, limit=limit)
        yield f"shares are worth {each.whole('holdings_value'):,}"
    yield from why_apart(each)


def why_apart(each: Fields) -> Iterator[str]:
    """Explain the difference between the broker's net assets and ours, to the VND; for what cannot
    be known, give the reason.
    """
    difference, broker = each.inner("difference"), each.inner("broker")
    in_cash, due, rest = (difference.whole(name) for name in ("cash", "due", "rest"))
    unpriced = [row.text("symbol") for row in each.each("holdings") if row.get("last") is None]
    counts = f"what the broker counts besides cash ({broker.whole('other'):,})"
    if unpriced:
        yield f"net assets are not known: no price for {', '.join(unpriced)} was ever read"
    elif in_cash or due or rest:
        yield f"net assets differ by {difference.whole('net_assets'):+,}, that is"
    if in_cash:
        yield f"{in_cash:+,} cash: bot reconcile explains it, or reports it as a break"
    if due:
        yield f"{due:+,} sale proceeds still due: the broker's figure leaves them out"
    if rest:
        worth = each.whole("holdings_value") + (0 if due else each.whole("due_cash"))
        ours = "shares" if due or not each.whole("due_cash") else "shares and proceeds due"
        yield f"{rest:+,} {counts}, less"
        yield f"  our {ours} by LAST ({worth:,})"
        yield UNTOLD


def plain_rows(each: Fields) -> Iterator[dict[str, object]]:
    """The same as rows for a spreadsheet: what, whose, how much, when."""
    account, read_at = each.text("account"), each.get("read_at")

    def row(what: str, of: str, amount: object, at: object) -> dict[str, object]:
        return {"account": account, "what": what, "of": of, "amount": amount, "at": at}

    for name in ("cash", "net_assets"):
        yield row(name, "ours", each.get(name), read_at)
        yield row(name, "broker", each.inner("broker").get(name), read_at)
    yield row("buying_power", "ours", each.get("buying_power"), read_at)
    for due in each.each("due"):
        yield row("due", "cash", due.get("cash"), due.get("at"))
        for symbol, count in due.inner("shares").items():
            yield row("due_shares", symbol, count, due.get("at"))
    for held in each.each("holdings"):
        yield row("shares", held.text("symbol"), held.get("total"), read_at)
        yield row("value", held.text("symbol"), held.get("value"), held.get("last_at"))


def _when(text: object) -> str:
    return day_and_clock_of(datetime.fromisoformat(str(text)))
