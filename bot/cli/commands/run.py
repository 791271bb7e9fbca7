"""`bot run`: the daemon in the foreground."""

import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from bot import __version__
from bot.cli import messages
from bot.cli.command import Invocation, define_command
from bot.cli.foreground import ending_while_it_starts, run_in_foreground, with_free_port
from bot.cli.show import ask_shown, is_attended, say, write_line
from bot.cli.target import SQLITE, load, name_demo, require_none_running, running_elsewhere, runs
from bot.cli.telling.languages import ENGLISH, phrases
from bot.cli.telling.wording import span_of
from bot.config.problems import ExitCode, OperatorMistake
from bot.config.settings.places import (
    STATE_KEY,
    STATE_VARIABLE,
    find_config,
    last_bot,
    last_journal,
    state_dir_at_sight,
    state_dir_of,
    was_apart,
)

if TYPE_CHECKING:
    from bot.config.settings.load import Loaded

OWN_FOLDER: Final = (
    "a bot is already running on {state_dir}, and a standby beside it needs its own state_dir: "
    "set BOT_STATE_DIR, or state_dir in its configuration"
)
_PLAYED: Final = {"paper": timedelta(seconds=5)}
"""Modes with simulated 2FA: nobody has to supply a code each morning."""
TRIES: Final = 3
"""How often the value of a raised limit may be mistyped."""


def raised_values(
    _context: click.Context, _option: click.Parameter, given: Sequence[str]
) -> dict[str, str]:
    """Return what `--raised` was given: values by key."""
    for each in given:
        if not all(each.partition("=")):
            text = f"{each!r}: wanted NAME=VALUE, like risk.account.max_order_value=50000000"
            raise click.BadParameter(text)
    return {each.partition("=")[0]: each.partition("=")[2] for each in given}


@define_command("run", example="bot run -c config/bot.yaml --dry-run")
@click.option("--dry-run", is_flag=True, help="Decide, sign and journal, but send no order.")
@click.option("--only", multiple=True, metavar="NAME", help="Only this strategy (repeatable).")
@click.option(
    "--standby", is_flag=True, help="Wait for another bot's journal, and take over from it."
)
@click.option(
    "--raised",
    multiple=True,
    metavar="NAME=VALUE",
    callback=raised_values,
    help="In live mode: a limit that was raised, and to what (repeatable). Asked for if left out.",
)
@click.pass_obj
def command(
    invocation: Invocation,
    dry_run: bool,
    only: tuple[str, ...],
    standby: bool,
    raised: Mapping[str, str],
) -> None:
    """Run the bot until SIGTERM or Ctrl-C, which stop it cleanly.

    A second Ctrl-C ends it at once. `mode` in the configuration says which broker it trades
    with, and whether with real money.
    """
    with ending_while_it_starts(invocation) as keep_halts_in:
        # Help pages need not import what only a run uses.
        from bot.runtime.run_controls import RunOptions

        loaded = _load(invocation)
        keep_halts_in(loaded.state_dir)
        name_demo(invocation, loaded, messages.DEMO_RUN)
        if standby and runs(loaded.state_dir):
            raise OperatorMistake.of(
                "E-RUN-004", OWN_FOLDER.format(state_dir=loaded.state_dir), ExitCode.NOT_RUNNING
            )
        _tell_hidden(invocation, loaded)
        require_none_running(loaded.state_dir)
        if not (dry_run or standby):
            require_none_beside(loaded)
        loaded = with_free_port(invocation, loaded)
        mode = loaded.settings.mode
        money = "REAL ORDERS" if mode == "live" else "nothing here is real money"
        tail = " · dry run, nothing is sent" if dry_run else ""
        say(invocation, f"vnbot {__version__} run · {mode.upper()} · {money}{tail}")
        options = RunOptions(
            dry_run=dry_run,
            only=only,
            typed=_typed(invocation, loaded, only, raised),
            is_standby=standby,
            is_service=_is_service(),
            answer_otp_after=_PLAYED.get(mode),
        )
        end = run_in_foreground(invocation, loaded, options)
    say(invocation, f"stopped by {end.reason} after {span_of(timedelta(seconds=end.seconds))}")


def require_none_beside(loaded: "Loaded") -> None:
    """Raise OperatorMistake if a bot of this configuration trades from another folder and journal:
    each would send its own orders to one account.

    A broker in the process is each bot's own. In one journal only one bot writes, and who sets the
    account in the environment may run one configuration for several.
    """
    from bot.config.settings.sources import is_of_one_terminal  # slow, and loaded by now

    settings, url = loaded.settings, loaded.journal_url
    if settings.is_embedded or is_of_one_terminal(loaded.origin_of("broker.account")):
        return
    for other in running_elsewhere(loaded.path, loaded.state_dir):
        does_trade = last_bot(other).get("mode") == settings.mode and not was_apart(other)
        if does_trade and not _writes_to(other, url):
            message = messages.RUNS_BESIDE.format(other=other, state_dir=loaded.state_dir)
            raise OperatorMistake.of("E-RUN-004", message, ExitCode.NOT_RUNNING)


def _writes_to(state_dir: Path, url: str) -> bool:
    """Whether the bot of a folder writes this journal, or waits for it: a database's address is in
    its heads alone, which a standby has not written yet.
    """
    from bot.journal.writing.heads import label_of, read_heads_file  # slow, and loaded by now

    theirs = last_journal(state_dir)
    if theirs or url.startswith(SQLITE):
        return theirs == url
    newest = read_heads_file(state_dir, url).newest
    return newest is None or newest.journal == label_of(url)


def _tell_hidden(invocation: Invocation, loaded: "Loaded") -> None:
    """Say that a flag or variable hides the `state_dir` of the file: it may be an older one."""
    from bot.config.settings.sources import source_of  # slow, and loaded by now

    unset = {name: text for name, text in os.environ.items() if name.upper() != STATE_VARIABLE}
    named = state_dir_at_sight(loaded.path, unset)
    if named not in {None, loaded.state_dir, state_dir_of(None, loaded.path, unset)}:
        origin = source_of(loaded.origin_of(STATE_KEY))
        facts = {"state_dir": loaded.state_dir, "named": named, "config": loaded.path}
        say(invocation, messages.STATE_HIDDEN.format(origin=origin, **facts))


def _is_service() -> bool:
    return "NOTIFY_SOCKET" in os.environ


def _load(invocation: Invocation) -> "Loaded":
    """Load the settings. What is wrong with those of a service is told to its channels as well: no
    restart mends it, and nobody watches.
    """
    try:
        return load(invocation)
    except OperatorMistake as mistake:
        if _is_service():
            from bot.runtime.notices.notices import tell_unread

            config = invocation.config or find_config(os.environ)
            tell_unread(config, invocation.lang or ENGLISH, mistake)
        raise


def _typed(
    invocation: Invocation, loaded: "Loaded", only: Sequence[str], given: Mapping[str, str]
) -> Mapping[str, str]:
    """Return the values of raised limits, `given` or typed here; the start itself judges them.

    Nobody is asked without a terminal, or if the journal cannot be read, which the start reports.
    """
    from bot.journal.errors import JournalError
    from bot.runtime.start.raised import last_limits, raised_limits
    from bot.runtime.start.strategies import strategies_to_run

    try:
        before = last_limits(loaded) if is_attended(invocation) else {}
    except JournalError:
        return given
    strategies = strategies_to_run(loaded, only).strategies if before else ()
    raised = raised_limits(loaded, strategies, before)
    asked = [each for each in raised if not each.is_typed(given)]
    told, typed = phrases(invocation.lang), dict(given)
    if asked:
        write_line(told(messages.RAISED), err=True)
    for each in asked:
        write_line(f"  {each.key}: {each.old} -> {each.new} ({each.where})", err=True)
    for each in asked:
        for _ in range(TRIES):
            typed[each.key] = ask_shown(told(messages.TYPE_RAISED, key=each.key))
            if each.is_typed(typed):
                break
            write_line(told(messages.NOT_RAISED_SO, new=each.new, where=each.where), err=True)
    return typed
