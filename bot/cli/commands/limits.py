"""`bot limits`: how much of each limit is used, and what it allows."""

from collections.abc import Sequence
from typing import Final

import click

from bot.cli import messages
from bot.cli.command import Invocation, define_command
from bot.cli.show import UNCUT, print_json, print_table, say, write_line
from bot.cli.target import Fields, find_status, readable_journal, which_bot
from bot.config.problems import ExitCode, OperatorMistake
from bot.config.strategies.source_files import changed_files
from bot.domain.entry import RunState
from bot.domain.local_time import day_and_clock_of

HEADS: Final = ("OF", "LIMIT", "USED", "ALLOWED", "LEFT")
_AN_ORDER: Final = "per order"
_FLOOR: Final = "min_cash"
"""The only limit that is a minimum."""
_OF_ACCOUNT: Final = {
    _FLOOR,
    "max_account_age_s",
    "max_gross_of_nav",
    "max_loss_per_day",
    "max_position_value",
}
"""Unknown before the account has been read; orders have no own value for these."""


@define_command("limits", example="bot limits --json")
@click.pass_obj
def command(invocation: Invocation) -> None:
    """Show how much of each limit is used: of the account, each strategy and symbol, and the
    request quota.

    Without a running bot: what the next start would begin with, according to the journal.
    """
    status = find_status(invocation)
    is_running = status.text("state") != RunState.STOPPED
    if is_running and "limits" not in status:
        message = f"{which_bot(invocation)}: {messages.NO_LIMITS_YET}"
        raise OperatorMistake.of("E-CTL-005", message, ExitCode.REFUSED)
    if is_running:
        found, rate = status.each("limits"), status.inner("rate")
        title = f"{which_bot(invocation)}: how much of each limit is used now"
    else:
        # The strategies are slow to import, and not needed if a bot is running.
        from bot.journal.writing.heads import read_heads_file
        from bot.runtime.without_bot import limits_without_bot

        with readable_journal(invocation) as loaded:
            rows_at_rest, has_run = limits_without_bot(loaded)
        found, rate = [Fields(each) for each in rows_at_rest], Fields()
        title = "no bot is running: what its next start begins with, according to the journal"
        if not has_run:
            title = "no bot has run here yet: none of its limits is used"
            if heads := read_heads_file(loaded.state_dir, loaded.journal_url).kept:
                title = messages.NO_JOURNAL_ANY_MORE.format(at=day_and_clock_of(heads[-1].at))
    if invocation.json:
        print_json({"running": is_running, "limits": found, "rate": rate if is_running else None})
        return
    write_line(title)
    rows: list[Sequence[str]] = []
    for each in found:
        used, allowed, key = each.maybe_whole("used"), each.maybe_whole("allowed"), each.text("key")
        unit, scope = each.text("unit"), f"{each.text('scope')} {each.text('of')}".strip()
        is_of_orders = used is None and key not in _OF_ACCOUNT
        shown = _AN_ORDER if is_of_orders else _shown(used, unit)
        if allowed is None:
            rows.append((scope, key, shown, "no limit", ""))
            continue
        least, left = "at least " if key == _FLOOR else "", ""
        if used is not None:
            left = _left(allowed, used) if key == _FLOOR else _left(used, allowed)
        rows.append((scope, key, shown, least + _shown(allowed, unit), left))
    if is_running:
        sent, most = rate.whole("used"), rate.whole("per_minute")
        rows.append(
            ("request quota", "requests_per_minute", f"{sent:,}", f"{most:,}", _left(sent, most))
        )
    print_table(invocation, HEADS, rows, limit=UNCUT)
    say(invocation, "to change a limit: risk: in bot.yaml, or limits: in a strategy's file")
    hashes = [status.inner("files"), *(each.inner("files") for each in status.each("strategies"))]
    if changed := list(dict.fromkeys(name for each in hashes for name in changed_files(each))):
        say(invocation, messages.CHANGED.format(files=", ".join(changed)))


def _left(used: int, allowed: int) -> str:
    return f"{max(0, allowed - used):,}"


def _shown(amount: int | None, unit: str) -> str:
    """`2%`, `1 order`, `5 s`; units other than `VND` and `s` are plurals."""
    if amount is None:
        return "?"
    if unit == "ppm":
        return f"{amount / 10_000:.8g}%"
    return f"{amount:,} {unit.removesuffix('s') if amount == 1 and unit != 's' else unit}"
