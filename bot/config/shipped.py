"""Finds the files that come with the project: configuration, strategies, migrations, docs.

In a checkout they are at its top level; in an installed wheel under `bot/_shipped/`.
"""

from contextlib import suppress
from pathlib import Path
from typing import Final

import bot
from bot.config.problems import OperatorMistake

DEMO: Final = "config/demo/bot.yaml"
_PACKAGE: Final = Path(bot.__file__).parent
_SCENARIOS: Final = _PACKAGE / "sandbox" / "scenarios"


def shipped_dir() -> Path:
    """Return the folder that holds `config/`, `strategies/`, `migrations/` and `docs/`.

    A checkout is recognised by its `pyproject.toml`; beside an installed package there may be an
    unrelated `config/`.
    """
    checkout = _PACKAGE.parent
    return checkout if (checkout / "pyproject.toml").is_file() else _PACKAGE / "_shipped"


def shipped(name: str) -> Path:
    """Return a shipped file or folder, like `config/symbols.csv`. Raises FileNotFoundError."""
    path = shipped_dir() / name
    if not path.exists():
        raise FileNotFoundError(f"{name} did not come with this installation; looked for {path}")
    return path


def find_scenario(name: str, base_dir: Path) -> Path:
    """Return the file of a scenario: a shipped name, else a path relative to `base_dir`."""
    with suppress(OSError):  # a name longer than any file's
        for path in (_SCENARIOS / f"{name}.yaml", base_dir / name):
            if path.is_file():
                return path
    message = (
        f"no scenario '{name}': shipped ones are {', '.join(scenario_names())}; or name a file"
    )
    raise OperatorMistake.of("E-CFG-001", message)


def scenario_names() -> list[str]:
    return sorted(path.stem for path in _SCENARIOS.glob("*.yaml"))
