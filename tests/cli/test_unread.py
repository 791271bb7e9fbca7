"""A bot whose output nobody reads goes on, and says afterwards that lines were left out."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from bot.cli import unread
from bot.cli.unread import Unread
from tests.faults.hanging import RESTING, trading

SIZE = 1 << 16


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unread, "PATIENCE_S", 0.01)


@contextmanager
def pipe() -> Iterator[tuple[int, int]]:
    read, write = os.pipe()
    fcntl.fcntl(read, fcntl.F_SETPIPE_SZ, SIZE)
    try:
        yield read, write
    finally:
        os.close(read)
        os.close(write)


def fill(stream: int) -> None:
    """Write until there is no room, as somebody else would."""
    os.set_blocking(stream, False)
    with suppress(BlockingIOError):
        while True:
            os.write(stream, b" " * 4_095 + b"\n")
    os.set_blocking(stream, True)


def test_a_full_pipe_has_no_room_until_somebody_reads() -> None:
    told = Unread()
    with pipe() as (read, write):
        assert told.has_room({write}, 100, 1)
        fill(write)
        assert not told.has_room({write}, 100, 3)
        assert not told.has_room({write}, 100, 2)
        assert told.count == 5
        os.read(read, SIZE)
        assert told.has_room({write}, 100, 1)


@pytest.mark.parametrize("kept", [1, 30_000, 60_000])
def test_a_long_line_that_is_let_through_never_blocks(kept: int) -> None:
    with pipe() as (_, write):
        os.write(write, b" " * kept)
        for size in range(5_000, SIZE, 3_000):
            if Unread().has_room({write}, size, 1):
                os.set_blocking(write, False)
                assert os.write(write, b" " * size) == size
                os.set_blocking(write, True)


def test_a_file_and_a_stream_that_is_closed_always_have_room(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as file:
        number = file.fileno()
        assert Unread().has_room({number}, 100_000, 1)
    assert Unread().has_room({number}, 100, 1)  # the write itself tells


@pytest.mark.wire
@pytest.mark.process
@pytest.mark.timeout(240)
async def test_a_bot_trades_and_answers_while_nobody_reads_its_screen(tmp_path: Path) -> None:
    async with trading(tmp_path) as hanging:
        screen = os.open(f"/proc/{hanging.bot.pid}/fd/1", os.O_WRONLY)
        fill(screen)
        os.close(screen)

        await hanging.ask("cancel", all=True)
        await hanging.until(lambda _: hanging.journalled("CANCELLED") == len(RESTING))
        await hanging.until_told("nobody looks")

        read = hanging.bot.stdout.fileno()
        os.set_blocking(read, False)
        with suppress(BlockingIOError):
            while os.read(read, SIZE):
                pass
        os.set_blocking(read, True)
        await hanging.ask("resume", strategy=None, reason="a look at the screen")
        code, out, err, _ = await hanging.end()

    assert code == 0
    assert "a look at the screen" in out
    assert "CANCEL" not in out
    assert err.count("nobody read this output for a while") == 1
