"""How paper results are told from real ones wherever they are listed."""

from collections.abc import Sequence
from typing import Final

from bot.journal.reader import JournalReader

PAPER: Final = "PAPER: no order went to the exchange; these were matched here ({model})"


def paper_line(reader: JournalReader) -> Sequence[str]:
    """Return the line under a list of paper results, nothing under one of a broker's own."""
    stamp = reader.fidelity()
    return () if stamp is None else (PAPER.format(model=stamp.partition(" · ")[0]),)
