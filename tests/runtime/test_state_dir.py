"""The kept token: written whole or not at all."""

import json
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from bot.config.problems import OperatorMistake
from bot.protocol.secret import Secret
from bot.runtime.state_dir import (
    SECOND_FACTOR,
    forget_token,
    keep_token,
    kept_token,
    make_state_dir,
)
from tests.syncs import kept_by_syncs

NOW = datetime(2026, 11, 19, 3, tzinfo=UTC)
UNTIL = NOW + timedelta(hours=1)


@contextmanager
def no_room() -> Iterator[None]:
    """Allow no file of this process to grow."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_token_is_kept_for_its_owner_alone(tmp_path: Path) -> None:
    keep_token(tmp_path, Secret("a-token"), UNTIL)

    kept = kept_token(tmp_path, NOW)
    assert kept is not None
    assert (kept[0].reveal(), kept[1]) == ("a-token", UNTIL)
    assert (tmp_path / SECOND_FACTOR).stat().st_mode & 0o777 == 0o600
    assert kept_token(tmp_path, UNTIL + timedelta(seconds=1)) is None


def test_where_there_is_no_room_the_earlier_token_stays_and_no_half_file(tmp_path: Path) -> None:
    keep_token(tmp_path, Secret("earlier"), UNTIL)

    with no_room(), pytest.raises(OSError, match="File too large"):
        keep_token(tmp_path, Secret("later"), UNTIL)

    kept = kept_token(tmp_path, NOW)
    assert kept is not None
    assert kept[0].reveal() == "earlier"
    assert [path.name for path in tmp_path.iterdir()] == [SECOND_FACTOR]


def test_a_cut_of_the_power_neither_takes_a_token_nor_brings_one_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = kept_by_syncs(monkeypatch, tmp_path)

    keep_token(tmp_path, Secret("a-token"), UNTIL)
    forget_token(tmp_path)

    written = json.dumps({"token": "a-token", "until": UNTIL.isoformat()})
    assert synced == [written, SECOND_FACTOR, ""]


@pytest.mark.parametrize("until", ["2026-11-19T23:59:59", "", None, "tomorrow"])
def test_a_kept_token_whose_end_is_no_instant_is_none(tmp_path: Path, until: str | None) -> None:
    keep_token(tmp_path, Secret("a-token"), UNTIL)
    (tmp_path / SECOND_FACTOR).write_text(json.dumps({"token": "a-token", "until": until}))

    assert kept_token(tmp_path, NOW) is None


def test_a_service_that_may_not_write_there_is_told_what_gives_it_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_only = SimpleNamespace(f_flag=os.ST_RDONLY)
    monkeypatch.setattr("bot.runtime.state_dir.os.statvfs", lambda _: read_only)

    with pytest.raises(OperatorMistake, match="read-only file system") as refused:
        make_state_dir(tmp_path / "new")

    assert refused.value.problems[0].message.endswith("once more bot service install")
