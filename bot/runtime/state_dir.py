"""The state directory: made for its owner alone when a bot first needs it."""

from pathlib import Path

from bot.config.problems import ExitCode, OperatorMistake


def make_state_dir(path: Path) -> None:
    """Make the folder unless it is there. Raises OperatorMistake, whatever stands in the way."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError as error:
        raise _cannot_be_made(path, "something that is no folder is there") from error
    except OSError as error:
        raise _cannot_be_made(path, (error.strerror or str(error)).lower()) from error


def _cannot_be_made(path: Path, reason: str) -> OperatorMistake:
    text = (
        f"{path}: this folder, for journal and state, cannot be made ({reason}). Check permissions "
        "and free space there, or choose another: --state-dir DIR, or state_dir in bot.yaml"
    )
    return OperatorMistake.of("E-SYS-001", text, ExitCode.DATABASE)
