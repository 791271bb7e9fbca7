"""A process that may open no more files says so once, in words, whatever asyncio says of it."""

import asyncio
import errno
import logging
import os
import resource
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bot.cli.show import LogLines
from bot.runtime.supervisor import NO_MORE_FILES, tell_once_of_files

AGAIN_S = 1.2
"""After a second asyncio wants to accept again."""


@contextmanager
def no_more_files() -> Iterator[None]:
    """Allow no descriptor above the highest in use, and leave none below it free."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(each.name) for each in Path("/proc/self/fd").iterdir())
    filling = [os.open(os.devnull, os.O_RDONLY) for _ in range(highest)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(filling) + 1, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for each in filling:
            os.close(each)


@pytest.mark.skipif(sys.platform != "linux", reason="counts its descriptors in /proc")
async def test_it_is_said_once_and_no_traceback_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    told: list[str] = []
    tell_once_of_files(told.append)
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    with socket.socket() as client:
        client.setblocking(False)
        with no_more_files():
            client.connect_ex(server.sockets[0].getsockname())
            await asyncio.sleep(0.1)
        server.close()  # before asyncio's next attempt, which fails at the closed socket
        await asyncio.sleep(AGAIN_S)

    assert told == [NO_MORE_FILES]
    assert caplog.text == ""


async def test_any_other_failure_of_a_callback_is_logged_as_ever(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told: list[str] = []
    tell_once_of_files(told.append)

    asyncio.get_running_loop().call_soon(int, "no number")
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    assert told == []
    assert "ValueError: invalid literal" in caplog.text


def test_a_library_that_can_open_no_file_gets_a_line_without_its_traceback(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for number in (errno.EMFILE, errno.EIO):
        of = (OSError, OSError(number, "in words"), None)
        LogLines().handle(logging.LogRecord("web", logging.ERROR, "", 0, "it failed", None, of))

    told = capsys.readouterr().err.splitlines()
    assert told == ["it failed: too many open files", "it failed", "  OSError: [Errno 5] in words"]
