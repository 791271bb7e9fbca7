"""A journal has one mode, and its strategies hold shares of one account: else what was bought for
play would be sold for real, or what one account has bought from another.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from bot.clock import SystemClock
from bot.config.problems import ExitCode, OperatorMistake
from bot.config.settings.load import load_settings
from bot.journal.database.tables import RUN_MODES
from bot.journal.journal import Journal
from bot.runtime.health.doctor_here import Machine, Verdict, look_here
from bot.runtime.journal_file import require_unmixed
from bot.runtime.upkeep import lease_of
from tests import live_project
from tests.journal.facts import after
from tests.runtime.health.test_doctor_broker import played, rows
from tests.story import lay_journal, once, tell, write_project

ON_ONE: Mapping[str, Any] = {"requests_per_minute": 3000, "account": ".1"}
BOTH: Final = [
    {"id": "0009000011", "suffix": ".1"},
    {"id": "0009000016", "suffix": ".6", "type": "Margin"},
]
ON_SIX: Mapping[str, Any] = {"requests_per_minute": 3000, "account": ".6"}


async def journal_of(folder: Path, *modes: str) -> str:
    """A journal with a run of each mode."""
    url = f"sqlite:///{folder}/journal.db"
    lay_journal(folder / "journal.db")
    with lease_of(url) as lease:
        journal = Journal.open(url, epoch=lease.epoch)
        for number, mode in enumerate(modes):
            facts = {"mode": mode, "version": "1", "config_sha256": ""}
            await journal.start_run(at=after(number), **facts)
        await journal.close()
    return url


@pytest.mark.parametrize("mode", RUN_MODES)
@pytest.mark.parametrize("before", RUN_MODES)
async def test_a_journal_has_one_mode(tmp_path: Path, before: str, mode: str) -> None:
    url = await journal_of(tmp_path, before, before)
    kept = (tmp_path / "journal.db").read_bytes()

    if before == mode:
        require_unmixed(url, mode)
    else:
        with pytest.raises(OperatorMistake) as mistake:
            require_unmixed(url, mode)
        [problem] = mistake.value.problems
        assert problem.code == "E-RUN-006"
        assert problem.message.startswith(f"this journal has runs of mode {before!r}: ")

    assert (tmp_path / "journal.db").read_bytes() == kept


async def test_a_journal_that_two_modes_have_written_is_neither_s(tmp_path: Path) -> None:
    url = await journal_of(tmp_path, "sandbox", "live", "sandbox")

    for mode in RUN_MODES:
        with pytest.raises(OperatorMistake):
            require_unmixed(url, mode)


async def test_what_was_bought_in_the_sandbox_is_not_sold_for_real(tmp_path: Path) -> None:
    played: Mapping[str, Any] = {"mode": "sandbox", "broker": {"account": ".1"}}
    await live_project.run(live_project.project(tmp_path, **played))

    with pytest.raises(OperatorMistake, match="runs of mode 'sandbox'") as mistake:
        await live_project.contacts(live_project.project(tmp_path))

    assert mistake.value.exit_code == ExitCode.CONFIG


async def test_the_doctor_says_of_another_mode_what_the_start_says(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    url = await journal_of(tmp_path / "state", "live")
    kept = {file: file.read_bytes() for file in (tmp_path / "state").iterdir()}
    config = write_project(tmp_path, scenario="quiet", strategies=[once()])

    with pytest.raises(OperatorMistake) as mistake:
        require_unmixed(url, "sandbox")
    loaded = load_settings(config, environment={})
    found = {each.name: each for each in look_here(loaded, Machine(), SystemClock())}

    assert (found["journal"].verdict, found["chain"].verdict) == (Verdict.FAIL, Verdict.OK)
    assert found["journal"].found == mistake.value.problems[0].head
    assert "bot docs upgrade" in found["journal"].fix
    assert {file: file.read_bytes() for file in (tmp_path / "state").iterdir()} == kept


async def on(folder: Path, broker: Mapping[str, Any], *names: str) -> None:
    """Two minutes on an account, in which each of these strategies buys once."""
    strategies = [once(name) for name in names]
    await tell(
        write_project(folder, scenario="quiet", strategies=strategies, broker=broker), minutes=2
    )


async def test_what_one_account_has_bought_is_not_sold_from_another(tmp_path: Path) -> None:
    await on(tmp_path, ON_ONE, "once")

    with pytest.raises(OperatorMistake) as mistake:
        await on(tmp_path, ON_SIX, "once")
    await on(tmp_path, ON_ONE, "once")

    [problem] = mistake.value.problems
    assert problem.code == "E-RUN-006"
    assert problem.message.startswith(
        "once holds 100 HPG by this journal, traded on the account …001.1: on …001.6 it would "
    )


async def test_the_doctor_says_of_another_account_what_the_start_says(tmp_path: Path) -> None:
    await on(tmp_path, ON_ONE, "once")
    with pytest.raises(OperatorMistake) as mistake:
        await on(tmp_path, ON_SIX, "once")

    async with played(accounts=BOTH) as (base_url, secrets):
        same = await rows(tmp_path, base_url, secrets, account=".1")
        other = await rows(tmp_path, base_url, secrets, account=".6")

    assert same["account"].verdict is Verdict.OK
    assert (other["account"].verdict, other["symbols"].verdict) == (Verdict.FAIL, Verdict.OK)
    assert other["account"].found == mistake.value.problems[0].head


async def test_a_strategy_that_holds_nothing_may_change_its_account(tmp_path: Path) -> None:
    await on(tmp_path, ON_ONE, "once")
    (tmp_path / "strategies" / "once.yaml").unlink()

    await on(tmp_path, ON_SIX, "another")
