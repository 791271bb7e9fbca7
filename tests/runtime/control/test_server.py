"""Both ends of the control socket, and who is kept from them."""

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from bot.cli.asking import when_given_up
from bot.cli.target import require_none_running
from bot.config.private_files import name_of
from bot.config.problems import ExitCode, OperatorMistake
from bot.runtime.control.server import LOOK_S, ControlServer, handlers_of
from bot.runtime.control.socket import (
    FOLDER,
    LINE_MAX,
    SILENT_S,
    SOCKET,
    NoBotRunning,
    Reply,
    Request,
    ask,
)

SOMEBODY_ELSE = 65_534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as two users")


async def test_a_stop_in_the_midst_of_an_answer_is_no_bug(tmp_path: Path) -> None:
    loop, asked, troubles = asyncio.get_running_loop(), asyncio.Event(), []

    def trouble(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        troubles.append(context["message"])

    async def forever(_: Request) -> Reply:
        asked.set()
        await asyncio.Event().wait()
        return {"ok": True}

    loop.set_exception_handler(trouble)
    before = asyncio.all_tasks()
    server = ControlServer(tmp_path, {"quote": forever}, {})
    await server.start()
    reader, writer = await asyncio.open_unix_connection(tmp_path / FOLDER / SOCKET)
    writer.write(b'{"do": "quote"}\n')
    await asked.wait()

    await server.stop()
    for task in asyncio.all_tasks() - before:
        task.cancel()

    assert await reader.read() == b""
    assert troubles == []
    writer.close()


async def _pong(_: Request) -> Reply:
    return {"ok": True}


@asynccontextmanager
async def serving(state_dir: Path) -> AsyncIterator[None]:
    server = ControlServer(state_dir, {"ping": _pong}, {"bot": "mine"})
    await server.start()
    try:
        yield
    finally:
        await server.stop()


async def ping(state_dir: Path) -> Reply:
    return await asyncio.to_thread(ask, state_dir, {"do": "ping"})


async def test_the_socket_lies_in_a_folder_for_its_owner_alone(tmp_path: Path) -> None:
    async with serving(tmp_path):
        folder = tmp_path / FOLDER

        assert folder.stat().st_mode & 0o777 == 0o700
        assert (folder / SOCKET).stat().st_mode & 0o777 == 0o600
        assert await ping(tmp_path) == {"ok": True, "bot": "mine"}

    assert not (folder / SOCKET).exists()
    with pytest.raises(NoBotRunning):
        await ping(tmp_path)


def until_there(file: Path) -> None:
    give_up = time.monotonic() + 20
    while not file.exists():
        assert time.monotonic() < give_up
        time.sleep(0.01)


@pytest.mark.wire
@pytest.mark.parametrize("whole_folder", [False, True])
async def test_a_socket_that_was_tidied_away_is_there_again(
    tmp_path: Path, whole_folder: bool
) -> None:
    async with serving(tmp_path / "state"):
        if whole_folder:
            shutil.rmtree(tmp_path / "state")
        else:
            (tmp_path / "state" / FOLDER / SOCKET).unlink()
        with pytest.raises(NoBotRunning):
            await ping(tmp_path / "state")
        await asyncio.to_thread(until_there, tmp_path / "state" / FOLDER / SOCKET)
        answer = await ping(tmp_path / "state")

    assert answer == {"ok": True, "bot": "mine"}
    assert not (tmp_path / "state" / FOLDER / SOCKET).exists()


@pytest.mark.wire
async def test_another_bot_s_socket_is_left_alone(tmp_path: Path) -> None:
    async with serving(tmp_path):
        (tmp_path / FOLDER / SOCKET).unlink()
        other = ControlServer(tmp_path, {"ping": _pong}, {"bot": "another"})
        await other.start()
        await asyncio.sleep(LOOK_S * 1.5)
        during = await ping(tmp_path)
    after = await ping(tmp_path)
    await other.stop()

    assert during == after == {"ok": True, "bot": "another"}


async def test_a_state_directory_with_a_long_path_keeps_its_socket_to_itself(
    tmp_path: Path,
) -> None:
    deep = tmp_path / ("d" * 120) / ("e" * 120)
    deep.mkdir(parents=True)

    async with serving(deep):
        assert (deep / FOLDER / SOCKET).is_socket()
        assert (await ping(deep))["ok"] is True


async def refused_by_both_sides(state_dir: Path) -> list[str]:
    """What both server and client say about a folder that they have to refuse."""
    found = []
    for act in (ControlServer(state_dir, {}, {}).start, lambda: ping(state_dir)):
        with pytest.raises(OperatorMistake, match="E-CTL-004") as caught:
            await act()
        assert caught.value.exit_code == ExitCode.DATABASE
        found.append(caught.value.problems[0].message)
    return found


async def test_a_folder_that_is_open_to_others_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir(mode=0o700)
    (tmp_path / FOLDER).chmod(0o770)

    for text in await refused_by_both_sides(tmp_path):
        assert text.endswith(f"(mode 0770). Do: chmod 700 {tmp_path / FOLDER}. Nothing was sent")


async def test_a_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir(mode=0o700)
    (tmp_path / FOLDER).symlink_to(tmp_path / "theirs")

    for text in await refused_by_both_sides(tmp_path):
        assert "is a link" in text


@as_root
async def test_a_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir(mode=0o700)
    os.chown(tmp_path / FOLDER, SOMEBODY_ELSE, SOMEBODY_ELSE)

    for text in await refused_by_both_sides(tmp_path):
        assert f"belongs to user {name_of(SOMEBODY_ELSE)}: run this as that user" in text


LISTEN = f"""
import os, socket
os.chdir("{FOLDER}")
listening = socket.socket(socket.AF_UNIX)
listening.bind("{SOCKET}")
os.setuid({SOMEBODY_ELSE})
listening.listen()
print("ready", flush=True)
taken, _ = listening.accept()
print(taken.recv(100), flush=True)
"""


@as_root
def test_nothing_is_sent_to_a_process_of_somebody_else(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir(mode=0o700)
    command = [sys.executable, "-S", "-c", LISTEN]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE) as thief:
        assert thief.stdout is not None
        assert thief.stdout.readline() == b"ready\n"

        theirs = f"a process of user {name_of(SOMEBODY_ELSE)}, not yours"
        with pytest.raises(OperatorMistake, match=theirs):
            ask(tmp_path, {"do": "ping"})

        assert thief.stdout.read() == b"b''\n"


ASK = f"""
import os, socket
os.chdir("{FOLDER}")
os.setuid({SOMEBODY_ELSE})
asking = socket.socket(socket.AF_UNIX)
asking.connect("{SOCKET}")
asking.sendall(b'{{"do": "ping"}}\\n')
print(asking.makefile().readline(), end="")
"""


@as_root
async def test_somebody_else_is_not_answered_even_where_the_folder_lets_them_in(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path):
        (tmp_path / FOLDER).chmod(0o711)
        (tmp_path / FOLDER / SOCKET).chmod(0o666)
        asked = await asyncio.create_subprocess_exec(
            *(sys.executable, "-S", "-c", ASK), cwd=tmp_path, stdout=subprocess.PIPE
        )
        said, _ = await asked.communicate()

    assert b"E-CTL-004" in said
    assert b"mine" not in said


async def ask_it(state_dir: Path, do: str) -> Reply:
    return await asyncio.to_thread(ask, state_dir, {"do": do})


async def test_a_bot_in_its_first_seconds_is_starting_not_stopped(tmp_path: Path) -> None:
    server = ControlServer(tmp_path, handlers_of({"mode": "live"}), {})
    await server.start()

    status, halt = await ask_it(tmp_path, "status"), await ask_it(tmp_path, "halt")

    assert status["status"]["state"] == "STARTING"  # type: ignore[index]
    assert status["status"]["mode"] == "live"  # type: ignore[index]
    assert (halt["ok"], halt["code"]) == (False, "E-CTL-005")
    await server.stop()


async def test_a_bot_that_has_started_answers_for_itself(tmp_path: Path) -> None:
    async def running(_: Request) -> Reply:
        return {"ok": True, "status": {"state": "RUNNING"}}

    server = ControlServer(tmp_path, handlers_of({}), {})
    await server.start()
    server.serve({"status": running}, {"account": "…001.1"})

    assert await ask_it(tmp_path, "status") == {
        "ok": True,
        "status": {"state": "RUNNING"},
        "account": "…001.1",
    }
    await server.stop()


async def test_an_answer_of_any_length_comes_whole(tmp_path: Path) -> None:
    rows = ["x" * 1_000] * (2 * LINE_MAX // 1_000)

    async def history(_: Request) -> Reply:
        return {"ok": True, "rows": rows}

    server = ControlServer(tmp_path, {"api": history}, {})
    await server.start()

    assert (await ask_it(tmp_path, "api"))["rows"] == rows
    await server.stop()


async def test_a_request_that_is_too_long_is_told_and_not_sent(tmp_path: Path) -> None:
    with pytest.raises(OperatorMistake, match="takes at most 1,048,576 bytes at once") as caught:
        await asyncio.to_thread(ask, tmp_path, {"do": "otp_token", "token": "x" * LINE_MAX})

    assert caught.value.exit_code == ExitCode.USAGE
    assert "xxx" not in str(caught.value)


async def test_a_request_nested_without_end_is_no_bug(tmp_path: Path) -> None:
    async with serving(tmp_path):
        reader, writer = await asyncio.open_unix_connection(tmp_path / FOLDER / SOCKET)
        writer.write(b"[" * 500_000 + b"\n")

        assert b"E-CTL-001" in await reader.readline()
        writer.close()


@contextmanager
def wedged(state_dir: Path) -> Iterator[socket.socket]:
    """A bot that listens but accepts nobody: it hangs, or was stopped in a debugger."""
    (state_dir / FOLDER).mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(state_dir / FOLDER / SOCKET))
        listening.listen(0)
        yield listening


def test_a_bot_that_hangs_and_has_a_full_queue_is_one_that_does_not_answer(tmp_path: Path) -> None:
    with wedged(tmp_path), socket.socket(socket.AF_UNIX) as waiting:
        waiting.connect(str(tmp_path / FOLDER / SOCKET))

        with pytest.raises(TimeoutError):
            ask(tmp_path, {"do": "status"})
        with pytest.raises(OperatorMistake, match="did not answer in time; nothing was changed"):
            require_none_running(tmp_path)


def test_a_bot_that_dies_in_the_midst_of_its_answer_is_gone(tmp_path: Path) -> None:
    def die(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(LINE_MAX)
            listening.close()
            connection.sendall(b'{"ok": tr')

    with wedged(tmp_path) as listening, ThreadPoolExecutor(1) as other:
        other.submit(die, listening)

        with pytest.raises(NoBotRunning):
            ask(tmp_path, {"do": "status"})


def test_a_bot_that_lives_and_gives_no_answer_is_not_said_to_be_gone(tmp_path: Path) -> None:
    def hang_up(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(LINE_MAX)

    with wedged(tmp_path) as listening, ThreadPoolExecutor(1) as other:
        other.submit(hang_up, listening)

        with pytest.raises(OperatorMistake, match="runs, but gave no answer to 'status'") as caught:
            ask(tmp_path, {"do": "status"})

    assert caught.value.exit_code == ExitCode.REFUSED


async def test_bytes_that_are_no_text_reach_the_bot_as_question_marks(tmp_path: Path) -> None:
    asked, reason = list[Request](), os.fsdecode("dừng: sai gi".encode() + b"\xe1")

    async def halt(request: Request) -> Reply:
        asked.append(request)
        return {"ok": True}

    server = ControlServer(tmp_path, {"halt": halt}, {})
    await server.start()
    await asyncio.to_thread(ask, tmp_path, {"do": "halt", "reason": reason})
    await server.stop()

    assert asked == [{"do": "halt", "reason": "dừng: sai gi?"}]


async def test_any_text_can_be_answered(tmp_path: Path) -> None:
    async def status(_: Request) -> Reply:
        return {"ok": True, "reason": "giá\udce1\ud800"}

    server = ControlServer(tmp_path, {"status": status}, {})
    await server.start()
    reply = await ask_it(tmp_path, "status")
    await server.stop()

    assert reply == {"ok": True, "reason": "giá\udce1\ud800"}


async def test_an_answer_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    async def status(_: Request) -> Reply:
        return {"ok": True, "positions": {("AAA", "one"): 100}}

    server = ControlServer(tmp_path, {"status": status}, {})
    await server.start()
    reply = await ask_it(tmp_path, "status")
    await server.stop()

    assert (reply["ok"], reply["code"]) == (False, "E-CTL-006")
    assert "its answer can't be written (TypeError: keys must be str" in str(reply["message"])


# ---------------------------------------------------------------------- who asks and gives up


async def _given_up(state_dir: Path, *requests: Request) -> list[Request]:
    """What a bot still does about requests whose senders have gone before it could look at them."""
    done = list[Request]()

    async def do(request: Request) -> Reply:
        done.append(request)
        return {"ok": True}

    words = ("resume", "stop", "halt", "pause", "status")
    server = ControlServer(state_dir, dict.fromkeys(words, do), {})
    await server.start()
    for request in requests:
        with socket.socket(socket.AF_UNIX) as asker:
            asker.connect(str(state_dir / FOLDER / SOCKET))
            asker.sendall(json.dumps(request).encode() + b"\n")
    await ping_of(state_dir)
    await server.stop()
    return done


async def ping_of(state_dir: Path) -> None:
    """Ask something after everything before it."""
    reader, writer = await asyncio.open_unix_connection(state_dir / FOLDER / SOCKET)
    writer.write(b"{}\n")
    await reader.readline()
    writer.close()


async def test_what_was_given_up_is_not_done_when_the_bot_moves_again(tmp_path: Path) -> None:
    assert await _given_up(tmp_path, {"do": "resume"}, {"do": "stop"}, {"do": "status"}) == []


async def test_what_only_makes_safer_is_done_though_it_was_given_up(tmp_path: Path) -> None:
    pause, halt = {"do": "pause", "entries_only": True}, {"do": "halt", "flatten": True}

    done = await _given_up(tmp_path, pause, halt)

    assert done == [{**pause, "flatten": False}, {**halt, "flatten": False}]


def test_who_waits_for_a_silent_bot_hears_which_process_it_is(tmp_path: Path) -> None:
    silent = list[int]()

    with wedged(tmp_path) as listening:
        listening.listen(5)
        with pytest.raises(TimeoutError):
            ask(tmp_path, {"do": "status"}, timeout_s=SILENT_S + 0.01, on_silence=silent.append)

    assert silent == [os.getpid()]


@pytest.mark.parametrize(
    ("request_", "accepted", "later"),
    [
        ({"do": "status"}, "", "nothing was changed"),
        ({"do": "status"}, "stop", "'stop' was accepted, but its result is not known: bot status"),
        ({"do": "resume"}, "", "'resume' will not be done later either"),
        *(
            ({"do": do}, "", f"'{do}' may be done all the same; see what came of it: bot otp")
            for do in ("otp_request", "otp_submit", "otp_revoke")
        ),
        ({"do": "otp_forget"}, "", "'otp_forget' will not be done later either"),
        ({"do": "pause"}, "", "the bot will still do the 'pause' once it responds again"),
        (
            {"do": "halt", "flatten": True},
            "halt",
            "the bot will still do the 'halt' once it responds again, but sells nothing",
        ),
    ],
)
def test_what_becomes_of_a_request_that_is_given_up_is_said(
    request_: Request, accepted: str, later: str
) -> None:
    assert when_given_up(request_, accepted) == later
