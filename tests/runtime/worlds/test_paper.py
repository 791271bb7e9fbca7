"""The paper environment's own account: what it says of a ledger that it can't go on with."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from bot.clock import SimulatedClock
from bot.config.problems import OperatorMistake
from bot.runtime.worlds import paper
from bot.runtime.worlds.paper import PaperEnvironment


def test_a_clock_behind_the_ledger_is_told_in_the_time_of_the_exchange(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = datetime(2026, 11, 19, 2, 15, tzinfo=UTC)
    monkeypatch.setattr(paper, "resumed_at", lambda _: last)
    world = SimpleNamespace(
        _spec=SimpleNamespace(loaded=SimpleNamespace(state_dir=tmp_path)),
        market=SimulatedClock(last - timedelta(hours=1)),
    )

    with pytest.raises(OperatorMistake, match="it has been at 2026-11-19 09:15"):
        PaperEnvironment._sandbox(world, None)  # type: ignore[arg-type]
