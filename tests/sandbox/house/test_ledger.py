"""The ledger: append-only lines, a torn tail dropped, junk in the middle loud."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bot.sandbox.errors import LedgerBroken
from bot.sandbox.house.ledger import (
    UNWRITTEN_MAX,
    Ledger,
    Line,
    digest_of,
    is_finished,
    read_ledger,
    resumed_at,
)


def test_lines_are_read_back_in_order(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "ledger.jsonl"
    ledger = Ledger(path)
    ledger.record({"kind": "head", "at": "2026-11-19T02:14:55+00:00"})
    ledger.jot({"kind": "time", "at": "2026-11-19T02:15:00+00:00"})
    ledger.close()

    assert [line["kind"] for line in read_ledger(path)] == ["head", "time"]
    assert resumed_at(path) == datetime(2026, 11, 19, 2, 15, tzinfo=UTC)
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_half_written_line_is_dropped_when_the_ledger_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(b'{"kind":"head"}\n{"kind":"ord')

    ledger = Ledger(path)
    ledger.record({"kind": "time"})
    ledger.close()

    assert path.read_bytes() == b'{"kind":"head"}\n{"kind":"time"}\n'


@pytest.mark.parametrize("middle", [b"{", b"7"])
def test_junk_between_lines_is_an_error_with_its_line_number(tmp_path: Path, middle: bytes) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(b'{"kind":"head"}\n' + middle + b'\n{"kind":"time"}\n')

    with pytest.raises(LedgerBroken, match=r"ledger\.jsonl:2:"):
        read_ledger(path)


def test_no_ledger_is_empty_and_names_no_time(tmp_path: Path) -> None:
    assert read_ledger(tmp_path / "none") == ()
    assert resumed_at(tmp_path / "none") is None


def test_a_ledger_is_finished_when_its_last_line_says_so(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(b'{"kind":"finished"}\n')
    finished = is_finished(path)
    path.write_bytes(b'{"kind":"finished"}\n{"kind":"time"}\n')

    assert (finished, is_finished(path)) == (True, False)


def test_the_end_of_a_ledger_is_found_from_behind_whatever_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    long, nonce = "x" * 3_000_000, '{"kind":"nonce"}\n'
    at = '{{"kind":"time","at":"2026-11-19T02:15:0{}+00:00","text":"{}"}}\n'
    ends = (nonce, nonce * 100_000, "", '{"kind":"ti', '{"kind":"ti' + long)

    found = []
    for text, end in [(text, end) for text in ("", long) for end in ends]:
        path.write_text(at.format(1, "") + at.format(2, text) + end)
        found.append((resumed_at(path), is_finished(path)))

    assert found == [(datetime(2026, 11, 19, 2, 15, 2, tzinfo=UTC), False)] * 10


def test_a_mark_is_where_a_later_reader_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    whole, parted = Ledger(path), Ledger(tmp_path / "parted")
    for ledger in (whole, parted):
        ledger.record({"kind": "head"}, {"kind": "text", "text": "x" * 2_000_000})
    mark = whole.mark()
    parted.close()
    parted = Ledger(tmp_path / "parted")
    for ledger in (whole, parted):
        ledger.record({"kind": "time"})
    with path.open("ab") as file:
        file.write(b"7\n")

    assert digest_of(path, mark.size) == mark.sha256
    assert digest_of(path, 10**9) is None
    assert whole.mark() == parted.mark()
    with pytest.raises(LedgerBroken, match=r"ledger\.jsonl:4:"):
        read_ledger(path, mark)
    whole.close()
    parted.close()


@contextmanager
def _full(path: Path) -> Iterator[None]:
    """Let no file grow beyond a few bytes more than this one has."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 3, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_lines_that_a_full_disk_refuses_are_written_once_there_is_room(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger(path)
    lines: list[Line] = [{"n": number, "why": "x" * 100} for number in range(200)]
    ledger.record({"n": -1})

    with _full(path):
        for line in lines:
            with pytest.raises(OSError, match="File too large"):
                ledger.jot(line)
        with pytest.raises(OSError, match="File too large"):
            ledger.mark()
    mark = ledger.mark()
    ledger.close()

    assert read_ledger(path) == ({"n": -1}, *lines)
    assert digest_of(path, mark.size) == mark.sha256


def test_a_ledger_that_a_disk_refuses_for_long_does_not_grow_for_ever(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger(path)
    ledger.record({"n": -1})

    with _full(path):
        for _ in range(UNWRITTEN_MAX // 1_000_000):
            with pytest.raises(OSError, match="File too large"):
                ledger.jot({"why": "x" * 1_000_000})
        with pytest.raises(LedgerBroken, match="too many of its lines wait"):
            ledger.jot({"why": "x" * 1_000_000})
    ledger.close()

    assert len(read_ledger(path)) == 1 + UNWRITTEN_MAX // 1_000_000
