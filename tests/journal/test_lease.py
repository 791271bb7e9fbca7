"""One bot writes a journal; the second is told who, and death lets go."""

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bot.journal.errors import Holder, LeaseHeld, NeedsMigration, Unreachable
from bot.journal.lease import acquire

FIRST = Holder(4711, "trader", datetime(2026, 11, 19, 1, 41, tzinfo=UTC))
SECOND = Holder(4712, "trader", datetime(2026, 11, 19, 1, 42, tzinfo=UTC))

HOLD = """
import sys
from datetime import UTC, datetime
from bot.journal.errors import Holder
from bot.journal.lease import acquire
lease = acquire(sys.argv[1], Holder(1, "elsewhere", datetime(2026, 11, 19, tzinfo=UTC)))
print(lease.epoch, flush=True)
sys.stdin.read()
"""


def test_each_holder_gets_a_new_epoch(db_url: str) -> None:
    epochs = []
    for holder in (FIRST, SECOND, FIRST):
        lease = acquire(db_url, holder)
        epochs.append(lease.epoch)
        lease.release()

    assert epochs == [1, 2, 3]


def test_a_second_holder_is_told_who_is_first(db_url: str) -> None:
    lease = acquire(db_url, FIRST)

    with pytest.raises(LeaseHeld) as caught:
        acquire(db_url, SECOND)

    assert caught.value.holder == FIRST
    assert str(caught.value) == (
        "another bot writes this journal: pid 4711 on trader, since 2026-11-19 01:41:00 UTC"
    )
    lease.release()


def test_a_refused_holder_takes_no_epoch(db_url: str) -> None:
    lease = acquire(db_url, FIRST)
    with pytest.raises(LeaseHeld):
        acquire(db_url, SECOND)
    lease.release()

    after = acquire(db_url, SECOND)
    assert after.epoch == 2
    after.release()


@pytest.mark.process
def test_a_kill_lets_go(db_url: str) -> None:
    root = Path(__file__).resolve().parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, db_url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"1\n"
        with pytest.raises(LeaseHeld, match="pid 1 on elsewhere"):
            acquire(db_url, SECOND)

        process.send_signal(signal.SIGKILL)
        process.wait(40)

    lease = acquire_soon(db_url)
    assert lease == 2


def acquire_soon(url: str) -> int:
    """PostgreSQL notices a dead client a moment later than the system does."""
    for _ in range(200):
        try:
            lease = acquire(url, SECOND)
        except LeaseHeld:
            continue
        lease.release()
        return lease.epoch
    raise AssertionError("a dead process still holds the lease")


def test_the_lease_of_a_missing_journal_is_not_given(tmp_path: Path) -> None:
    with pytest.raises(Unreachable):
        acquire(f"sqlite:///{tmp_path / 'journal.db'}", FIRST)


def test_the_lease_of_an_empty_file_is_not_given(tmp_path: Path) -> None:
    (tmp_path / "journal.db").touch()

    with pytest.raises(NeedsMigration):
        acquire(f"sqlite:///{tmp_path / 'journal.db'}", FIRST)


def test_the_side_file_is_for_its_owner_alone(sqlite_url: str) -> None:
    lease = acquire(sqlite_url, FIRST)

    side = Path(sqlite_url.removeprefix("sqlite:///") + ".lease")
    assert side.stat().st_mode & 0o777 == 0o600
    lease.release()
