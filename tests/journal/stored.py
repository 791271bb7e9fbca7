"""Journals on SQLite that several tests look at: written once, copied for who changes them."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path


def written_once(template: Path, folder: Path, write: Callable[[str], Awaitable[None]]) -> Path:
    """The journal that `write` makes of a copy of the migrated file `template`, at rest."""
    file = Path(shutil.copy(template, folder / "journal.db"))

    async def run() -> None:
        await write(url_of(file))

    asyncio.run(run())
    return file


def url_of(file: Path) -> str:
    return f"sqlite:///{file}"
