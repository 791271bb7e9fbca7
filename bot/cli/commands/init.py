"""`bot init DIR`: a configuration of one's own, and what to run next."""

import shlex
from pathlib import Path
from typing import Final

import click

from bot.cli import messages
from bot.cli.command import Invocation, define_command
from bot.cli.show import print_result
from bot.cli.strategy_templates import (
    IGNORED,
    SCHEMA_FILE,
    TEMPLATES,
    class_name,
    class_text,
    config_text,
    strategy_text,
    write_new,
)
from bot.config.masking import masked_url

_FILE: Final = "sqlite"
"""The word for the default: a file in the folder."""
_NAMES: Final = {"sma": "sma-fpt", "depth": "depth-hpg", "blank": "mine"}


@define_command("init", example="bot init ~/mybot")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), metavar="DIR")
@click.option("--template", type=click.Choice(TEMPLATES), default="sma", help="Which strategy.")
@click.option("--db", metavar="sqlite|URL", help="The journal; sqlite: a file in DIR/var.")
@click.pass_obj
def command(invocation: Invocation, folder: Path, template: str, db: str | None) -> None:
    """Write bot.yaml, a strategy, its schema and a .gitignore into DIR.

    No file is overwritten.
    """
    # Slow to import, and help pages do not need them.
    from bot.config.settings.load import JOURNAL_URLS, is_journal_url, load_settings
    from bot.config.strategies.model import schema_text

    if db is not None and masked_url(db) != db:
        raise click.BadParameter(messages.URL_HOLDS_TOO_MUCH, param_hint="--db")
    if db is not None and db != _FILE and not is_journal_url(db):
        wanted = f"wanted {_FILE}, {JOURNAL_URLS}; found {db!r}"
        raise click.BadParameter(wanted, param_hint="--db")
    name = _NAMES[template]
    files = {
        folder / "bot.yaml": config_text(None if db == _FILE else db),
        folder / "strategies" / f"{name}.yaml": strategy_text(template, name, f"../{SCHEMA_FILE}"),
        folder / SCHEMA_FILE: schema_text(),
        folder / ".gitignore": IGNORED,
    }
    if template == "blank":
        files[folder / "strategies" / f"{class_name(name)[1]}.py"] = class_text(name)
    write_new(files)
    load_settings(folder / "bot.yaml", environment={})
    config = shlex.quote(str(folder / "bot.yaml"))
    strategy = shlex.quote(str(folder / "strategies" / f"{name}.yaml"))
    steps = [
        f"bot strategy check {strategy}",
        f"bot config check -c {config}",
        f"bot run -c {config}",
    ]
    written = [str(path) for path in files]
    lines = [*(f"wrote {path}" for path in written), "next:", *(f"  {step}" for step in steps)]
    print_result(invocation, {"written": written, "next": steps}, lines)
