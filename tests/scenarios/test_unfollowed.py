"""A journal that does not follow what was written to it: the run ends, and has told why."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.config.settings.load import load_settings
from bot.domain.entry import AttemptFinished, AttemptStarted, Entry
from bot.domain.errors import InvariantBroken
from bot.journal.writing.storing import Store, Verdicts, Write
from tests.by_hand import Ask, tell_by_hand
from tests.notice_server import notice_server
from tests.staging import QUIET
from tests.story import once, write_project

pytestmark = pytest.mark.wire
ASK = Ask(timedelta(seconds=5), {"do": "status"})


def _breaking_at(is_it: Callable[[Entry], bool]) -> Callable[..., list[Verdicts]]:
    """Have the journal find that it does not follow, from the write of such an entry on."""
    found, store = list[Entry](), Store.store

    def stored(self: Store, writes: Sequence[Write]) -> list[Verdicts]:
        found.extend(entry for write in writes for entry in write.entries if is_it(entry))
        if found:
            raise InvariantBroken("I17", "entry 9 is the last after 4 or 5")
        return store(self, writes)

    return stored


@pytest.mark.parametrize(
    "is_it",
    [
        pytest.param(lambda it: isinstance(it, AttemptFinished), id="the loop's own commit"),
        pytest.param(
            lambda it: isinstance(it, AttemptStarted) and it.verb == "DELETE",
            id="the attempt of a cancel",
        ),
    ],
)
async def test_a_journal_that_does_not_follow_ends_the_run_which_tells_and_starts_halted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_it: Callable[[Entry], bool]
) -> None:
    """The order that works is cancelled when it is time, by the next run."""
    whole = {"size": {"shares": 100}, "type": "LIMIT", "price": "ask", "expire": "60s"}
    strategy = once(params={"price": 26_000}, order=whole)
    with notice_server() as service:
        notify: dict[str, object] = {"urls": [service.url]}
        config = write_project(tmp_path, scenario=QUIET, strategies=[strategy], notify=notify)
        with monkeypatch.context() as broken:
            broken.setattr(Store, "store", _breaking_at(is_it))
            with pytest.raises(InvariantBroken, match="I17"):
                await tell_by_hand(config, minutes=4)
    [report] = (load_settings(config).state_dir / "bugs").iterdir()

    again = await tell_by_hand(config, ASK, minutes=4, may_fault=True)

    assert [each["title"] for each in service.messages if "entry 9 is" in each["message"]]
    assert "intent L-0001" in (kept := report.read_text()) or "order ORD" in kept
    status: Any = again.replies[0]["status"]
    assert (status["state"], status["reason"]) == ("HALTED", "engine fault")
    assert status["faults"][0]["error"].startswith("InvariantBroken: I17: ")
    assert [order["status"] for order in again.story.broker_orders().values()] == ["CANCELLED"]
    assert again.story.posts() == ["L-0001"]
