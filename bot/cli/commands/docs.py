"""`bot docs`: the pages that come with the program, read where there is no browser."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Final

import click

from bot.cli.command import command
from bot.cli.invocation import Invocation
from bot.cli.show import print_json, print_lines, print_text
from bot.config.shipped import shipped

DOCS: Final = "docs"
_TITLE: Final = re.compile(r"^# +(.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Page:
    """A page: what it is called on the command line, and its file."""

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


@command("docs", example="bot docs journal")
@click.argument("name", metavar="[PAGE]", required=False)
@click.pass_obj
def docs(invocation: Invocation, name: str | None) -> None:
    """Print a page of the documentation, as Markdown; alone, list the pages."""
    pages = {page.name: page for page in _pages()}
    if name is None:
        _list(invocation, pages.values())
        return
    page = pages.get(name.removesuffix(".md").removeprefix(f"{DOCS}/"))
    if page is None:
        close = get_close_matches(name, pages, n=1)
        meant = f" Did you mean {close[0]}?" if close else ""
        raise click.UsageError(f"no page is called {name!r}.{meant} There are: {', '.join(pages)}")
    if invocation.json:
        print_json({"page": page.name, "title": page.title, "text": page.text})
    else:
        print_lines(page.text.splitlines())


def _pages() -> Iterator[Page]:
    for path in sorted(shipped(DOCS).glob("*.md")):
        yield Page(path.stem, path)


def _list(invocation: Invocation, pages: Iterable[Page]) -> None:
    if invocation.json:
        print_json({"pages": [{"page": page.name, "title": page.title} for page in pages]})
        return
    for page in pages:
        print_text(f"{page.name:<14} {page.title}")
