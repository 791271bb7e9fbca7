"""What an earlier demo leaves behind, and what the next one takes from it."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bot.protocol.secret import Secret
from bot.runtime.state_dir import LEDGER, keep_token, kept_token
from bot.runtime.worlds.demo_files import NotAlone, alone, make_room

NOW = datetime(2026, 11, 19, 3, tzinfo=UTC)


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    """A state directory with a journal and a token, as a demo leaves it."""
    (tmp_path / "journal.db").write_text("journal")
    keep_token(tmp_path, Secret("a-token"), NOW + timedelta(hours=1))
    return tmp_path


def write_ledger(state_dir: Path, *lines: dict[str, object]) -> None:
    (state_dir / LEDGER).write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_demo_that_was_over_is_kept_once_and_its_token_is_not(state_dir: Path) -> None:
    write_ledger(state_dir, {"kind": "start", "seed": 7}, {"kind": "finished"})

    is_resumed = make_room(state_dir, seed=7)

    assert not is_resumed
    assert sorted(path.name for path in state_dir.iterdir()) == ["journal.1.db", "sandbox.1.jsonl"]


def test_a_second_demo_touches_nothing_while_the_first_is_starting(state_dir: Path) -> None:
    with alone(state_dir), pytest.raises(NotAlone), alone(state_dir):
        raise AssertionError("two demos of one directory")

    with alone(state_dir):
        assert (state_dir / "journal.db").read_text() == "journal"


def test_a_demo_of_another_seed_begins_without_the_token(state_dir: Path) -> None:
    write_ledger(state_dir, {"kind": "start", "seed": 8})

    is_resumed = make_room(state_dir, seed=7)

    assert not is_resumed
    assert kept_token(state_dir, NOW) is None


def test_a_demo_that_was_cut_off_goes_on_with_its_token(state_dir: Path) -> None:
    write_ledger(state_dir, {"kind": "start", "seed": 7}, {"kind": "otp_request"})

    is_resumed = make_room(state_dir, seed=7)

    assert is_resumed
    assert kept_token(state_dir, NOW) is not None
    assert (state_dir / "journal.db").read_text() == "journal"


def test_a_demo_whose_start_failed_is_not_gone_on_with(state_dir: Path) -> None:
    write_ledger(state_dir, {"kind": "start", "seed": 7})

    assert not make_room(state_dir, seed=7)
    assert not (state_dir / LEDGER).exists()
