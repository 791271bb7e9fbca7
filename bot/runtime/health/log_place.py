"""Where the log of a bot is, also for who only reads it."""

from pathlib import Path
from typing import Final

from bot.config.settings.load import Loaded
from bot.config.settings.places import below

LOG_FILE: Final = "bot.log"


def log_file(loaded: Loaded) -> Path:
    """Where the log of a bot is."""
    file = loaded.settings.log.file
    return below(loaded.base_dir, file) if file else loaded.state_dir / LOG_FILE
