"""One bot writes a journal; the second is told who, and death lets go."""

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from time import sleep

import pytest
import sqlalchemy as sa

from bot.journal.database.engines import one_transaction
from bot.journal.errors import Holder, LeaseHeld, LeaseLost, NeedsMigration, Unreachable
from bot.journal.journal import Journal
from bot.journal.writing.lease import (
    _TERMINATE,
    BEAT_S,
    GRACE_S,
    LEASE_LIFE_S,
    Patience,
    Seen,
    Watch,
    _lock_connection,
    acquire,
    take,
)
from bot.runtime.order_manager import SIGNED_AGE_MAX_S

FIRST = Holder(4711, "trader", datetime(2026, 11, 19, 1, 41, tzinfo=UTC))
SECOND = Holder(4712, "trader", datetime(2026, 11, 19, 1, 42, tzinfo=UTC))

HOLD = """
import sys
from datetime import UTC, datetime
from bot.journal.errors import Holder
from bot.journal.writing.lease import acquire
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
    root = Path(__file__).resolve().parents[3]
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


def test_a_side_file_that_is_none_is_named(sqlite_url: str) -> None:
    side = Path(sqlite_url.removeprefix("sqlite:///") + ".lease")
    side.write_bytes(b"no database at all" * 100)

    with pytest.raises(Unreachable, match=r"journal\S*\.lease: file is not a database"):
        acquire(sqlite_url, FIRST)


THIRD = Holder(4713, "three", datetime(2026, 11, 19, 1, 43, tzinfo=UTC))
LIFE_MS = round(LEASE_LIFE_S * 1000)


def seen(*, now_s: float, until_s: float | None, is_free: bool = False) -> Seen:
    until_ms = None if until_s is None else round(until_s * 1000)
    return Seen(1, until_ms, round(now_s * 1000), FIRST, is_free)


def stall(url: str) -> None:
    """Let the lease run out by the database's clock."""
    with one_transaction(url) as connection:
        connection.execute(sa.text(f"UPDATE lease SET until_ms = until_ms - {2 * LIFE_MS}"))


def look_until_free(watch: Watch) -> Seen:
    """PostgreSQL notices a moment later that a connection was closed."""
    for _ in range(1_000):
        if (found := watch.look()).is_free:
            return found
    raise AssertionError("nobody holds the lease, and it is not free")


def test_a_lease_outlives_every_order_that_was_signed_under_it() -> None:
    assert BEAT_S + SIGNED_AGE_MAX_S + 2.0 < LEASE_LIFE_S


def test_a_holder_has_stalled_when_both_clocks_say_so() -> None:
    patience = Patience()

    judged = [
        patience.is_over(seen(now_s=now_s, until_s=100), at_s)
        for now_s, at_s in ((85, 0), (99, 19), (99, 21), (101, 21))
    ]

    assert judged == [False, False, False, True]


def test_a_clock_of_the_database_that_is_set_ahead_makes_no_stall() -> None:
    patience = Patience()
    patience.is_over(seen(now_s=90, until_s=100), 0)

    assert not patience.is_over(seen(now_s=3_700, until_s=100), 1)
    assert not patience.is_over(seen(now_s=3_702, until_s=3_721), 30)


def test_a_renewal_begins_the_wait_anew() -> None:
    patience = Patience()
    patience.is_over(seen(now_s=90, until_s=100), 0)
    patience.is_over(seen(now_s=90, until_s=102), 19)

    assert not patience.is_over(seen(now_s=103, until_s=102), 38)
    assert patience.is_over(seen(now_s=103, until_s=102), 39)


def test_after_a_look_in_vain_the_holder_gets_time_to_renew() -> None:
    patience = Patience()
    patience.is_over(seen(now_s=90, until_s=100), 0)
    patience.saw_nothing(60)

    assert not patience.is_over(seen(now_s=160, until_s=100), 60 + GRACE_S - 1)
    assert patience.is_over(seen(now_s=166, until_s=100), 60 + GRACE_S)


def test_a_free_lock_says_nothing_right_after_a_look_in_vain() -> None:
    patience = Patience()
    free = seen(now_s=90, until_s=100, is_free=True)

    at_once = patience.is_over(free, 0)
    patience.saw_nothing(60)
    later = [patience.is_over(free, 60 + after_s) for after_s in (0, GRACE_S - 0.1, GRACE_S)]

    assert (at_once, later) == (True, [False, False, True])


def test_a_holder_that_gives_no_heartbeat_is_never_taken_for_stalled() -> None:
    patience = Patience()

    assert not patience.is_over(seen(now_s=0, until_s=None), 0)
    assert not patience.is_over(seen(now_s=9_000, until_s=None), 9_000)


@pytest.mark.postgres
def test_a_look_shows_who_holds_the_lease_and_for_how_long(postgres_url: str) -> None:
    lease, watch = acquire(postgres_url, FIRST), Watch(postgres_url)

    held = watch.look()
    lease.release()
    free = look_until_free(watch)

    watch.close()
    assert (held.epoch, held.holder, held.is_free) == (1, FIRST, False)
    assert held.silent_s is not None
    assert 0 <= held.silent_s < 60
    assert (free.epoch, free.holder, free.is_free) == (1, FIRST, True)


@pytest.mark.postgres
def test_a_free_lease_is_taken_at_once_by_one(postgres_url: str) -> None:
    acquire(postgres_url, FIRST).release()
    watch = Watch(postgres_url)
    free = look_until_free(watch)

    mine = take(postgres_url, SECOND, free)
    mine.release()
    with pytest.raises(LeaseHeld, match="pid 4712"):
        take(postgres_url, THIRD, free)

    watch.close()
    assert mine.epoch == 2


@pytest.mark.postgres
def test_a_lease_that_is_renewed_is_not_taken(postgres_url: str) -> None:
    lease, watch = acquire(postgres_url, FIRST), Watch(postgres_url)
    held = watch.look()

    with pytest.raises(LeaseHeld, match="pid 4711"):
        take(postgres_url, SECOND, held)

    watch.close()
    lease.release()


@pytest.mark.postgres
async def test_a_stalled_holder_loses_the_lease_its_lock_and_all_it_writes(
    postgres_url: str,
) -> None:
    lease, watch = acquire(postgres_url, FIRST), Watch(postgres_url)
    journal = Journal.open(postgres_url, epoch=lease.epoch)
    await journal.beat()
    stall(postgres_url)
    stalled = watch.look()

    mine = take(postgres_url, SECOND, stalled)
    with pytest.raises(LeaseHeld, match="pid 4712"):
        take(postgres_url, THIRD, stalled)
    with pytest.raises(LeaseHeld, match="pid 4712"):
        acquire(postgres_url, THIRD)
    with pytest.raises(LeaseLost) as lost:
        await journal.beat()

    mine.release()
    watch.close()
    lease.release()
    await journal.close()
    assert stalled.silent_s is not None
    assert stalled.silent_s > LEASE_LIFE_S
    assert mine.epoch == 2
    assert (lost.value.stored, lost.value.ours, lost.value.holder) == (2, 1, SECOND)


@pytest.mark.postgres
async def test_a_beat_renews_the_lease_and_a_lost_one_is_not_renewed(postgres_url: str) -> None:
    lease, watch = acquire(postgres_url, FIRST), Watch(postgres_url)
    journal = Journal.open(postgres_url, epoch=lease.epoch)
    before = watch.look()
    stall(postgres_url)
    was_watched = journal.is_watched()

    await journal.beat()
    after = watch.look()
    is_watched = journal.is_watched()

    watch.close()
    await journal.close()
    lease.release()
    assert before.until_ms is not None
    assert after.until_ms is not None
    assert after.until_ms >= before.until_ms
    assert not journal.is_lease_doubtful()
    assert (was_watched, is_watched) == (False, True)


def end_lock(url: str) -> None:
    """End the connection that holds the lock, as a server or an administrator may."""
    with one_transaction(url) as connection:
        connection.execute(_TERMINATE)


@pytest.mark.postgres
async def test_a_lock_that_the_server_has_dropped_is_missed_and_taken_again(
    postgres_url: str,
) -> None:
    lease, watch = acquire(postgres_url, FIRST), Watch(postgres_url)
    journal = Journal.open(postgres_url, epoch=lease.epoch)
    had_it = await journal.beat()
    end_lock(postgres_url)
    look_until_free(watch)

    has_it = await journal.beat()
    lease.lock_again()

    with pytest.raises(LeaseHeld, match="pid 4711"):
        acquire(postgres_url, SECOND)
    assert (had_it, has_it, await journal.beat()) == (True, False, True)
    await journal.close()
    lease.release()
    look_until_free(watch)
    lease.lock_again()  # the run has ended meanwhile
    assert look_until_free(watch).epoch == 1
    watch.close()


@pytest.mark.postgres
async def test_a_dropped_lock_that_another_has_taken_is_left_to_it(postgres_url: str) -> None:
    lease = acquire(postgres_url, FIRST)
    journal = Journal.open(postgres_url, epoch=lease.epoch)
    end_lock(postgres_url)
    mine = acquire(postgres_url, SECOND)

    with pytest.raises(LeaseHeld, match="pid 4712"):
        lease.lock_again()
    with pytest.raises(LeaseLost):
        await journal.beat()

    await journal.close()
    lease.release()
    mine.release()


@pytest.mark.postgres
def test_no_time_limit_of_the_server_for_what_is_idle_ends_the_lock(own_postgres_url: str) -> None:
    name = sa.make_url(own_postgres_url).database
    with one_transaction(own_postgres_url) as connection:
        if int(connection.scalar(sa.text("SHOW server_version_num")) or 0) < 140_000:
            pytest.skip("this server knows no such limit")
        connection.execute(sa.text(f"ALTER DATABASE {name} SET idle_session_timeout = '1s'"))
    lease = acquire(own_postgres_url, FIRST)

    sleep(1.5)  # a busy machine may need most of a second to connect

    with pytest.raises(LeaseHeld, match="pid 4711"):
        acquire(own_postgres_url, SECOND)
    lease.release()


WATCHED = ("tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count")


@pytest.mark.postgres
def test_the_server_ends_the_lock_of_a_machine_that_is_gone_and_not_before_a_stall(
    postgres_url: str,
) -> None:
    lock, watch = _lock_connection(postgres_url), Watch(postgres_url)
    watch.look()
    waiting = watch._connection
    assert waiting is not None

    shown = [[each.scalar(sa.text(f"SHOW {name}")) for name in WATCHED] for each in (lock, waiting)]
    timeout = "SELECT setting FROM pg_settings WHERE name = 'tcp_user_timeout'"
    gone_ms = [each.scalar(sa.text(timeout)) for each in (lock, waiting)]

    lock.close()
    watch.close()
    idle_s, interval_s, count = map(int, shown[0])
    assert shown == [["10", "5", "4"]] * 2
    assert gone_ms in (["30000"] * 2, [None] * 2)  # PostgreSQL knows it from version 12 on
    assert interval_s * count >= LEASE_LIFE_S
    assert 30 - idle_s >= LEASE_LIFE_S


@pytest.mark.postgres
def test_a_lock_whose_lease_is_over_is_told_with_its_age(postgres_url: str) -> None:
    lease = acquire(postgres_url, FIRST)
    stall(postgres_url)

    with pytest.raises(LeaseHeld) as caught:
        acquire(postgres_url, SECOND)

    lease.release()
    assert caught.value.silent_s in range(40, 60)
    assert str(caught.value).startswith(
        "another bot holds this journal: pid 4711 on trader, since 2026-11-19 01:41:00 UTC; its "
        "last heartbeat was 4"
    )


async def test_a_journal_in_a_file_has_no_lease_that_runs_out(sqlite_url: str) -> None:
    lease = acquire(sqlite_url, FIRST)
    journal = Journal.open(sqlite_url, epoch=lease.epoch)

    await journal.beat()

    await journal.close()
    lease.release()
    with one_transaction(sqlite_url) as connection:
        assert connection.execute(sa.text("SELECT until_ms FROM lease")).scalar_one() is None
