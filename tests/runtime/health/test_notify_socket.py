"""What the service manager hears, over a real socket."""

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.runtime.health.notify_socket import ServiceManager


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ours:
        ours.settimeout(30)
        yield ours


def test_a_message_arrives_as_the_manager_reads_it(
    listening: socket.socket, tmp_path: Path
) -> None:
    listening.bind(str(tmp_path / "notify"))

    ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "notify")}).tell("READY=1", "WATCHDOG=1")

    assert listening.recv(100) == b"READY=1\nWATCHDOG=1"


def test_an_abstract_socket_is_one_that_begins_with_an_at(listening: socket.socket) -> None:
    name = f"vnbot-{os.getpid()}"
    listening.bind(f"\0{name}")

    ServiceManager({"NOTIFY_SOCKET": f"@{name}"}).tell("READY=1")

    assert listening.recv(100) == b"READY=1"


def test_a_text_from_outside_forges_no_message(listening: socket.socket, tmp_path: Path) -> None:
    listening.bind(str(tmp_path / "notify"))
    manager = ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "notify")})

    manager.status("no room\nWATCHDOG=1")
    manager.status("no room\nWATCHDOG=1")
    manager.status("well")

    assert listening.recv(100) == b"STATUS=no room\\x0aWATCHDOG=1"
    assert listening.recv(100) == b"STATUS=well"


@pytest.mark.parametrize(
    "environment", [{}, {"NOTIFY_SOCKET": "/nowhere/at/all"}, {"NOTIFY_SOCKET": "@nobody-listens"}]
)
def test_without_a_manager_nothing_happens(environment: dict[str, str]) -> None:
    assert not ServiceManager(environment).tell("READY=1")


def test_what_a_busy_manager_did_not_hear_is_told_again(
    listening: socket.socket, tmp_path: Path
) -> None:
    listening.bind(str(tmp_path / "notify"))
    manager = ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "notify")})
    while manager.tell("WATCHDOG=1"):
        """Fill its queue."""
    manager.status("halted")
    listening.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while listening.recv(100):
            """Now it has time."""

    manager.status("halted")

    assert listening.recv(100) == b"STATUS=halted"


@pytest.mark.parametrize(
    ("environment", "span"),
    [
        ({"WATCHDOG_USEC": "30000000"}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, 0.0),
        ({"WATCHDOG_USEC": "soon"}, 0.0),
        ({}, 0.0),
    ],
)
def test_a_watchdog_is_ours_only_when_it_says_so(environment: dict[str, str], span: float) -> None:
    assert ServiceManager(environment).watchdog_s == span
