"""What each alert must say, whoever raises it: stages and stories of the tests look at theirs."""

from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

ALERTS: Final[dict[str, dict[str, Any]]] = YAML(typ="safe").load(
    Path(__file__).with_name("alerts.yaml").read_text("utf-8")
)


def require_whole(code: str, text: str) -> None:
    """Say what the bot does now, and what the person must do, in the words of the catalogue."""
    for part in ("now", "do"):
        words = ALERTS[code][part]
        wanted = words if isinstance(words, list) else [words]
        assert any(each and each in text for each in wanted), f"{code}, {part} {wanted}: {text}"
