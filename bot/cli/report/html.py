"""Pages of HTML that need nothing else: no network, no folder beside them.

Every text passes `_shown` on its way into a page: it is made visible, and escaped by Jinja2. What
is ours (style, script, library) a template calls safe; the scripts are named by their hashes in the
page's policy, so that the browser runs them and nothing else. A file is written beside its place
and renamed.
"""

import hashlib
import os
from base64 import b64encode
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Final

from jinja2 import Environment, FunctionLoader, StrictUndefined

from bot import __version__
from bot.domain.visible import visible

_HERE: Final = files("bot.cli.report")
LIBRARY: Final = "lightweight-charts.js"


def template(name: str) -> str:
    """Return a file of ours, as it is."""
    return (_HERE / "templates" / name).read_text("utf-8")


def library() -> str:
    """Return the vendored chart library."""
    return (_HERE / "static" / LIBRARY).read_text("utf-8")


def render(name: str, *, scripts: Sequence[str] = (), **fields: object) -> str:
    """Return a page from its template; of scripts only these may run in it."""
    environment = Environment(
        loader=FunctionLoader(template),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    hashes = (b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    policy = " ".join(f"'sha256-{each}'" for each in hashes) or "'none'"
    style = template("page.css")
    return environment.get_template(name).render(
        version=__version__, policy=policy, scripts=scripts, style=style, **fields
    )


def write_whole(path: Path, text: str) -> None:
    """Write a file, whole or not at all."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def _shown(value: object) -> object:
    """Make a text visible; what a template calls safe (Jinja2 marks it) is left as it is."""
    is_outside = isinstance(value, str) and not hasattr(value, "__html__")
    return visible(str(value)) if is_outside else value
