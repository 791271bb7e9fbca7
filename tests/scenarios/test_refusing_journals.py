"""A journal that refuses an answer, instead of being away: the run ends, and the answer is kept."""

from collections.abc import Sequence
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest

from bot.config.problems import OperatorMistake
from bot.config.settings.load import load_settings
from bot.domain.entry import AttemptFinished, Entry, IntentMoved
from bot.domain.order import SendState
from bot.journal.errors import (
    Contradicted,
    Corrupt,
    JournalError,
    OlderCopy,
    Unreachable,
    WrittenByAnother,
)
from bot.journal.writing.emergency import EmergencyJournal
from bot.journal.writing.storing import Store, Verdicts, Write
from bot.runtime.run import run_bot
from bot.runtime.run_controls import RunOptions
from tests.staging import QUIET
from tests.story import Shown, in_process, once, tell, write_project

AWAY = Unreachable("disk I/O error", database="journal.db")
BROKEN = "journal.db: database disk image is malformed"
ANOTHER = "another program has written this journal: entry 9 is the last, and 8 is what we wrote"


def _refuse(
    patch: pytest.MonkeyPatch, error: JournalError, first: JournalError | None = None
) -> None:
    """Have the journal refuse everything from the answer of a place on; first it may be away."""
    found, store, change = list[Entry](), Store.store, Store.change
    errors = chain([first] if first else [], repeat(error))

    def stored(self: Store, writes: Sequence[Write]) -> list[Verdicts]:
        entries = [entry for write in writes for entry in write.entries]
        found.extend(each for each in entries if isinstance(each, AttemptFinished))
        if found:
            raise next(errors)
        return store(self, writes)

    def changed(self: Store, *arguments: Any) -> object:
        if found:
            raise next(errors)
        return change(self, *arguments)

    patch.setattr(Store, "store", stored)
    patch.setattr(Store, "change", changed)


@pytest.mark.parametrize("first", [None, AWAY], ids=["at once", "once it answers again"])
@pytest.mark.parametrize(
    ("error", "raised", "said"),
    [
        (Corrupt(BROKEN), OperatorMistake, "E-DB-003"),
        (WrittenByAnother(ANOTHER), OperatorMistake, "E-DB-004"),
        (OlderCopy(last=7, reached=8), OperatorMistake, "E-DB-013"),
        (Contradicted("order_results has no row ORD1"), Contradicted, "no row ORD1"),
    ],
    ids=lambda it: type(it).__name__ if isinstance(it, JournalError) else "",
)
async def test_an_answer_that_the_journal_refuses_is_kept_beside_it_and_owned_by_the_next_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: JournalError,
    raised: type[Exception],
    said: str,
    first: JournalError | None,
) -> None:
    config = write_project(tmp_path, scenario=QUIET, strategies=[once(params={"price": 26_000})])
    loaded, shown = load_settings(config), Shown()
    with monkeypatch.context() as broken:
        _refuse(broken, error, first)
        with pytest.raises(raised, match=said):
            await run_bot(loaded, RunOptions(), shown, make=in_process)
    kept = EmergencyJournal(loaded.state_dir).read().entries

    again = await tell(config, minutes=4)

    assert [each.outcome for each in kept if isinstance(each, AttemptFinished)] == ["ACCEPTED"]
    [text] = [text for text in shown.troubles if "before the journal had taken" in text]
    assert "L-0001" in text
    assert "in the emergency journal, which the next start takes over" in text
    [took] = [text for name, text in again.shown.rows if name == "emergency"]
    assert took.startswith(f"took over {len(kept)} of {len(kept)}")
    assert SendState.UNKNOWN not in [it.to_state for it in again.shown.all(IntentMoved)]
    assert again.posts() == ["L-0001"]
    assert len(again.broker_orders()) == 1
