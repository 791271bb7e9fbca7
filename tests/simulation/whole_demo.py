"""The demo's whole hour at full speed: it shows what it promises, each time alike.

    python -m tests.simulation.whole_demo [times]      twice

Of each hour: the kinds of lines that the README names are there, every order and every order not
sent has its reason, and the lines are those of the hour before, to the letter.
"""

import asyncio
import re
import sys
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bot.cli.telling.narrator import Narrator
from bot.config.settings.load import load_settings
from bot.config.shipped import DEMO, shipped
from bot.domain.entry import Decision, Verdict
from bot.journal.reading.reader import JournalReader
from bot.runtime.run import run_bot
from bot.runtime.run_controls import RunOptions
from tests.story import Shown, in_process

HOUR: Final = timedelta(hours=1)
ANSWER_AFTER: Final = timedelta(minutes=5)
PROMISED: Final = frozenset(
    {"SESSION", "QUOTE", "SKIP", "DECIDE", "CHECK", "ORDER", "FILL", "PARTIAL", "CANCEL"}
    | {"REJECT", "BLOCK", "LIMIT", "PAUSED", "RESUMED", "PULSE", "DEMO"}
)
_SESSION_LINE: Final = re.compile(r"[0-2][0-9](?::[0-5][0-9]){2} ([A-Z0-9]+)")
_TOOK: Final = re.compile(r"\(\d+ ms\)")


async def hour(folder: Path) -> tuple[list[str], list[str]]:
    """Play the demo; return its lines, and the orders and decisions without a reason."""
    loaded = load_settings(
        shipped(DEMO), overrides={"state_dir": str(folder), "sandbox.speed": "max"}
    )
    shown = Shown()
    options = RunOptions(run_for=HOUR, answer_otp_after=ANSWER_AFTER)
    await run_bot(loaded, options, shown, make=in_process)
    shown.require_no_fault()
    narrator = Narrator()
    lines = [line for entry in shown.entries for line in narrator.lines_of(entry)]
    with JournalReader(loaded.journal_url) as reader:
        unexplained = [row.id for row in reader.orders() if not row.why]
    unexplained += [
        f"{each.strategy} {each.symbol} {each.code}"
        for each in shown.all(Decision)
        if not each.why or (each.verdict is not Verdict.PASSED and not each.code)
    ]
    return [_TOOK.sub("(N ms)", line) for line in lines], unexplained


def main(times: int = 2) -> int:
    """Play so many hours; 0 when all is as it was promised."""
    first: list[str] = []
    for number in range(1, times + 1):
        with TemporaryDirectory() as folder:
            lines, unexplained = asyncio.run(hour(Path(folder)))
        kinds = {found[1] for line in lines if (found := _SESSION_LINE.match(line))}
        first = first or lines
        changed = [line for line, other in zip(lines, first, strict=False) if line != other]
        wrong = sorted(PROMISED - kinds) + unexplained + changed
        sys.stdout.write(f"demo {number}: {len(lines)} lines of {len(kinds)} kinds")
        sys.stdout.write(f", wrong: {wrong[:5]}\n" if wrong else ", each order with its reason\n")
        if wrong or len(lines) != len(first):
            return 1
    return 0 if times > 0 else 1


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
