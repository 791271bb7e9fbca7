"""The state directory: made for its owner alone when a bot first needs it."""

from pathlib import Path
from typing import Final

from bot.config.problems import ExitCode, OperatorMistake

LEDGER: Final = "sandbox.jsonl"
"""The embedded broker's own memory, beside the journal. The bot never reads it."""


def ledger_path(state_dir: Path) -> Path:
    """Where the embedded sandbox keeps its ledger."""
    return state_dir / LEDGER


def make_state_dir(path: Path) -> None:
    """Make the folder unless it is there. Raises OperatorMistake, whatever prevents it."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        if isinstance(error, FileExistsError):
            reason = "something that is no folder is there"
        text = (
            f"{path}: this folder, for journal and state, cannot be made ({reason}). Check "
            "permissions and free space there, or choose another: --state-dir DIR, or state_dir in "
            "bot.yaml"
        )
        raise OperatorMistake.of("E-SYS-001", text, ExitCode.DATABASE) from error
