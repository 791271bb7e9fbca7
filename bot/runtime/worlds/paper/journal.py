"""Keeps paper and real results apart: a journal is of paper mode from its first run, or never.

What a strategy holds is counted from the fills in the journal, whatever broker told of them. One
journal for both would have shares bought on paper sold for real.
"""

from typing import Final

from bot.config.problems import ExitCode, OperatorMistake
from bot.journal.reader import JournalReader

PAPER: Final = "paper"


def require_unmixed(url: str, mode: str) -> None:
    """Raise OperatorMistake where a run in `mode` would mix paper results with others."""
    with JournalReader(url) as reader:
        before = {run.mode for run in reader.runs()}
    others = before - {mode}
    if others and PAPER in before | {mode}:
        text = (
            f"this journal is of mode {min(others)!r}: what was bought there would count as "
            f"held in mode {mode!r}. Give each a state_dir (or journal.url) of its own"
        )
        raise OperatorMistake.of("E-RUN-006", text, ExitCode.CONFIG)
