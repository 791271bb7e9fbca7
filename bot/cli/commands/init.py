"""`bot init DIR`: a configuration of one's own, and what to run next."""

import shlex
from pathlib import Path
from typing import Final

import click

from bot.cli import messages
from bot.cli.command import command
from bot.cli.invocation import Invocation
from bot.cli.show import print_json, print_text
from bot.cli.strategy_templates import (
    IGNORED,
    SCHEMA_FILE,
    TEMPLATES,
    class_name,
    class_text,
    config_text,
    schema_file,
    strategy_text,
    write_new,
)
from bot.config.masking import masked_url
from bot.config.settings.load import JOURNAL_URLS, is_journal_url, load_settings

_FILE: Final = "sqlite"
"""The word for what there is without `--db`: a file in the folder."""
_NAMES: Final = {"sma": "sma-fpt", "depth": "depth-hpg", "blank": "mine"}


@command("init", example="bot init ~/mybot")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), metavar="DIR")
@click.option("--template", type=click.Choice(TEMPLATES), default="sma", help="Which strategy.")
@click.option("--db", metavar="sqlite|URL", help="The journal; sqlite: a file in DIR/var.")
@click.pass_obj
def init(invocation: Invocation, folder: Path, template: str, db: str | None) -> None:
    """Write bot.yaml, a strategy, its schema and a .gitignore into DIR.

    Nothing that is there is written over.
    """
    if db is not None and masked_url(db) != db:
        raise click.BadParameter(messages.URL_HOLDS_TOO_MUCH, param_hint="--db")
    if db is not None and db != _FILE and not is_journal_url(db):
        wanted = f"wanted {_FILE}, {JOURNAL_URLS}; found {db!r}"
        raise click.BadParameter(wanted, param_hint="--db")
    files = _files(folder, template, None if db == _FILE else db)
    write_new(files)
    load_settings(folder / "bot.yaml", environment={})
    steps = next_steps(folder, template)
    if invocation.json:
        print_json({"written": [str(path) for path in files], "next": steps})
        return
    for path in files:
        print_text(f"wrote {path}")
    print_text("next:")
    for step in steps:
        print_text(f"  {step}")


def next_steps(folder: Path, template: str) -> list[str]:
    """Return the three commands that come next; they work as they stand."""
    config = shlex.quote(str(folder / "bot.yaml"))
    file = shlex.quote(str(folder / "strategies" / f"{_NAMES[template]}.yaml"))
    return [
        f"bot strategy check {file}",
        f"bot config check -c {config}",
        f"bot run -c {config}",
    ]


def _files(folder: Path, template: str, db: str | None) -> dict[Path, str]:
    name = _NAMES[template]
    strategy = strategy_text(template, name, f"../{SCHEMA_FILE}")
    files = {
        folder / "bot.yaml": config_text(db),
        folder / "strategies" / f"{name}.yaml": strategy,
        **schema_file(folder),
        folder / ".gitignore": IGNORED,
    }
    if template == "blank":
        files[folder / "strategies" / f"{class_name(name)[1]}.py"] = class_text(name)
    return files
