"""`bot docs`: reads the shipped documentation without a browser."""

import re
from difflib import get_close_matches
from typing import Final

import click

from bot.cli.command import Invocation, define_command
from bot.cli.show import print_result
from bot.config.shipped import shipped

DOCS: Final = "docs"
_TITLE: Final = re.compile(r"^# +(.+)$", re.MULTILINE)


@define_command("docs", example="bot docs journal")
@click.argument("name", metavar="[PAGE]", required=False)
@click.pass_obj
def command(invocation: Invocation, name: str | None) -> None:
    """Print a page of the documentation as Markdown; without a name, list the pages."""
    texts = {path.stem: path.read_text("utf-8") for path in sorted(shipped(DOCS).glob("*.md"))}
    headings = {page: _TITLE.search(text) for page, text in texts.items()}
    titles = {page: found[1] if found else page for page, found in headings.items()}
    if name is None:
        listed = [{"page": page, "title": title} for page, title in titles.items()]
        lines = (f"{page:<14} {title}" for page, title in titles.items())
        print_result(invocation, {"pages": listed}, lines)
        return
    page = name.removesuffix(".md").removeprefix(f"{DOCS}/")
    if page not in texts:
        close = get_close_matches(name, texts, n=1)
        meant = f" Did you mean {close[0]}?" if close else ""
        raise click.UsageError(f"no page is called {name!r}.{meant} Pages: {', '.join(texts)}")
    found = {"page": page, "title": titles[page], "text": texts[page]}
    print_result(invocation, found, texts[page].splitlines())
