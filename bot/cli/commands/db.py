"""`bot db check`, `migrate` and `copy`: the journal's database and its schema."""

from typing import TYPE_CHECKING

import click

from bot.cli.command import Invocation, define_command, define_group
from bot.cli.rows import fields_of
from bot.cli.show import print_result, say
from bot.cli.target import load, readable, which_bot
from bot.config.masking import masked_url
from bot.config.problems import ExitCode, OperatorMistake

if TYPE_CHECKING:
    from bot.config.settings.load import Loaded
    from bot.journal.database.schema import SchemaState


@define_group("db", example="bot db check")
def command() -> None:
    """Manage the journal's database."""


@define_command("check", group=command, example="bot db check")
@click.pass_obj
def check(invocation: Invocation) -> None:
    """Check that the journal can be reached and used. Changes nothing."""
    from bot.journal.database.schema import why_unwritable
    from bot.runtime.journal_file import journal_errors

    loaded = readable(invocation)
    state = _show(invocation, loaded)
    if not state.is_current:
        raise OperatorMistake.of("E-DB-002", _what_to_do(state), ExitCode.DATABASE)
    with journal_errors(loaded.origin_of("journal.url")):
        why = why_unwritable(loaded.journal_url)
    if why:
        text = f"the journal can be read, but not written: {why}"
        raise OperatorMistake.of("E-DB-009", text, ExitCode.DATABASE)


@define_command("migrate", group=command, example="bot db migrate --dry-run")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@click.pass_obj
def migrate(invocation: Invocation, dry_run: bool) -> None:
    """Create the journal, or bring it up to date, in one transaction. No bot may run meanwhile."""
    # Here and below: a database's library is slow to import, and help pages do not need it.
    from bot.runtime.journal_file import journal_errors
    from bot.runtime.upkeep import migrate_alone

    loaded = load(invocation)
    if not dry_run:
        with journal_errors(loaded.origin_of("journal.url")):
            migrate_alone(loaded.journal_url)
    state = _show(invocation, loaded)
    if not state.is_known:
        raise OperatorMistake.of("E-DB-002", _what_to_do(state), ExitCode.DATABASE)
    if dry_run and not state.is_current:
        change = f"from {state.found or 'nothing'} to {state.wanted}"
        say(invocation, f"would migrate {change}; nothing was changed")


@define_command(
    "copy", group=command, changes=True, example="bot db copy --to postgresql+psycopg://bot@db/bot"
)
@click.option("--to", "target", metavar="URL", required=True, help="A database without a journal.")
@click.pass_obj
def copy(invocation: Invocation, target: str) -> None:
    """Copy the journal into an empty database, SQLite to PostgreSQL or back: all of it or nothing.

    No bot may run in the meantime. A password belongs in ~/.pgpass or PGPASSWORD, never on the
    command line. Afterwards, set journal.url to the copy.
    """
    from bot.cli.upkeep import progress
    from bot.config.settings.load import JOURNAL_URLS, is_journal_url, unverified, unverified_host
    from bot.config.settings.sources import process_environment
    from bot.journal.database.engines import parse
    from bot.journal.errors import Contradicted, Corrupt
    from bot.journal.upkeep.copying import rows_in
    from bot.runtime.journal_file import journal_errors
    from bot.runtime.upkeep import copy_to

    loaded = readable(invocation, is_source=True)
    if not is_journal_url(target):
        raise click.BadParameter(f"wanted {JOURNAL_URLS}", param_hint="--to")
    if parse(target).password:
        text = (
            "no password on the command line, where others can read it: use ~/.pgpass or PGPASSWORD"
        )
        raise click.BadParameter(text, param_hint="--to")
    if host := unverified_host(target, process_environment()):
        if loaded.settings.mode == "live":
            raise click.BadParameter(unverified(host), param_hint="--to")
        say(invocation, f"warning: --to: {unverified(host)}")
    shown = masked_url(target)
    say(invocation, f"{which_bot(invocation)}: {masked_url(loaded.journal_url)} to {shown}")
    with journal_errors(loaded.origin_of("journal.url")):
        length = rows_in(loaded.journal_url)
    with journal_errors("--to"):
        try:
            with progress("copy", length) as step:
                report = copy_to(loaded, target, step)
        except Contradicted as error:
            text = f"{shown}: {error}. Name an empty database"
            raise OperatorMistake.of("E-JNL-005", text, ExitCode.USAGE) from error
        except Corrupt as error:
            text = f"nothing was copied: {error}. Look at the journal: bot journal verify"
            raise OperatorMistake.of("E-JNL-001", text, ExitCode.DIFFERS) from error
    facts = {"to": shown, "rows": length, "events": report.events, "orders": report.orders}
    text = f"{length:,} rows, {report.events:,} events, chain whole. Now set journal.url: {shown}"
    print_result(invocation, facts, [text])


def _show(invocation: Invocation, loaded: "Loaded") -> "SchemaState":
    from bot.journal.database.schema import check as check_schema
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
