"""The `--json` output of each command according to `docs/json.md`, and a check of answers against
it.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ruamel.yaml import YAML

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "json.md"
BOT: Final = {"name": "text", "mode": "text", "config": "text"}
RUNNING: Final = {
    *("bot status", "bot limits", "bot balance", "bot quote FPT", "bot session", "bot otp"),
    *("bot session --jobs", "bot reconcile"),
}
"""Answered by a running bot, whose tests check them (`commands/test_operating.py`)."""
OPEN: Final = {"map": dict, "list": list}
"""For these, the page does not list keys or rows."""
KINDS: Final[dict[str, tuple[type, ...]]] = {
    "text": (str,),
    "int": (int,),
    "number": (int, float),
    "yes/no": (bool,),
}


def declared() -> dict[str, object]:
    """The shape of each command's answer, by the command as it is typed."""
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    found: dict[str, object] = {}
    for block in blocks:
        found |= YAML(typ="safe").load(block)
    found.pop("bot")
    return found


def differences(command: str, printed: str) -> list[str]:
    """Return where a command's printed object differs from the page."""
    shape, found = declared()[command], json.loads(printed)
    own = differing(found["bot"], BOT, "bot") if "bot" in found else []
    return [*own, *differing(found, shape, command)]


def differing(found: object, shape: object, where: str) -> Iterator[str]:
    """Yield each place below `where` with another key or type than the shape."""
    if isinstance(shape, dict) and isinstance(found, dict):
        wanted = {str(name).removesuffix("?"): each for name, each in shape.items()}
        needed = {str(name) for name in shape if not str(name).endswith("?")}
        for name in sorted(needed - found.keys()):
            yield f"{where}.{name} is missing"
        for name, value in found.items():
            if name in wanted:
                yield from differing(value, wanted[name], f"{where}.{name}")
            else:
                yield f"{where}.{name} is not on the page"
    elif isinstance(shape, list) and isinstance(found, list):
        for number, value in enumerate(found):
            yield from differing(value, shape[0], f"{where}[{number}]")
    elif isinstance(shape, str):
        may_be_null, kind = shape.endswith("?"), shape.removesuffix("?")
        if found is None and may_be_null:
            return
        is_kind = isinstance(found, OPEN.get(kind) or KINDS[kind])
        if not is_kind or (isinstance(found, bool) and kind != "yes/no"):
            yield f"{where} is {found!r}, not {shape}"
    else:
        yield f"{where} is {found!r}, not {shape}"
