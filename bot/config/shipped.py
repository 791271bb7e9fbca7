"""Where the files that come with the project lie: configuration, strategies, migrations, docs.

In a checkout they are at its top level; in an installed wheel under `bot/_shipped/`.
"""

from pathlib import Path
from typing import Final

import bot

DEMO: Final = "config/demo/bot.yaml"
_PACKAGE: Final = Path(bot.__file__).parent


def shipped_dir() -> Path:
    """Return the folder that holds `config/`, `strategies/`, `migrations/` and `docs/`.

    A checkout is known by its `pyproject.toml`; the folder beside an installed package may hold a
    `config/` of somebody else.
    """
    checkout = _PACKAGE.parent
    return checkout if (checkout / "pyproject.toml").is_file() else _PACKAGE / "_shipped"


def shipped(name: str) -> Path:
    """Return a shipped file or folder, like `config/symbols.csv`. Raises FileNotFoundError."""
    path = shipped_dir() / name
    if not path.exists():
        raise FileNotFoundError(f"{name} did not come with this installation; looked for {path}")
    return path
