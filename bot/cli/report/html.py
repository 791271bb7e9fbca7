"""Self-contained HTML pages: no network, no other files.

Every text passes through `_shown` on its way into a page: control characters become visible, and
Jinja2 escapes it. A template marks our own parts (style, script, library) as safe; the page's
policy lists the scripts by hash, so that the browser runs nothing else. A file is written under
another name and renamed.
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
    """Return one of our files unchanged."""
    return (_HERE / "templates" / name).read_text("utf-8")


def library() -> str:
    """Return the vendored chart library."""
    return (_HERE / "static" / LIBRARY).read_text("utf-8")


def render(name: str, *, scripts: Sequence[str] = (), **fields: object) -> str:
    """Return a page from its template; only these scripts may run in it."""
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
    """Write a file atomically."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def _shown(value: object) -> object:
    """Make a text visible; what a template marks as safe (through Jinja2) is unchanged."""
    is_outside = isinstance(value, str) and not hasattr(value, "__html__")
    return visible(str(value)) if is_outside else value
