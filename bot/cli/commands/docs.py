"""`bot docs`: the pages that come with the program, read where there is no browser."""

import re
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Final

import click

from bot.cli.command import Invocation, define_command
from bot.cli.show import print_json, print_lines
from bot.config.shipped import shipped

DOCS: Final = "docs"
_TITLE: Final = re.compile(r"^# +(.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Page:
    """A page: its name on the command line, and its file."""

    name: str
    path: Path

    @property
    def text(self) -> str:
        """The page as it was written, in Markdown."""
        return self.path.read_text(encoding="utf-8")

    @property
    def title(self) -> str:
        """Its first heading."""
        found = _TITLE.search(self.text)
        return found[1] if found else self.name


@define_command("docs", example="bot docs journal")
@click.argument("name", metavar="[PAGE]", required=False)
@click.pass_obj
def command(invocation: Invocation, name: str | None) -> None:
    """Print a page of the documentation, as Markdown; alone, list the pages."""
    pages = {path.stem: Page(path.stem, path) for path in sorted(shipped(DOCS).glob("*.md"))}
    if name is None and invocation.json:
        listed = [{"page": page.name, "title": page.title} for page in pages.values()]
        print_json({"pages": listed})
    elif name is None:
        print_lines(f"{page.name:<14} {page.title}" for page in pages.values())
    else:
        page = pages.get(name.removesuffix(".md").removeprefix(f"{DOCS}/"))
        if page is None:
            close = get_close_matches(name, pages, n=1)
            meant = f" Did you mean {close[0]}?" if close else ""
            raise click.UsageError(f"no page is called {name!r}.{meant} Pages: {', '.join(pages)}")
        if invocation.json:
            print_json({"page": page.name, "title": page.title, "text": page.text})
        else:
            print_lines(page.text.splitlines())
