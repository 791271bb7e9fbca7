"""The watched file for a code or a token: read once, deleted, and never taken from others."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from bot.runtime import token_file as module
from bot.runtime.token_file import BYTES_MAX, NAME, Found, TokenFile

NOW = datetime(2026, 11, 19, 2, 30, tzinfo=UTC)
CODE = b"246802\n"


def put(folder: Path, held: bytes = CODE, mode: int = 0o600) -> Path:
    path = folder / NAME
    path.write_bytes(held)
    path.chmod(mode)
    stamp = NOW.timestamp()
    os.utime(path, (stamp, stamp))
    return path


def looked(file: TokenFile) -> Found | None:
    """Look until something settled is found, or nothing is there."""
    first = file.look()
    return first if first is not None else file.look()


@pytest.fixture
def file(tmp_path: Path) -> TokenFile:
    return TokenFile(tmp_path, lambda: NOW)


def test_a_code_is_taken_once_and_the_file_is_gone(tmp_path: Path, file: TokenFile) -> None:
    put(tmp_path)

    found = looked(file)

    assert found is not None
    assert found.given is not None
    assert found.given.reveal() == "246802"
    assert list(tmp_path.iterdir()) == []
    assert looked(file) is None


@pytest.mark.parametrize("held", [b"\xef\xbb\xbf246802\r\n", b" 246802 \n\n", b"246802"])
def test_what_an_editor_puts_around_a_code_is_no_part_of_it(
    tmp_path: Path, file: TokenFile, held: bytes
) -> None:
    """A mark of the encoding, the line ends of another system, spaces."""
    put(tmp_path, held)

    found = looked(file)

    assert found is not None
    assert found.given is not None
    assert found.given.reveal() == "246802"


def test_without_a_file_there_is_nothing(file: TokenFile) -> None:
    assert looked(file) is None


def test_what_is_still_being_written_is_waited_for(tmp_path: Path, file: TokenFile) -> None:
    put(tmp_path, b"135")
    assert file.look() is None
    put(tmp_path, b"135790")
    assert file.look() is None

    found = file.look()

    assert found is not None
    assert found.given is not None
    assert found.given.reveal() == "135790"


def test_an_empty_file_is_waited_for_however_long_its_writer_takes(
    tmp_path: Path, file: TokenFile
) -> None:
    put(tmp_path, b"")
    assert [file.look() for _ in range(5)] == [None] * 5
    assert (tmp_path / NAME).exists()
    put(tmp_path)

    found = looked(file)

    assert found is not None
    assert found.given is not None
    assert found.given.reveal() == "246802"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o644, 0o666])
def test_what_others_may_read_or_write_is_not_used_and_deleted(
    tmp_path: Path, file: TokenFile, mode: int
) -> None:
    put(tmp_path, mode=mode)

    assert looked(file) == Found(objection="READABLE")
    assert list(tmp_path.iterdir()) == []


def test_a_second_name_of_the_file_is_a_second_reader(tmp_path: Path, file: TokenFile) -> None:
    os.link(put(tmp_path), tmp_path / "other")

    assert looked(file) == Found(objection="READABLE")


def test_a_link_is_not_followed_and_what_it_names_is_left(tmp_path: Path, file: TokenFile) -> None:
    aim = tmp_path / "aim"
    aim.write_bytes(CODE)
    (tmp_path / NAME).symlink_to(aim)

    assert looked(file) == Found(objection="LINK")
    assert [path.name for path in tmp_path.iterdir()] == ["aim"]


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_what_is_no_file_is_told_of_once_and_does_not_block(
    tmp_path: Path, file: TokenFile, kind: str
) -> None:
    path = tmp_path / NAME
    if kind == "folder":
        path.mkdir(mode=0o700)
    else:
        os.mkfifo(path, 0o600)

    found = looked(file)

    assert found is not None
    assert found.objection == "NOT_A_FILE"
    assert looked(file) is None


@pytest.mark.parametrize(("size", "is_taken"), [(BYTES_MAX, True), (BYTES_MAX + 1, False)])
def test_a_large_file_is_not_read(
    tmp_path: Path, file: TokenFile, size: int, is_taken: bool
) -> None:
    put(tmp_path, b"x" * size)

    found = looked(file)

    assert found is not None
    assert (found.given is not None, found.objection) == (
        (True, "") if is_taken else (False, "TOO_LARGE")
    )


def test_a_token_that_was_left_there_yesterday_is_never_sent(tmp_path: Path) -> None:
    put(tmp_path, b"a-token-of-yesterday")
    file = TokenFile(tmp_path, lambda: NOW + timedelta(hours=15))

    assert looked(file) == Found(objection="OLD")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_takes_the_place_of_the_one_read_is_left_for_the_next_look(
    tmp_path: Path, file: TokenFile
) -> None:
    path = put(tmp_path)
    before = os.lstat(path)
    newer = tmp_path / "newer"
    newer.write_bytes(b"135790\n")
    newer.chmod(0o600)
    newer.rename(path)

    file._delete(before)

    assert path.read_bytes() == b"135790\n"


async def test_a_look_for_which_there_is_no_thread_is_made_again(
    file: TokenFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, is_made_again = list[object](), asyncio.Event()

    async def in_time(look: object, _: float) -> None:
        looks.append(look)
        if len(looks) == 1:
            raise OSError(11, "no thread")
        is_made_again.set()

    monkeypatch.setattr(module, "in_time", in_time)
    monkeypatch.setattr(module, "LOOK_S", 0.001)
    watching = asyncio.create_task(file.watch(SimpleNamespace(), SimpleNamespace()))  # type: ignore[arg-type]
    again = asyncio.create_task(is_made_again.wait())

    await asyncio.wait({watching, again}, return_when=asyncio.FIRST_COMPLETED)

    watching.cancel()
    assert is_made_again.is_set()
    assert looks == [file._look, file._look]


async def test_what_a_slow_disk_gives_after_the_wait_is_used(
    file: TokenFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread goes on, and removes the file: its code would be lost."""
    handed, is_handed = list[Found](), asyncio.Event()
    late = Found(objection="OLD")
    looks = iter((late, None, None))

    async def hand_over(found: Found, _: object) -> None:
        handed.append(found)
        is_handed.set()

    async def in_time(look: Callable[[], None], _: float) -> None:
        look()
        raise TimeoutError

    @asynccontextmanager
    async def part() -> AsyncIterator[None]:
        yield

    monkeypatch.setattr(module, "in_time", in_time)
    monkeypatch.setattr(module, "LOOK_S", 0.001)
    monkeypatch.setattr(file, "look", lambda: next(looks, None))
    monkeypatch.setattr(file, "hand_over", hand_over)
    watching = asyncio.create_task(file.watch(SimpleNamespace(), SimpleNamespace(part=part)))  # type: ignore[arg-type]

    await asyncio.wait_for(is_handed.wait(), 5)

    watching.cancel()
    assert handed == [late]
