"""Where a standby makes no sense it is refused, and the refusal says what to change; a new journal
in the place of a lost one is told of.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from bot.config.problems import OperatorMistake
from bot.config.settings.load import load_settings
from bot.domain.recovery import Recovery, StoredAmend
from bot.journal.writing.heads import FILE, OLDER, KeptHeads, append_line
from bot.runtime.start.opening import begin_state, forgotten, lost_places
from tests.engine.stage import DAY, START, attempt_of
from tests.protocol.samples import INTENT
from tests.story import once, write_project

URL = "postgresql://bot@127.0.0.1/journal"


def refusal(folder: Path, **settings: object) -> str:
    config = write_project(folder, scenario="quiet", strategies=[once()], **settings)  # type: ignore[arg-type]
    loaded = load_settings(config, environment={})
    with pytest.raises(OperatorMistake) as refused:
        begin_state(loaded, is_standby=True)
    assert not (loaded.state_dir / "last-run.json").exists()  # nothing has begun
    return str(refused.value)


def test_a_journal_in_a_file_has_no_standby(tmp_path: Path) -> None:
    said = refusal(tmp_path, broker={"base_url": "http://127.0.0.1:1"})

    assert "a standby needs a journal in PostgreSQL" in said
    assert "run without --standby" in said


def test_a_broker_inside_one_bot_has_no_standby(tmp_path: Path) -> None:
    said = refusal(tmp_path, journal_url=URL)

    assert "a standby needs a broker that both bots reach" in said
    assert "broker.base_url" in said


def test_amendments_without_a_trusted_answer_are_fenced_like_places() -> None:
    put = replace(attempt_of(INTENT, START), verb="PUT")
    asked = StoredAmend("ORD1", put, None, 27_000, None, 26_900, "operator", "nearer")
    amends = [
        replace(asked, attempt=replace(put, attempt_id=f"a-{outcome}"), outcome=outcome)
        for outcome in (None, "UNKNOWN", "ACCEPTED", "REFUSED", "NOT_SENT")
    ]

    found = lost_places(Recovery(DAY, amends=tuple(amends)))

    assert [attempt.attempt_id for attempt in found] == ["a-None", "a-UNKNOWN"]


@pytest.mark.parametrize(
    ("files", "named"), [([FILE], FILE), ([OLDER, FILE], f"{OLDER} and {FILE}")]
)
def test_who_begins_anew_is_told_every_file_that_names_the_lost_journal(
    tmp_path: Path, files: list[str], named: str
) -> None:
    url = f"sqlite:///{tmp_path}/journal.db"
    for file in files:
        append_line(tmp_path / file, KeptHeads(START, "journal.db", 1, None, {}).line)

    [told] = forgotten(url, tmp_path)
    for file in files:
        (tmp_path / file).rename(tmp_path / f"{file}.away")

    assert f"to begin anew move {named} away too" in told
    assert forgotten(url, tmp_path) == ()
