"""`bot db check` and `bot db migrate`: the journal's database and its schema."""

from typing import TYPE_CHECKING

import click

from bot.cli.command import Invocation, define_command, define_group
from bot.cli.rows import fields_of
from bot.cli.show import print_result, say
from bot.cli.target import load, readable
from bot.config.masking import masked_url
from bot.config.problems import ExitCode, OperatorMistake

if TYPE_CHECKING:
    from bot.config.settings.load import Loaded
    from bot.journal.schema import SchemaState


@define_group("db", example="bot db check")
def command() -> None:
    """Look after the journal's database."""


@define_command("check", group=command, example="bot db check")
@click.pass_obj
def check(invocation: Invocation) -> None:
    """Say whether the journal can be reached and used. Changes nothing."""
    state = _show(invocation, readable(invocation))
    if not state.is_current:
        raise OperatorMistake.of("E-DB-002", _what_to_do(state), ExitCode.DATABASE)


@define_command("migrate", group=command, example="bot db migrate --dry-run")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@click.pass_obj
def migrate(invocation: Invocation, dry_run: bool) -> None:
    """Create the journal, or bring it up to date, in one transaction."""
    # Here and below: a database's library is slow to import, and no help page needs it.
    from bot.journal.schema import migrate as migrate_schema
    from bot.runtime.journal_file import journal_errors

    loaded = load(invocation)
    if not dry_run:
        with journal_errors(loaded.origin_of("journal.url")):
            migrate_schema(loaded.journal_url)
    state = _show(invocation, loaded)
    if not state.is_known:
        raise OperatorMistake.of("E-DB-002", _what_to_do(state), ExitCode.DATABASE)
    if dry_run and not state.is_current:
        change = f"from {state.found or 'nothing'} to {state.wanted}"
        say(invocation, f"would bring it {change}; nothing was changed")


def _show(invocation: Invocation, loaded: "Loaded") -> "SchemaState":
    from bot.journal.schema import check as check_schema
    from bot.runtime.journal_file import journal_errors

    with journal_errors(loaded.origin_of("journal.url")):
        state = check_schema(loaded.journal_url)
    shown = masked_url(loaded.journal_url)
    found = {"url": shown, **fields_of(state), "is_current": state.is_current}
    text = f"{shown}: schema {state.found or 'none'}, this program needs {state.wanted}"
    print_result(invocation, found, [text])
    return state


def _what_to_do(state: "SchemaState") -> str:
    from bot.runtime.journal_file import FOREIGN

    if state.found is None:
        return "this database has no journal yet: bot db migrate"
    if not state.is_known:
        return f"the journal has schema {state.found}. {FOREIGN}"
    return f"the journal has schema {state.found}: bot db migrate"
