"""D2: the broker has said yes and the journal has not heard it: nothing is lost, nor sent again."""

import asyncio
import sqlite3
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from bot.journal.upkeep.verify import verify
from bot.journal.writing.batch import COUNTER
from bot.journal.writing.emergency import FILE
from tests.faults.hanging import WITHIN_S, Hanging, locked, trading

pytestmark = [pytest.mark.wire, pytest.mark.process, pytest.mark.timeout(240)]

DISK_BYTES = 104_857_600
SLOW: Sequence[Mapping[str, Any]] = [
    {
        "match": {"verb": "POST", "path": "*/orders", "times": 0},
        "point": "after_apply",
        "action": {"do": "delay", "seconds": 7},
    }
]
"""The second order may leave seconds after the first. The first one's answer, too, has to come
after the journal is taken away, and within the order's own 10 s.
"""


def _rows(hanging: Hanging, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(hanging.state_dir / "journal.db")) as journal:
        return journal.execute(query).fetchall()


async def _until_both_are_applied(hanging: Hanging) -> None:
    give_up = time.monotonic() + WITHIN_S
    while len(hanging.orders()) < 2:
        assert time.monotonic() < give_up
        await asyncio.sleep(0.02)


def _kept(hanging: Hanging) -> str:
    file = hanging.state_dir / FILE
    return file.read_text().strip("\0") if file.exists() else ""


async def _until_both_answers_are_kept(hanging: Hanging) -> str:
    give_up = time.monotonic() + WITHIN_S
    while _kept(hanging).count("ACKED") < 2:
        assert time.monotonic() < give_up, _kept(hanging)
        await asyncio.sleep(0.02)
    return _kept(hanging)


@contextmanager
def written_by_another(file: Path) -> Iterator[None]:
    """Have another program write a SQLite journal, and take it back."""
    change = "update chains set last_seq = last_seq {} 1 where name = ?"
    with closing(sqlite3.connect(file, isolation_level=None, timeout=WITHIN_S)) as other:
        other.execute(change.format("+"), [COUNTER])
        yield
        other.execute(change.format("-"), [COUNTER])


@pytest.mark.one_strike
@pytest.mark.long
async def test_answers_under_way_as_a_journal_refuses_all_are_awaited_and_owned_by_the_next_run(
    tmp_path: Path,
) -> None:
    soon = [{**SLOW[0], "action": {"do": "delay", "seconds": 3}}]
    async with trading(tmp_path, faults=soon, is_signed_in=False) as hanging:
        await hanging.give_token()
        await _until_both_are_applied(hanging)
        with written_by_another(hanging.state_dir / "journal.db"):
            await hanging.ask("pause", strategy=None, reason="something to write")
            _, refusal = await asyncio.to_thread(hanging.bot.communicate)
            kept, stored = _kept(hanging), _rows(hanging, "select state from intents")
        hanging.start_again()
        found = await hanging.until(lambda it: len(it.get("open_orders", ())) == 2)
        code, out, err, _ = await hanging.end()

    assert stored == [("SENDING",), ("SENDING",)]
    assert (kept.count("ACKED"), kept.count("OrderUpdated")) == (2, 2)
    assert "E-DB-004" in refusal
    assert "in the emergency journal, which the next start takes over" in refusal
    assert "took over" in err
    assert found["unknown"] == []
    attempts = Counter(_rows(hanging, "select verb, outcome from attempts"))
    assert attempts == {("POST", "ACCEPTED"): 2}
    assert len(hanging.orders()) == 2
    assert (code, "Traceback" in out + err) == (0, False)
    assert verify(f"sqlite:///{hanging.state_dir / 'journal.db'}").problems == ()


@pytest.mark.one_strike
@pytest.mark.long
async def test_answers_that_the_journal_never_heard_are_owned_after_a_kill(tmp_path: Path) -> None:
    async with trading(tmp_path, faults=SLOW, is_signed_in=False) as hanging:
        await hanging.give_token()
        await _until_both_are_applied(hanging)
        with locked(hanging.state_dir / "journal.db"):
            kept = await _until_both_answers_are_kept(hanging)
            stored = _rows(hanging, "select state from intents")
            await hanging.kill()
        hanging.start_again()
        found = await hanging.until(lambda it: len(it.get("open_orders", ())) == 2)
        code, out, err, _ = await hanging.end()

    assert stored == [("SENDING",), ("SENDING",)]
    assert kept.count("OrderUpdated") == 2
    assert "took over" in err
    assert found["unknown"] == []
    attempts = Counter(_rows(hanging, "select verb, outcome from attempts"))
    assert attempts == {("POST", "ACCEPTED"): 2}
    moves = "select to_state from transitions where machine = 'send'"
    assert Counter(_rows(hanging, moves)) == {("SENDING",): 2, ("ACKED",): 2}
    assert len(hanging.orders()) == 2
    assert (code, "Traceback" in out + err) == (0, False)
    assert verify(f"sqlite:///{hanging.state_dir / 'journal.db'}").problems == ()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A state directory on a disk of its own, where this machine lets us make one."""
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES},mode=700", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def _fill(folder: Path) -> Path:
    """Leave not one free byte on a disk."""
    file = folder / "filling"
    with file.open("wb", buffering=0) as filling, suppress(OSError):
        while filling.write(bytes(4096)):
            pass
    return file


@pytest.mark.one_strike
@pytest.mark.long
async def test_answers_that_meet_a_full_disk_are_owned_after_a_kill(
    tmp_path: Path, small_disk: Path
) -> None:
    async with trading(tmp_path, faults=SLOW, is_signed_in=False) as hanging:
        await hanging.give_token()
        await _until_both_are_applied(hanging)
        filling = _fill(small_disk)
        await _until_both_answers_are_kept(hanging)
        degraded = await hanging.until(lambda it: it["state"] == "DEGRADED")
        await hanging.kill()
        filling.unlink()
        hanging.start_again()
        found = await hanging.until(lambda it: len(it.get("open_orders", ())) == 2)
        code, out, err, _ = await hanging.end()
        attempts = Counter(_rows(hanging, "select verb, outcome from attempts"))
        problems = verify(f"sqlite:///{hanging.state_dir / 'journal.db'}").problems

    assert "full" in degraded["trouble"]["text"]
    assert any(text.startswith("the disk of the journal has") for text in degraded["alerts"])
    assert found["unknown"] == []
    assert attempts == {("POST", "ACCEPTED"): 2}
    assert len(hanging.orders()) == 2
    assert (code, "Traceback" in out + err, problems) == (0, False, ())


async def test_answers_that_came_meanwhile_are_stored_once_when_the_journal_answers(
    tmp_path: Path,
) -> None:
    async with trading(tmp_path, faults=SLOW, is_signed_in=False) as hanging:
        await hanging.give_token()
        await _until_both_are_applied(hanging)
        with locked(hanging.state_dir / "journal.db"):
            await _until_both_answers_are_kept(hanging)
            meanwhile = await hanging.status()
        await hanging.until(lambda it: it["trouble"] is None)
        code, out, err, _ = await hanging.end()

    assert len(meanwhile["open_orders"]) == 2
    assert meanwhile["state"] == "DEGRADED"
    attempts = Counter(_rows(hanging, "select verb, outcome from attempts"))
    assert attempts == {("POST", "ACCEPTED"): 2}
    assert not (hanging.state_dir / FILE).exists()
    assert (code, "Traceback" in out + err) == (0, False)
    assert verify(f"sqlite:///{hanging.state_dir / 'journal.db'}").problems == ()
